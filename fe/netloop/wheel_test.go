package netloop

import (
	"math/rand/v2"
	"testing"
)

// TestWheel plays deadlines of up to an hour against a plain list: none comes early, each at the first look after it, and the wheel
// asks to be looked at in time.
func TestWheel(t *testing.T) {
	var w wheel
	r := rand.New(rand.NewPCG(5, 6))
	at, now := map[uint64]int64{}, int64(0)
	fired := 0
	due := func(key uint64) {
		ms, ok := at[key]
		switch {
		case !ok:
		case ms > now:
			w.add(ms, key)
		default:
			delete(at, key)
			fired++
		}
	}
	const keys = 2000
	for key := range uint64(keys) {
		after := r.Int64N(1 << r.IntN(22))
		at[key] = now + after
		w.add(now+after, key)
		if key%10 == 0 {
			now += r.Int64N(400)
			w.advance(now, due)
		}
		if key%100 != 0 {
			continue
		}
		for k, ms := range at {
			if ms+wheelTick <= now {
				t.Fatalf("at %d key %d of %d has not come", now, k, ms)
			}
		}
	}
	for looks := 0; len(at) > 0; looks++ {
		ms := w.wait(now)
		if ms < 0 || ms > wheelTick*wheelSize || looks > 1e6 {
			t.Fatalf("%d keys are left, and the wheel wants to wait %d ms", len(at), ms)
		}
		now += max(1, int64(ms))
		w.advance(now, due)
		for k, end := range at {
			if end+wheelTick <= now {
				t.Fatalf("at %d key %d of %d has not come", now, k, end)
			}
		}
	}
	if fired != keys {
		t.Errorf("%d of %d came", fired, keys)
	}
	for w.entries > 0 {
		now += 100
		w.advance(now, due)
	}
	if ms := w.wait(now); ms != -1 {
		t.Errorf("an empty wheel waits %d ms", ms)
	}
	w.advance(now+1e9, due) // a process that was stopped for days
	w.add(now+1e9+70, 1)
	if ms := w.wait(now + 1e9); ms < 70 || ms > 70+wheelTick {
		t.Errorf("the wait is %d ms", ms)
	}
}
