package connmgr

import (
	"math/rand/v2"
	"testing"
)

// The wheel calls due for each session not before its second, and at the latest a lap later, whatever is added and removed meanwhile.
func TestWheelAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var sl slab
	var w wheel
	const slots = 3000
	want := make(map[uint32]uint32) // slot -> second
	for i := range uint32(slots) {
		sl.openSlot(i, 1)
	}
	fired := 0
	for now := uint32(0); now < 4000; {
		for range 20 {
			slot := rng.Uint32N(slots)
			ss := sl.at(slot)
			if rng.IntN(4) == 0 {
				w.remove(&sl, ss)
				delete(want, slot)
				continue
			}
			at := now + rng.Uint32N(900)
			w.add(&sl, slot, ss, at)
			want[slot] = at
		}
		step := 1 + rng.Uint32N(3)
		if rng.IntN(50) == 0 {
			step += 700 // the loop was away for more than a lap
		}
		now += step
		w.advance(&sl, now, func(slot uint32, ss *session) {
			at, ok := want[slot]
			if !ok {
				t.Fatalf("slot %d fired but is not in the wheel", slot)
			}
			if at > now { // lazy: a far deadline is looked at early and put back
				w.add(&sl, slot, ss, at)
				return
			}
			fired++
			delete(want, slot)
		})
		for slot, at := range want {
			if at+1 < now-step {
				t.Fatalf("second %d: slot %d was due at %d", now, slot, at)
			}
		}
	}
	if fired < 1000 {
		t.Fatalf("only %d fired", fired)
	}
}

func TestWheelWait(t *testing.T) {
	var sl slab
	var w wheel
	if _, ok := w.wait(); ok {
		t.Fatal("an empty wheel has something to wait for")
	}
	for _, d := range []uint32{1, 2, 63, 64, 65, 200, 511} {
		for _, start := range []uint32{0, 1, 63, 100, 500, 511, 512, 100_000} {
			w = wheel{now: start}
			ss := sl.openSlot(0, 1)
			w.add(&sl, 0, ss, start+d)
			if got, ok := w.wait(); !ok || got != d {
				t.Errorf("now %d, due in %d: wait says %d, %v", start, d, got, ok)
			}
			sl.release(ss)
		}
	}
}

func TestWheelDueMayRemoveOthers(t *testing.T) {
	var sl slab
	var w wheel
	for i := range uint32(10) {
		w.add(&sl, i, sl.openSlot(i, 1), 5)
	}
	var got []uint32
	w.advance(&sl, 5, func(slot uint32, _ *session) {
		got = append(got, slot)
		for i := range uint32(10) {
			w.remove(&sl, sl.at(i))
		}
	})
	if len(got) != 1 {
		t.Fatalf("fired %v, want one", got)
	}
	if _, ok := w.wait(); ok {
		t.Fatal("the wheel should be empty")
	}
}
