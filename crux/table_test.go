package crux

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// fixedHash gives refs hashes that collide a lot: the test is about the holes that removals leave.
type fixedHash struct{ spread uint64 }

func (f fixedHash) hashOf(r ref) uint64 {
	return (uint64(r) * 0x9e3779b97f4a7c15 % f.spread) * (1 << (64 - shardBits) / f.spread)
}

func (t *table) lookup(h uint64, r ref) int {
	for i := t.home(h); t.refs[i] != 0; i = t.next(i) {
		if t.refs[i] == r && t.bytes[i] == uint8(h) {
			return i
		}
	}
	return -1
}

func TestTable(t *testing.T) {
	for _, spread := range []uint64{3, 50, 1 << 40} {
		t.Run(fmt.Sprint("full ", spread), func(t *testing.T) { playTable(t, spread, 13) }) // never grows: clusters wrap around
		t.Run(fmt.Sprint("growing ", spread), func(t *testing.T) { playTable(t, spread, 300) })
	}
}

func playTable(t *testing.T, spread uint64, refs int) {
	rnd := rand.New(rand.NewPCG(3, spread))
	hs := fixedHash{spread}
	var tb table
	in := make(map[ref]bool)
	for step := range 5000 {
		r := ref(1 + rnd.IntN(refs))
		switch {
		case !in[r]:
			if tb.crowded() {
				tb.resize(tb.grown(), hs)
			}
			tb.insert(hs.hashOf(r), r)
			in[r] = true
		default:
			tb.remove(tb.lookup(hs.hashOf(r), r), hs)
			delete(in, r)
		}
		if step%5 != 0 {
			continue
		}
		if tb.n != len(in) {
			t.Fatalf("spread %d, step %d: counts %d, want %d", spread, step, tb.n, len(in))
		}
		for r := ref(1); r <= ref(refs); r++ {
			if got := tb.lookup(hs.hashOf(r), r) >= 0; got != in[r] {
				t.Fatalf("spread %d, step %d: %d found %v, want %v", spread, step, r, got, in[r])
			}
		}
	}
}
