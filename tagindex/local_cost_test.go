package tagindex

import (
	"fmt"
	"runtime"
	"testing"
)

// heap is the live heap in bytes.
func heap() int {
	runtime.GC()
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	return int(ms.HeapAlloc)
}

const (
	shapeConns  = 18000
	shapePrefix = "default\x00"
)

// fill gives each connection a common tag and either a tag of its own or a second common one, each of 24 bytes
// behind the app's prefix.
func fill(l *Local, own bool) {
	key := make([]byte, 0, 64)
	for c := range uint32(shapeConns) {
		l.Join(c, shapePrefix+"room:00000000000000first")
		if own {
			key = fmt.Appendf(key[:0], "%suser:%019d", shapePrefix, c)
			l.JoinBytes(c, key)
		} else {
			l.Join(c, shapePrefix+"room:0000000000000second")
		}
	}
}

func measure(own bool) (perMembership float64, l *Local) {
	before := heap()
	l = NewLocal()
	fill(l, own)
	return float64(heap()-before) / float64(l.Memberships()), l
}

// TestMembershipBytes holds the budget of a membership, both directions: without the keys in a shape
// where two common tags are all there is, and with all that is known of 18,000 unique tags.
func TestMembershipBytes(t *testing.T) {
	common, l := measure(false)
	t.Logf("2 common tags: %.1f B a membership (bar 20, aim 16); Bytes says %.1f", common, float64(l.Bytes())/float64(l.Memberships()))
	if common > 18 {
		t.Errorf("%.1f B a membership, want at most 18", common)
	}
	own, l := measure(true)
	key := float64(len(shapePrefix)+24) / 2
	t.Logf("1 common and 1 unique tag: %.1f B a membership, of that %.0f are bytes of keys; Bytes says %.1f",
		own, key, float64(l.Bytes())/float64(l.Memberships()))
	if own > 43 {
		t.Errorf("%.1f B a membership with everything, want at most 43", own)
	}
	if got, want := float64(l.Bytes()), own*float64(l.Memberships()); got < 0.97*want || got > 1.03*want {
		t.Errorf("Bytes says %.0f, the heap grew by %.0f", got, want)
	}
	for c := range uint32(shapeConns) {
		l.LeaveAll(c, nil)
	}
	if left := l.Bytes(); left > 96<<10 {
		t.Errorf("%d bytes are held after all have left", left)
	}
	runtime.KeepAlive(l)
}

// TestTagChurn: tags that come and go while a few stay must not spread over ever more of the table.
func TestTagChurn(t *testing.T) {
	l := NewLocal()
	for i := range 50_000 {
		l.Join(uint32(i%3000), fmt.Sprint("t", i))
		l.LeaveAll(uint32((i+1500)%3000), nil)
	}
	if l.Tags() != 1500 || len(l.tags.chunks) > 3 || l.words.live > 30 {
		t.Fatalf("%d tags in %d chunks and %d pages", l.Tags(), len(l.tags.chunks), l.words.live)
	}
}

func TestLocalDoesNotAllocate(t *testing.T) {
	l := NewLocal()
	fill(l, true)
	key := []byte(shapePrefix + "room:00000000000000first")
	id, _ := l.Lookup(string(key))
	buf := make([]uint32, 64)
	e, err := Parse("room:00000000000000first && !(vip || user:0000000000000000007)")
	if err != nil {
		t.Fatal(err)
	}
	bound := e.Bind(l, shapePrefix)
	for _, tc := range []struct {
		name string
		f    func()
	}{
		{"join and leave of a known tag", func() {
			l.JoinBytes(20000, key)
			l.Leave(20000, shapePrefix+"room:00000000000000first")
		}},
		{"join and leave of a new tag", func() {
			l.Join(20000, "new")
			l.LeaveAll(20000, nil)
		}},
		{"lookup", func() { l.Lookup(shapePrefix + "room:00000000000000first") }},
		{"walk with a removal inside", func() {
			w := l.Start(id)
			for i := 0; l.Next(&w, buf) > 0; i++ {
				if i == 3 {
					l.Leave(5, shapePrefix+"room:00000000000000first")
				}
			}
			l.JoinBytes(5, key)
		}},
		{"page", func() { l.Page(id, 0, buf) }},
		{"match", func() {
			bound.Match(l, 7)
			bound.Match(l, 8)
		}},
		{"match after tags changed", func() {
			l.Join(20000, "new")
			bound.Match(l, 8)
			l.LeaveAll(20000, nil)
			bound.Match(l, 8)
		}},
	} {
		if n := testing.AllocsPerRun(100, tc.f); n != 0 {
			t.Errorf("%s: %v allocations", tc.name, n)
		}
	}
}

func TestLocalRefuses(t *testing.T) {
	l := NewLocal()
	long := string(make([]byte, MaxKeyLen))
	id, joined, _ := l.Join(MaxConn, long)
	if id == 0 || !joined || !l.Has(MaxConn, id) || l.Key(id) != long {
		t.Fatal("the largest connection and key are not taken")
	}
	l.Join(MaxConn+1, "a")
	l.Join(1, "")
	l.Join(1, long+"x")
	for i := range MaxConnTags + 1 {
		l.Join(2, fmt.Sprint(i))
	}
	if l.Count(2) != MaxConnTags {
		t.Fatalf("a connection has %d tags, limit %d", l.Count(2), MaxConnTags)
	}
	l.maxPages = l.words.live
	l.Join(1, "a")
	if l.Refused() != 5 || l.Memberships() != 1+MaxConnTags {
		t.Fatalf("%d refused, %d memberships; want 5 and %d", l.Refused(), l.Memberships(), 1+MaxConnTags)
	}
	for _, f := range []func(){
		func() { l.Leave(MaxConn+1, "a") }, func() { l.LeaveAll(MaxConn+1, nil) },
		func() { l.Has(1<<31, 1<<31) }, func() { l.Len(1 << 31) }, func() { l.Page(1<<31, 0, nil) },
	} {
		f() // unknown connections and tags are nobody's
	}
	if w := l.Start(1 << 31); w.Open() {
		t.Fatal("a walk over an unknown tag is open")
	}
}

func TestPage(t *testing.T) {
	l := NewLocal()
	for c := range uint32(1000) {
		l.Join(c, "a")
	}
	id, _ := l.Lookup("a")
	seen := map[uint32]int{}
	buf := make([]uint32, 7)
	for cursor, done := uint32(0), false; !done; {
		var n int
		n, cursor, done = l.Page(id, cursor, buf)
		for _, c := range buf[:n] {
			seen[c]++
		}
		if c := uint32(len(seen)); c%2 == 0 { // others leave and join between the pages
			l.Leave(c%100*3+1, "a")
			l.Join(5000+c, "a")
		}
	}
	for c := range uint32(1000) {
		if stays := l.Has(c, id); stays && seen[c] == 0 {
			t.Errorf("connection %d stayed and is on no page", c)
		}
	}
}

func BenchmarkJoinLeaveAll(b *testing.B) {
	l := NewLocal()
	fill(l, true)
	c := uint32(0)
	for b.Loop() {
		l.LeaveAll(c, nil)
		l.Join(c, shapePrefix+"room:00000000000000first")
		l.Join(c, shapePrefix+"room:0000000000000second")
		c = (c + 7919) % shapeConns
	}
}

func BenchmarkWalk(b *testing.B) {
	l := NewLocal()
	fill(l, true)
	id, _ := l.Lookup(shapePrefix + "room:00000000000000first")
	buf := make([]uint32, 256)
	for b.Loop() {
		w := l.Start(id)
		for l.Next(&w, buf) > 0 {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/shapeConns, "ns/member")
}

func BenchmarkMatch(b *testing.B) {
	l := NewLocal()
	fill(l, true)
	e, err := Parse("room:00000000000000first && !vip")
	if err != nil {
		b.Fatal(err)
	}
	bound := e.Bind(l, shapePrefix)
	c := uint32(0)
	for b.Loop() {
		bound.Match(l, c)
		c = (c + 7919) % shapeConns
	}
}
