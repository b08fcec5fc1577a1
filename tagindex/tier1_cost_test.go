package tagindex

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
)

// grow adds tags until there are n. Each is on one of 1,000 FEs; with several, every tenth is on 4 and
// every hundredth on 40.
func grow(x *Tier1, r *rand.Rand, from, n int, several bool) {
	for i := from; i < n; i++ {
		k := Key(r.Uint64() >> (64 - KeyBits))
		fes := 1
		switch {
		case several && i%100 == 0:
			fes = 40
		case several && i%10 == 0:
			fes = 4
		}
		for range fes {
			x.Add(uint16(r.IntN(1000)), k)
		}
	}
}

// TestTier1Bytes holds the budget of tier 1 at a million tags, and on the way there.
func TestTier1Bytes(t *testing.T) {
	for _, several := range []bool{false, true} {
		r := rand.New(rand.NewPCG(7, 8))
		before := heap()
		x := NewTier1()
		grow(x, r, 0, 250_000, several)
		worst := 0.0
		for n := 250_000; n < 1_000_000; n += 25_000 {
			grow(x, r, n, n+25_000, several)
			st := x.Stats()
			worst = max(worst, float64(st.Bytes)/float64(st.Entries))
		}
		entries := float64(x.Entries())
		got := float64(heap()-before) / entries
		t.Logf("1,000,000 tags, several FEs %v: %.0f entries, %.2f B an entry (bar 24, aim 16), at worst %.2f on the way from 250,000; Bytes says %.2f",
			several, entries, got, worst, float64(x.Stats().Bytes)/entries)
		if got > 16 || worst > 20 {
			t.Errorf("%.1f B an entry, at worst %.1f; want at most 16 and 20", got, worst)
		}
		if b := float64(x.Stats().Bytes) / entries; b < 0.95*got || b > 1.05*got {
			t.Errorf("Bytes says %.2f B an entry, the heap grew by %.2f", b, got)
		}
		runtime.KeepAlive(x)
	}
}

// TestTier1GivesBack: when most tags are gone, so is most of the memory.
func TestTier1GivesBack(t *testing.T) {
	x := NewTier1()
	r := rand.New(rand.NewPCG(13, 14))
	ks := keys(r, 600_000, false)
	for _, k := range ks {
		x.Add(1, k)
	}
	for n := len(ks); n > 200_000; n-- {
		x.Remove(1, ks[n-1])
	}
	if st := x.Stats(); st.Entries != 200_000 || st.Bytes > 16*st.Entries {
		t.Fatalf("%d entries in %d bytes", st.Entries, st.Bytes)
	}
}

func TestTier1DoesNotAllocate(t *testing.T) {
	x := NewTier1()
	r := rand.New(rand.NewPCG(9, 10))
	grow(x, r, 0, 50_000, true)
	k := Key(12345) << 30
	x.Add(7, k)
	x.Add(9, k)
	buf := make([]uint16, 0, 64)
	for name, f := range map[string]func(){
		"read":           func() { buf = x.AppendFEs(buf[:0], k) },
		"count":          func() { x.Count(k) },
		"known":          func() { x.Add(7, k) },
		"add and remove": func() { x.Add(8, k); x.Remove(8, k) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// rss is the resident memory of this process in bytes.
func rss(b *testing.B) int {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("no /proc here: ", err)
	}
	pages, err := strconv.Atoi(string(bytes.Fields(data)[1]))
	if err != nil {
		b.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// BenchmarkTier1TenMillion reports what 10 million tags over 1,000 FEs cost in resident memory, as the process is after
// loading, and what an addition, a read among them and the removal of one FE cost.
func BenchmarkTier1TenMillion(b *testing.B) {
	for b.Loop() {
		debug.FreeOSMemory()
		r := rand.New(rand.NewPCG(11, 12))
		before := rss(b)
		x := NewTier1()
		start := b.Elapsed()
		grow(x, r, 0, 10_000_000, false)
		added := b.Elapsed()
		entries := float64(x.Entries())
		size := float64(rss(b)-before) / entries
		fmt.Printf(`{"bench":"tier1","case":"10M tags, 1000 FEs","metric":"rss_per_entry_bytes","value":%.2f,"unit":"B","bar":24,"aim":16}`+"\n", size)
		b.ReportMetric(size, "rssB/entry")
		b.ReportMetric(float64((added-start).Nanoseconds())/entries, "ns/add")

		var buf []uint16
		start = b.Elapsed()
		for range 1_000_000 {
			buf = x.AppendFEs(buf[:0], Key(r.Uint64()>>(64-KeyBits)))
		}
		b.ReportMetric(float64((b.Elapsed()-start).Nanoseconds())/1e6, "ns/read")
		start = b.Elapsed()
		x.RemoveFE(5)
		b.ReportMetric(float64((b.Elapsed() - start).Milliseconds()), "ms/RemoveFE")
		runtime.KeepAlive(x)
	}
}
