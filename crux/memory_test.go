package crux

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/klinkio/klink"
)

// population registers users [from, to) with ids of 16 bytes and one device each.
func population(tb testing.TB, e *Embedded, inc klink.Incarnation, from, to int) {
	tb.Helper()
	regs := make([]Registration, 0, 500)
	for i := from; i < to; i++ {
		regs = append(regs, Registration{
			App: "default", User: fmt.Sprintf("user-%011d", i), Device: fmt.Sprintf("device-%09d", i), Incarnation: inc,
			Handle: klink.MakeHandle(uint8(i&7), uint32(i>>3), uint32(1+i%5)), Transport: klink.TransportTLS,
			Attempt: uint64(1 + i%200),
		})
		if len(regs) < cap(regs) && i+1 < to {
			continue
		}
		out, err := e.Register(tb.Context(), regs)
		if err != nil {
			tb.Fatal(err)
		}
		for k := range out {
			if out[k].Verdict != Admitted {
				tb.Fatalf("user %s: verdict %d", regs[k].User, out[k].Verdict)
			}
		}
		regs = regs[:0]
	}
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The budget is 120 bytes of heap for an online user with one device and ids of 16 bytes, measured as a slope.
func TestMemoryPerUser(t *testing.T) {
	e := openStore(t, EmbeddedConfig{})
	inc := registerFE(t, e, "fe1")
	const low, high, bar = 100_000, 500_000, 120
	population(t, e, inc, 0, low)
	before := heapBytes()
	population(t, e, inc, low, high)
	slope := float64(heapBytes()-before) / (high - low)
	t.Logf("%.1f bytes a user", slope)
	if slope > bar {
		t.Errorf("got %.1f bytes a user, want at most %d", slope, bar)
	}
	runtime.KeepAlive(e)
}

func openStore(tb testing.TB, cfg EmbeddedConfig) *Embedded {
	tb.Helper()
	e, err := NewEmbedded(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = e.Close() }) // tests that care close it themselves
	return e
}

func registerFE(tb testing.TB, e *Embedded, id string) klink.Incarnation {
	tb.Helper()
	inc, err := e.RegisterFE(tb.Context(), FE{ID: id, Lease: time.Hour})
	if err != nil {
		tb.Fatal(err)
	}
	return inc
}

// Registering, looking up and logging out allocate their answers and nothing else.
func TestAllocations(t *testing.T) {
	e := openStore(t, EmbeddedConfig{})
	inc := registerFE(t, e, "fe1")
	population(t, e, inc, 0, 1000)
	ctx := t.Context()
	if err := e.Revoke(ctx, "default", "user-99999999999", "pad", time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	gen := uint32(10)
	reg := []Registration{{
		App: "default", User: "user-99999999999", Device: "device-000000007", Incarnation: inc, Transport: klink.TransportTLS,
		TokenIssued: time.Unix(1000, 0),
	}}
	out := []Unregistration{{App: reg[0].App, User: reg[0].User, Device: reg[0].Device, Incarnation: inc}}
	users := []string{"user-99999999999"}
	relog := func() {
		gen++
		reg[0].Handle = klink.MakeHandle(1, 1, gen)
		if _, err := e.Register(ctx, reg); err != nil {
			t.Fatal(err)
		}
		out[0].Handle = reg[0].Handle
		if _, err := e.Unregister(ctx, out); err != nil {
			t.Fatal(err)
		}
	}
	relog()
	for _, c := range []struct {
		name string
		want float64
		call func()
	}{
		{"login and logout", 2, relog}, // one answer slice each
		{"lookup offline", 1, func() { _, _ = e.Lookup(ctx, "default", users) }},
		{"lookup online", 3, func() { _, _ = e.Lookup(ctx, "default", []string{"user-00000000008"}) }}, // users, sessions, device id
		{"revoked", 0, func() { _, _ = e.Revoked(ctx, "default", users[0], "device-000000007", time.Unix(1000, 0)) }},
		{"renew", 0, func() { _, _ = e.RenewFE(ctx, inc) }},
	} {
		if got := testing.AllocsPerRun(500, c.call); got > c.want {
			t.Errorf("%s: got %.0f allocations, want at most %.0f", c.name, got, c.want)
		}
	}
}

func BenchmarkRegister(b *testing.B) {
	e := openStore(b, EmbeddedConfig{})
	inc := registerFE(b, e, "fe1")
	population(b, e, inc, 0, 100_000)
	ctx, gen := b.Context(), uint32(10)
	regs := make([]Registration, 100)
	for i := range regs {
		regs[i] = Registration{
			App: "default", User: fmt.Sprintf("user-%011d", i*997), Device: fmt.Sprintf("device-%09d", i*997), Incarnation: inc,
			Transport: klink.TransportTLS,
		}
	}
	outs := make([]Unregistration, len(regs))
	b.ReportAllocs()
	for b.Loop() { // per operation: 100 logins and 100 logouts
		gen++
		for i := range regs {
			regs[i].Handle = klink.MakeHandle(1, uint32(i), gen)
			outs[i] = Unregistration{App: "default", User: regs[i].User, Device: regs[i].Device, Incarnation: inc, Handle: regs[i].Handle}
		}
		if _, err := e.Register(ctx, regs); err != nil {
			b.Fatal(err)
		}
		if _, err := e.Unregister(ctx, outs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/200, "ns/change")
}

func BenchmarkLookup(b *testing.B) {
	e := openStore(b, EmbeddedConfig{})
	inc := registerFE(b, e, "fe1")
	population(b, e, inc, 0, 100_000)
	ctx, i := b.Context(), 0
	names := make([]string, 4096)
	for k := range names {
		names[k] = fmt.Sprintf("user-%011d", k*23)
	}
	b.ReportAllocs()
	for b.Loop() {
		i++
		k := i & 4095
		if _, err := e.Lookup(ctx, "default", names[k:k+1]); err != nil {
			b.Fatal(err)
		}
	}
}
