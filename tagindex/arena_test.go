package tagindex

import (
	"math/rand/v2"
	"testing"
)

// TestArena hands blocks out and takes them back at random: none may overlap, and every place that is free must be found again.
func TestArena(t *testing.T) {
	type held struct {
		ref   uint32
		class uint8
		mark  uint32
	}
	r := rand.New(rand.NewPCG(1, 1))
	var a arena
	var out []held
	for i := range 40_000 {
		if grow := i/5000%2 == 0; len(out) == 0 || (r.IntN(4) > 0) == grow {
			h := held{class: 1 + uint8(r.IntN(int(numClasses)-1)), mark: uint32(i)}
			h.ref = a.alloc(h.class)
			block := a.block(h.ref, h.class)
			for j := range block {
				block[j] = h.mark
			}
			out = append(out, h)
		} else {
			j := r.IntN(len(out))
			h := out[j]
			for _, w := range a.block(h.ref, h.class) {
				if w != h.mark {
					t.Fatalf("a block of class %d has %d, not %d: somebody else wrote there", h.class, w, h.mark)
				}
			}
			a.release(h.ref, h.class)
			out[j] = out[len(out)-1]
			out = out[:len(out)-1]
		}
		if i%2500 == 0 {
			checkArena(t, &a, len(out))
		}
	}
	for _, h := range out {
		a.release(h.ref, h.class)
	}
	checkArena(t, &a, 0)
	if a.live != 0 || a.spare == nil {
		t.Fatalf("empty, but %d pages, spare %v", a.live, a.spare != nil)
	}
	pages := len(a.pages)
	for range pages {
		a.alloc(classPage)
	}
	if len(a.pages) != pages || a.spare != nil {
		t.Fatalf("places of pages are not used again: %d, then %d", pages, len(a.pages))
	}
}

// checkArena verifies that the chains hold just the pages with room.
func checkArena(t *testing.T, a *arena, blocks int) {
	t.Helper()
	live, used, room := 0, 0, 0
	for i := range a.pages {
		pi := &a.pages[i]
		if pi.words == nil {
			continue
		}
		live++
		used += int(pi.used)
		if !pi.full(classWords[pi.class]) {
			room++
		}
	}
	for class, p := range a.room {
		for ; p != 0; p = a.pages[p-1].next {
			if pi := &a.pages[p-1]; pi.words == nil || int(pi.class) != class || pi.full(classWords[class]) {
				t.Fatalf("page %d of class %d is in the chain of class %d, full %v", p-1, pi.class, class, pi.full(classWords[class]))
			}
			room--
		}
	}
	if live != a.live || used != blocks || room != 0 {
		t.Fatalf("%d pages of %d, %d blocks of %d, %d pages with room are in no chain", a.live, live, used, blocks, room)
	}
}

// TestListSize grows and shrinks one list: what it holds stays, and its block is never much larger than that.
func TestListSize(t *testing.T) {
	var a arena
	var ref uint32
	var class uint8
	size := func() uint32 {
		if class == classPaged {
			return uint32(len(a.dirs[ref])) * pageWords
		}
		return uint32(classWords[class])
	}
	const most = 5000
	for n := range uint32(most) {
		ref, class = a.resize(ref, class, n, n+1)
		*a.at(ref, class, n) = n
		if s := size(); s < n+1 || n < maxBlock && s > (n+1)*3/2+1 || n >= maxBlock && s > n+pageWords {
			t.Fatalf("%d words have a list of %d", n+1, s)
		}
	}
	for n := uint32(most); n > 0; n-- {
		for i := range n {
			if n%97 == 0 && *a.at(ref, class, i) != i {
				t.Fatalf("of %d words, word %d is %d", n, i, *a.at(ref, class, i))
			}
		}
		ref, class = a.resize(ref, class, n-1, n-1)
		if s := size(); s < n-1 || s > n*2+pageWords*3/2*btou(n > maxBlock/2) {
			t.Fatalf("%d words have a list of %d", n-1, s)
		}
	}
	if a.live != 0 || class != 0 {
		t.Fatalf("empty, but %d pages, class %d", a.live, class)
	}
}

func btou(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
