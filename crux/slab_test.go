package crux

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// A slab against a map: records of all sizes come and go, each keeps its bytes, and at the end the memory is given back.
func TestSlab(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var s slab
	want := make(map[ref][]byte)
	var refs []ref
	check := func(i int) {
		r := refs[i]
		if got := s.bytes(r)[:len(want[r])]; !bytes.Equal(got, want[r]) {
			t.Fatalf("record %d of %d bytes was overwritten", r, len(want[r]))
		}
	}
	for step := range 60_000 {
		if len(refs) > 0 && rnd.IntN(100) < 30+40*(step/10_000%2) {
			i := rnd.IntN(len(refs))
			check(i)
			s.free(refs[i])
			delete(want, refs[i])
			refs[i] = refs[len(refs)-1]
			refs = refs[:len(refs)-1]
			continue
		}
		n := 1 + rnd.IntN(200)
		if rnd.IntN(50) == 0 {
			n = 1 + rnd.IntN(40_000)
		}
		r := s.alloc(n)
		if r == 0 || want[r] != nil {
			t.Fatalf("alloc of %d bytes gave %d, which is in use", n, r)
		}
		if len(s.bytes(r)) < n || !s.fits(r, n) {
			t.Fatalf("alloc of %d bytes gave a slot of %d", n, len(s.bytes(r)))
		}
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		copy(s.bytes(r), b)
		want[r], refs = b, append(refs, r)
	}
	for i := range refs {
		check(i)
		s.free(refs[i])
	}
	for i := range s.chunks {
		if s.chunks[i].data != nil {
			t.Fatalf("chunk %d of class %d has no record and was not given back", i, s.chunks[i].class)
		}
	}
}

// Every size has a class whose slot holds it, is not much larger, and lies on a unit.
func TestSlabClasses(t *testing.T) {
	last := 0
	for n := 1; n <= maxSlot; n++ {
		class, slot := classOf(n)
		if class == classLarge || int(class) >= classCount || slot < n || slot%unitBytes != 0 || slot > n+n/4+4 || slot < last {
			t.Fatalf("%d bytes: class %d with slots of %d", n, class, slot)
		}
		last = slot
	}
	if class, slot := classOf(maxSlot + 1); class != classLarge || slot <= maxSlot {
		t.Fatalf("%d bytes: class %d, slot %d", maxSlot+1, class, slot)
	}
}
