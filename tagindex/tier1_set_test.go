package tagindex

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFESet compares a set with a naive one while its density changes: it must hold the same, and never take more than
// about twice what the better of list and bitmap takes.
func TestFESet(t *testing.T) {
	for _, largest := range []int{20, 300, 3000, MaxFE} {
		r := rand.New(rand.NewPCG(uint64(largest), 1))
		var s feSet
		want := map[uint16]bool{}
		lists, bitmaps := 0, 0
		for i := range 20_000 {
			fe := uint16(r.IntN(largest + 1))
			if i/4000%2 == 1 {
				fe = uint16(r.IntN(largest/8 + 1)) // the large ones become few
			}
			if adding := i/2500%2 == 0; (r.IntN(5) > 0) == adding {
				if s.add(fe) == want[fe] {
					t.Fatalf("add of %d: had %v", fe, want[fe])
				}
				want[fe] = true
			} else {
				if s.remove(fe) != want[fe] {
					t.Fatalf("remove of %d: had %v", fe, want[fe])
				}
				delete(want, fe)
			}
			if s.bitmap {
				bitmaps++
			} else {
				lists++
			}
			if int(s.n) != len(want) || len(s.words) > 2*len(want)+1 || len(s.words) > largest/16+2 {
				t.Fatalf("largest %d: %d of %d members in %d words, bitmap %v", largest, s.n, len(want), len(s.words), s.bitmap)
			}
			if i%500 == 0 {
				var all []uint16
				for fe := range want {
					all = append(all, fe)
				}
				slices.Sort(all)
				if got := s.append(nil); !slices.Equal(got, all) {
					t.Fatalf("has %v, want %v", got, all)
				}
			}
		}
		if lists == 0 || bitmaps == 0 {
			t.Errorf("largest %d: %d times a list, %d times a bitmap: one was never tested", largest, lists, bitmaps)
		}
	}
}

// TestFESetFarAway: one FE with a large number must not make a small bitmap large.
func TestFESetFarAway(t *testing.T) {
	var s feSet
	for fe := range uint16(40) {
		s.add(fe)
	}
	if !s.bitmap {
		t.Fatal("40 neighbours are no bitmap")
	}
	s.add(MaxFE)
	if s.bitmap || len(s.words) != 41 || !s.has(MaxFE) || !s.has(39) {
		t.Fatalf("bitmap %v, %d words", s.bitmap, len(s.words))
	}
}
