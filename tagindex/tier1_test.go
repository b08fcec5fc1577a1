package tagindex

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// tier1Model is the index as a naive map.
type tier1Model struct {
	t   testing.TB
	x   *Tier1
	fes map[Key]map[uint16]bool
}

func newTier1Model(t testing.TB) *tier1Model {
	return &tier1Model{t: t, x: NewTier1(), fes: map[Key]map[uint16]bool{}}
}

func (m *tier1Model) add(fe uint16, k Key) {
	m.t.Helper()
	had := m.fes[k][fe]
	if m.x.Add(fe, k) == had {
		m.t.Fatalf("Add(%d, %x): had %v, changed as well", fe, k, had)
	}
	if m.fes[k] == nil {
		m.fes[k] = map[uint16]bool{}
	}
	m.fes[k][fe] = true
}

func (m *tier1Model) drop(fe uint16, k Key) {
	if delete(m.fes[k], fe); len(m.fes[k]) == 0 {
		delete(m.fes, k)
	}
}

func (m *tier1Model) remove(fe uint16, k Key) {
	m.t.Helper()
	had := m.fes[k][fe]
	if m.x.Remove(fe, k) != had {
		m.t.Fatalf("Remove(%d, %x): had %v, changed not", fe, k, had)
	}
	m.drop(fe, k)
}

func (m *tier1Model) removeFE(fe uint16) {
	m.t.Helper()
	want := 0
	for k, set := range m.fes {
		if set[fe] {
			want++
			m.drop(fe, k)
		}
	}
	if got := m.x.RemoveFE(fe); got != want {
		m.t.Fatalf("RemoveFE(%d) = %d, want %d", fe, got, want)
	}
}

func (m *tier1Model) tag(k Key) {
	m.t.Helper()
	want := make([]uint16, 0, len(m.fes[k]))
	for fe := range m.fes[k] {
		want = append(want, fe)
	}
	slices.Sort(want)
	if got := m.x.AppendFEs(nil, k); !slices.Equal(got, want) || m.x.Count(k) != len(want) {
		m.t.Fatalf("tag %x: FEs %v, count %d, want %v", k, got, m.x.Count(k), want)
	}
}

func (m *tier1Model) check() {
	m.t.Helper()
	entries := 0
	for k, set := range m.fes {
		m.tag(k)
		entries += len(set)
	}
	if st := m.x.Stats(); st.Tags != len(m.fes) || st.Entries != entries || m.x.Len() != len(m.fes) || m.x.Entries() != entries {
		m.t.Fatalf("stats %+v, want %d tags and %d entries", st, len(m.fes), entries)
	}
	for i := range m.x.shards {
		if err := checkTable(&m.x.shards[i].table); err != nil {
			m.t.Fatalf("shard %d: %v", i, err)
		}
	}
}

// checkTable verifies order, and that probing from its home reaches each slot.
func checkTable(t *table) error {
	var last uint64
	n, run := uint32(0), uint32(0) // run: where the present row of used places began
	for i := range t.places() {
		v := *t.at(i)
		if v == 0 {
			run = i + 1
			continue
		}
		n++
		if home := t.home(v); v <= last || home < run || home > i {
			return fmt.Errorf("place %d: slot %x after %x, home %d, row from %d", i, v, last, home, run)
		}
		last = v
	}
	if n != t.n {
		return fmt.Errorf("%d slots, counts %d", n, t.n)
	}
	return nil
}

// keys makes n keys. crowded ones are all in one shard and at home in its last or its middle place.
func keys(r *rand.Rand, n int, crowded bool) []Key {
	ks := make([]Key, n)
	for i := range ks {
		ks[i] = Key(r.Uint64() >> (64 - KeyBits))
		if crowded {
			ks[i] = Key(3)<<48 | Key(0xffffffff-uint64(i%2)<<31)<<16 | Key(i)
		}
	}
	return ks
}

func TestTier1AgainstModel(t *testing.T) {
	for _, shape := range []struct {
		name           string
		keys, fes, ops int
		crowded        bool
		maxSets        int
	}{
		{"few tags on many FEs", 12, 3000, 60000, false, maxShardOf},
		{"many tags on few FEs", 30000, 12, 120000, false, maxShardOf},
		{"one shard", 600, 20, 20000, true, maxShardOf},
		{"no room for sets", 60, 40, 20000, true, 3},
	} {
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(3, 4))
			m := newTier1Model(t)
			m.x.maxSets = shape.maxSets
			ks := keys(r, shape.keys, shape.crowded)
			fe := func() uint16 {
				if n := r.IntN(shape.fes + 1); n < shape.fes {
					return uint16(n)
				}
				return MaxFE
			}
			for i := range shape.ops {
				growing := i/(shape.ops/6)%2 == 0
				switch k := ks[r.IntN(len(ks))]; {
				case r.IntN(2000) == 0:
					m.removeFE(fe())
				case r.IntN(4) == 0 != growing:
					m.add(fe(), k)
				default:
					m.remove(fe(), k)
				}
				if i%(shape.ops/6) == 0 {
					m.check()
				}
			}
			m.check()
			for f := range shape.fes {
				m.removeFE(uint16(f))
			}
			m.removeFE(MaxFE)
			m.check()
			for i := range m.x.shards {
				if s := &m.x.shards[i]; s.table.pages != nil || s.sets != nil {
					t.Fatalf("shard %d is empty but has %d pages and %d sets", i, len(s.table.pages), len(s.sets))
				}
			}
		})
	}
}

func TestTier1RefusesLargeNumbers(t *testing.T) {
	x := NewTier1()
	if x.Add(MaxFE+1, 1) || x.Remove(MaxFE+1, 1) || x.RemoveFE(MaxFE+1) != 0 {
		t.Fatal("an FE above the limit is taken")
	}
	if st := x.Stats(); st.Refused != 1 || st.Entries != 0 {
		t.Fatalf("stats %+v", st)
	}
}

// TestTier1Concurrent has readers that must always see the tags of one FE while others come and go. Run with -race.
func TestTier1Concurrent(t *testing.T) {
	x := NewTier1()
	r := rand.New(rand.NewPCG(5, 6))
	ks := keys(r, 2000, false)
	for _, k := range ks {
		x.Add(500, k)
	}
	var wg sync.WaitGroup
	for w := range uint16(3) {
		wg.Go(func() {
			for round := range 4 {
				for i, k := range ks {
					x.Add(w*20+uint16(i%20), k)
					if round%2 == 1 {
						x.Remove(w*20+uint16(i%20), k)
					}
				}
				x.RemoveFE(w*20 + 3)
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			var buf []uint16
			for range 5 {
				for _, k := range ks {
					if buf = x.AppendFEs(buf[:0], k); !slices.Contains(buf, 500) {
						t.Errorf("tag %x lost its FE, has %v", k, buf)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

func FuzzTier1(f *testing.F) {
	f.Add([]byte{0, 1, 1, 0, 2, 1, 1, 1, 1, 2, 2, 0})
	long := []byte{}
	for i := range byte(40) {
		long = append(long, 0, i*7, i%3)
	}
	for i := range byte(40) {
		long = append(long, 1, i*7, i%3)
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, ops []byte) {
		m := newTier1Model(t)
		for ; len(ops) >= 3; ops = ops[3:] {
			fe := uint16(ops[1])
			k := Key(binary.BigEndian.Uint16([]byte{0, ops[2] % 8}))<<45 | Key(ops[2]/8)
			switch ops[0] % 8 {
			case 0, 1, 2, 3:
				m.add(fe, k)
			case 4, 5, 6:
				m.remove(fe, k)
			default:
				m.removeFE(fe)
			}
		}
		m.check()
	})
}
