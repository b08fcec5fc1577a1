package tagindex

import (
	"fmt"
	"slices"
	"testing"
)

func TestJoinAndLeave(t *testing.T) {
	l := NewLocal()
	id, joined, first := l.Join(7, "a")
	if id == 0 || !joined || !first {
		t.Fatalf("first join: %d %v %v", id, joined, first)
	}
	if id2, joined, first := l.Join(7, "a"); id2 != id || joined || first {
		t.Fatalf("again: %d %v %v", id2, joined, first)
	}
	if _, joined, first := l.Join(8, "a"); !joined || first {
		t.Fatalf("second: %v %v", joined, first)
	}
	if got, ok := l.Lookup("a"); !ok || got != id || l.Len(id) != 2 || l.Key(id) != "a" || !l.Has(7, id) || l.Has(9, id) {
		t.Fatalf("lookup: %d %v len %d key %q", got, ok, l.Len(id), l.Key(id))
	}
	if left, last := l.Leave(7, "a"); !left || last {
		t.Fatalf("leave: %v %v", left, last)
	}
	var gone []string
	l.LeaveAll(8, func(k string) { gone = append(gone, k) })
	if len(gone) != 1 || gone[0] != "a" || l.Tags() != 0 || l.Memberships() != 0 {
		t.Fatalf("gone %q, %d tags, %d memberships", gone, l.Tags(), l.Memberships())
	}
	if _, ok := l.Lookup("a"); ok {
		t.Fatal("an empty tag is found")
	}
}

// walkTag makes a tag with members 0 to n-1 and opens a walk over it.
func walkTag(n uint32) (*Local, ID, Walk) {
	l := NewLocal()
	var id ID
	for c := range n {
		id, _, _ = l.Join(c, "a")
	}
	return l, id, l.Start(id)
}

// rest runs a walk to its end.
func rest(l *Local, w *Walk) (met []uint32) {
	var buf [2]uint32
	for n := l.Next(w, buf[:]); n > 0; n = l.Next(w, buf[:]) {
		met = append(met, buf[:n]...)
	}
	return met
}

func TestWalkSkipsNobodyWhenMembersLeave(t *testing.T) {
	for leaves := range uint32(6) {
		for before := range 7 {
			l, _, w := walkTag(6)
			met := make([]uint32, before)
			if before > 0 {
				met = met[:l.Next(&w, met)]
			}
			l.Leave(leaves, "a")
			met = append(met, rest(l, &w)...)
			slices.Sort(met)
			want := []uint32{0, 1, 2, 3, 4, 5}
			if int(leaves) < 6-before { // not met before it left
				want = slices.Delete(want, int(leaves), int(leaves)+1)
			}
			if !slices.Equal(met, want) {
				t.Errorf("%d leaves after %d were met: met %v, want %v", leaves, before, met, want)
			}
		}
	}
}

func TestWalkMeetsNobodyTwice(t *testing.T) {
	for rejoins := range uint32(6) {
		for before := range 6 {
			l, _, w := walkTag(6)
			met := make([]uint32, before)
			if before > 0 {
				met = met[:l.Next(&w, met)]
			}
			l.Leave(rejoins, "a")
			l.Join(rejoins, "a")
			for c := uint32(100); c < 103; c++ {
				l.Join(c, "a")
			}
			met = append(met, rest(l, &w)...)
			seen := map[uint32]bool{}
			for _, c := range met {
				if seen[c] || c >= 100 {
					t.Errorf("%d rejoins after %d were met: met %v", rejoins, before, met)
				}
				seen[c] = true
			}
		}
	}
}

// TestWalkNotInRecycledSlot: a connection ends, its slot goes to a new one that takes the same tag.
func TestWalkNotInRecycledSlot(t *testing.T) {
	l, _, w := walkTag(6)
	l.LeaveAll(2, nil)
	l.Join(2, "a")
	if met := rest(l, &w); slices.Contains(met, 2) || len(met) != 5 {
		t.Errorf("met %v", met)
	}
}

// TestWalkKeepsTheID: a tag that empties under a walk is not another tag before the walk is over.
func TestWalkKeepsTheID(t *testing.T) {
	for _, stop := range []bool{true, false} {
		l, id, w := walkTag(3)
		second := l.Start(id)
		for c := range uint32(3) {
			if _, last := l.Leave(c, "a"); last != (c == 2) {
				t.Fatalf("leave of %d: last %v", c, last)
			}
		}
		if _, ok := l.Lookup("a"); ok || l.Tags() != 0 {
			t.Fatal("an empty tag is found")
		}
		if other, _, _ := l.Join(9, "b"); other == id {
			t.Fatal("the ID of a tag under a walk was given away")
		}
		if again, _, first := l.Join(9, "a"); again != id || !first {
			t.Fatalf("the tag came back as %d, first %v", again, first)
		}
		l.LeaveAll(9, nil)
		if stop {
			l.Stop(&w)
			l.Stop(&second)
		} else if met := append(rest(l, &w), rest(l, &second)...); len(met) != 0 {
			t.Fatalf("met %v", met)
		}
		if l.Key(id) != "" || w.Open() || second.Open() {
			t.Fatal("the tag is still there after its walks")
		}
	}
}

// TestStaleWalk: a copy of a walk that has ended must not touch the one that uses its place now.
func TestStaleWalk(t *testing.T) {
	l, id, w := walkTag(3)
	stale := w
	l.Stop(&w)
	l.Stop(&w)
	fresh := l.Start(id)
	var buf [8]uint32
	if n := l.Next(&stale, buf[:]); n != 0 {
		t.Fatalf("a stale walk gives %d members", n)
	}
	l.Stop(&stale)
	if met := rest(l, &fresh); len(met) != 3 {
		t.Fatalf("met %v", met)
	}
}

func ExampleLocal_Start() {
	l := NewLocal()
	for c := range uint32(5) {
		l.Join(c, "room:1")
	}
	id, _ := l.Lookup("room:1")
	w := l.Start(id)
	buf := make([]uint32, 2)
	for n := l.Next(&w, buf); n > 0; n = l.Next(&w, buf) {
		fmt.Println(buf[:n])
		l.LeaveAll(0, nil) // others may go between the pieces
	}
	// Output:
	// [4 3]
	// [1 2]
}
