package tls13

import (
	"math/rand/v2"
	"testing"
)

// fleetOf makes pairs of records with keys of their own.
func fleetOf(t *testing.T, n int) []*conn {
	out := make([]*conn, n)
	for i := range out {
		out[i] = pair(t, allSuites[i%len(allSuites)])
	}
	return out
}

// TestCacheSharedByConnections runs more connections over a cache than fit, with drops, and every record must arrive whatever was evicted.
func TestCacheSharedByConnections(t *testing.T) {
	for _, size := range []int{0, 1, 2, 7, 64} {
		conns := fleetOf(t, 40)
		c, peers := NewCache(size), NewCache(64)
		rng := rand.New(rand.NewPCG(1, uint64(size)))
		for range 2000 {
			i := rng.IntN(len(conns))
			key := uint64(i) << 32 // handles differ in high bits only, too
			switch rng.IntN(12) {
			case 0:
				c.Drop(key)
			case 1:
				w, err := conns[i].r.AppendKeyUpdate(c, key, nil)
				if err != nil {
					t.Fatal(err)
				}
				if ev, _, err := conns[i].raw.Open(peers, key, w); err != nil || ev != EventKeyUpdate {
					t.Fatal(ev, err)
				}
			default:
				w, err := conns[i].r.AppendSeal(c, key, nil, []byte{byte(i)})
				if err != nil {
					t.Fatal(err)
				}
				for len(w) > 0 {
					n, _, _ := RecordLen(w)
					ev, got, err := conns[i].raw.Open(peers, key, w[:n])
					if err != nil || ev == EventData && got[0] != byte(i) {
						t.Fatalf("size %d: event %d, %v", size, ev, err)
					}
					w = w[n:]
				}
				if w, err = conns[i].raw.AppendSeal(peers, key, nil, []byte{byte(i)}); err != nil {
					t.Fatal(err)
				}
				for len(w) > 0 {
					n, _, _ := RecordLen(w)
					if _, _, err := conns[i].r.Open(c, key, w[:n]); err != nil {
						t.Fatal(err)
					}
					w = w[n:]
				}
			}
			if st := c.Stats(); st.Entries > size {
				t.Fatalf("%d entries, limit %d", st.Entries, size)
			}
			checkTable(t, c)
		}
		st := c.Stats()
		if (st.Evictions > 0) != (size > 0 && size < len(conns)) || st.Misses == 0 || (st.Hits == 0) != (size == 0) {
			t.Errorf("size %d: %+v", size, st)
		}
	}
}

// checkTable proves that each live entry is found, once, and no other.
func checkTable(t *testing.T, c *Cache) {
	t.Helper()
	live, filled := 0, 0
	for i := range c.entries {
		if !c.entries[i].live {
			continue
		}
		live++
		if got, _ := c.find(c.entries[i].key); got != i {
			t.Fatalf("entry %d is found as %d", i, got)
		}
	}
	for _, slot := range c.table {
		if slot != 0 {
			filled++
		}
	}
	if live != filled || live != c.Stats().Entries {
		t.Fatalf("%d live entries, %d slots, stats %d", live, filled, c.Stats().Entries)
	}
}

func TestCacheHitsWhileItFits(t *testing.T) {
	conns := fleetOf(t, 8)
	c := NewCache(8)
	for range 10 {
		for i, p := range conns {
			if _, err := p.r.AppendSeal(c, uint64(i), nil, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if st := c.Stats(); st.Misses != 8 || st.Hits != 72 || st.Evictions != 0 {
		t.Errorf("%+v, want 8 misses and 72 hits", st)
	}
}

// A busy connection stays while idle ones pass through: CLOCK gives it a second chance.
func TestCacheKeepsTheBusy(t *testing.T) {
	conns := fleetOf(t, 30)
	c := NewCache(3)
	seal := func(i int) {
		if _, err := conns[i].r.AppendSeal(c, uint64(i), nil, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	seal(0)
	before := c.Stats().Misses
	for i := 1; i < len(conns); i++ {
		seal(i)
		seal(0)
	}
	if extra := c.Stats().Misses - before - uint64(len(conns)-1); extra > 1 {
		t.Errorf("the busy connection was evicted %d times", extra)
	}
}

// Sealing on a connection that is evicted each time makes the AEAD and nothing else: the cache itself does not allocate.
func TestCacheEvictionAllocatesTheAEADOnly(t *testing.T) {
	conns := []*conn{pair(t, suiteChaCha20), pair(t, suiteChaCha20)}
	c := NewCache(1)
	dst := make([]byte, 0, 64)
	i := 0
	n := testing.AllocsPerRun(200, func() {
		i ^= 1
		var err error
		if dst, err = conns[i].r.AppendSeal(c, uint64(i), dst[:0], []byte("x")); err != nil {
			t.Fatal(err)
		}
	})
	if n > 1 {
		t.Errorf("%v allocations with an eviction, want the one of the AEAD", n)
	}
}

// TestNonceReuse seals with a copy that fell behind, and with one from before a KeyUpdate.
func TestNonceReuse(t *testing.T) {
	for _, size := range []int{0, 4} {
		c := pair(t, suiteAES128)
		cache := NewCache(size)
		old := c.r
		if _, err := c.r.AppendSeal(cache, connKey, nil, []byte("first")); err != nil {
			t.Fatal(err)
		}
		wantMisuse(t, ErrNonceReuse, func() error {
			_, err := old.AppendSeal(cache, connKey, nil, []byte("second"))
			return err
		})
		old = c.r
		if _, err := c.r.AppendKeyUpdate(cache, connKey, nil); err != nil {
			t.Fatal(err)
		}
		wantMisuse(t, ErrNonceReuse, func() error {
			_, err := old.AppendSeal(cache, connKey, nil, []byte("old key"))
			return err
		})
		if _, err := c.r.AppendSeal(cache, connKey, nil, []byte("the real one goes on")); err != nil {
			t.Fatal(err)
		}
	}
}

// The AEAD of a replaced key goes at once, not when the connection is used next.
func TestKeyUpdateDropsTheAEAD(t *testing.T) {
	c := pair(t, suiteAES128)
	entry := func() *entry {
		i, _ := c.cache.find(connKey)
		return &c.cache.entries[i]
	}
	if _, err := c.r.AppendSeal(c.cache, connKey, nil, []byte("x")); err != nil {
		t.Fatal(err)
	}
	data(t, c.open(c.send(typeApplication, 'x')))
	if entry().seal == nil || entry().open == nil {
		t.Fatal("not cached")
	}
	c.open(c.send(typeHandshake, 24, 0, 0, 1, 1))
	if entry().open != nil || entry().seal == nil {
		t.Error("the old read key is kept, or the write key is gone before its update")
	}
	if _, err := c.r.AppendPending(c.cache, connKey, nil); err != nil {
		t.Fatal(err)
	}
	if entry().seal != nil {
		t.Error("the old write key is kept")
	}
}

// A cache that missed KeyUpdates, because the connection was elsewhere meanwhile, does not use its old AEADs.
func TestCacheBehindTheRecord(t *testing.T) {
	c := pair(t, suiteAES256)
	elsewhere := NewCache(1)
	pass := func(cache *Cache, wire []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range openAll(&c.raw, c.rawC, wire) {
			if e.err != nil {
				t.Fatal(e.err)
			}
		}
		if wire, err = c.raw.AppendSeal(c.rawC, connKey, nil, []byte("up")); err != nil {
			t.Fatal(err)
		}
		for _, e := range openAll(&c.r, cache, wire) {
			if e.err != nil {
				t.Fatal(e.err)
			}
		}
	}
	wire, err := c.r.AppendSeal(c.cache, connKey, nil, []byte("here"))
	pass(c.cache, wire, err)
	wire, err = c.r.AppendKeyUpdate(elsewhere, connKey, nil) // the peer answers, so both directions change
	pass(elsewhere, wire, err)
	wire, err = c.r.AppendSeal(c.cache, connKey, nil, []byte("back"))
	pass(c.cache, wire, err)
}
