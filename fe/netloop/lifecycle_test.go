package netloop

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
)

// TestStaleHandle lets a connection take the slot and the descriptor of one that is gone: the old handle reaches nothing.
func TestStaleHandle(t *testing.T) {
	ts := serve(t, func(c *Config) { c.Loops = 1 })
	for _, tr := range transports {
		p := ts.dial(t, tr)
		roundTrip(t, p, "first")
		e, old := ts.only(t)
		oldFD := int32(-1)
		e.do(func() { oldFD = ts.loops[0].findHandle(old).fd })
		p.Close()
		eventually(t, "it is gone", func() bool { return ts.Stats().Conns == 0 })

		q := ts.dial(t, tr)
		roundTrip(t, q, "second")
		_, h := ts.only(t)
		if h == old || h.Slot() != old.Slot() || h.Gen() == 0 {
			t.Fatalf("%s: slots are not used again: %v, then %v", tr, old, h)
		}
		e.do(func() {
			if fd := ts.loops[0].findHandle(h).fd; fd != oldFD {
				t.Logf("%s: descriptor %d, then %d", tr, oldFD, fd) // another thread of the process may have taken it
			}
			before := ts.loops[0].n.stale.Load()
			if r := e.loop.Send(old, link.NewFrame([]byte("astray"))); r != link.Refused {
				t.Errorf("%s: Send to a stale handle answers %d", tr, r)
			}
			if n := e.loop.PendingBytes(old); n != 0 {
				t.Errorf("%s: %d bytes wait for a stale handle", tr, n)
			}
			e.loop.Close(old, klink.DisconnectKicked, "astray")
			other := klink.MakeHandle(7, h.Slot(), h.Gen())
			if r := e.loop.Send(other, link.NewFrame([]byte("astray"))); r != link.Refused {
				t.Errorf("%s: Send to a handle of another loop answers %d", tr, r)
			}
			if n := ts.loops[0].n.stale.Load() - before; n != 2 {
				t.Errorf("%s: %d calls were counted as stale, want 2", tr, n)
			}
		})
		roundTrip(t, q, "third")
		q.Close()
		eventually(t, "it is gone, too", func() bool { return ts.Stats().Conns == 0 })
	}
}

// TestStaleEvent gives the loop an event of a generation that is over.
func TestStaleEvent(t *testing.T) {
	ts := serve(t, func(c *Config) { c.Loops = 1 })
	p := ts.dial(t, "tcp")
	roundTrip(t, p, "begin")
	e, h := ts.only(t)
	e.do(func() {
		l := ts.loops[0]
		ev := l.events[0]
		ev.Events, ev.Fd, ev.Pad = 0x1f, int32(h.Slot()), int32(h.Gen()+1)
		before := l.n.stale.Load()
		if l.event(&ev); l.n.stale.Load() != before+1 {
			t.Error("a stale event was not counted")
		}
		ev.Fd, ev.Pad = 1<<20, 1 // a slot that never was
		if l.event(&ev); l.n.stale.Load() != before+2 {
			t.Error("an event of no slot was not counted")
		}
	})
	roundTrip(t, p, "still there")
}

func openDescriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestNoLeak opens and closes 5,000 connections, in every way to end, and wants nothing to be left of them.
func TestNoLeak(t *testing.T) {
	for i, engine := range engines {
		ts := serve(t, func(c *Config) { c.Engine = engine })
		churn(t, ts, 50) // whatever is made once
		eventually(t, "the first are gone", func() bool { return ts.Stats().Conns == 0 })
		fds, routines := openDescriptors(t), runtime.NumGoroutine()
		total := 4400
		if i > 0 {
			total = 600
		}
		churn(t, ts, total)
		eventually(t, "all are gone", func() bool { return ts.Stats().Conns == 0 })
		eventually(t, "no descriptor is left", func() bool { return openDescriptors(t) <= fds })
		eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= routines })
		st := ts.Stats()
		var opened, closed uint64
		for _, n := range st.Opened {
			opened += n
		}
		for _, n := range st.Closed {
			closed += n
		}
		if st.Accepted != uint64(total+50) || opened+sum(st.Refused[:]) != st.Accepted || closed != opened {
			t.Errorf("accepted %d, opened %d, refused %v, closed %d", st.Accepted, opened, st.Refused, closed)
		}
		for _, l := range ts.loops {
			if l.conns.live() != 0 || len(l.pre.all) != len(l.pre.free) || int(l.recs.used) != len(l.recs.free) ||
				len(l.kept.all) != len(l.kept.free) || len(l.ins.all) != len(l.ins.free) || len(l.outs.all) != len(l.outs.free) {
				t.Error("a table has entries left")
			}
		}
	}
}

func sum(n []uint64) (s uint64) {
	for _, v := range n {
		s += v
	}
	return s
}

// churn makes n connections over all transports. Some are not opened, some are reset, some are closed by the server.
func churn(t *testing.T, ts *testServer, n int) {
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < n; i += 4 {
				if err := oneLife(ts, i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
}

func oneLife(ts *testServer, i int) error {
	c, err := dialTCP(ts.addr, 0)
	if err != nil {
		return err
	}
	defer c.Close()
	tr := "tcp"
	switch {
	case i%16 == 3:
		tr = "tls"
	case i%16 == 7:
		tr = "wss"
	case i%8 == 5:
		tr = "ws"
	case i%16 == 11:
		_, err := c.Write([]byte("GET /conn")) // and then leaves
		return err
	}
	p, err := ts.upon(c, tr)
	if err != nil {
		return err
	}
	if err := p.send([]byte("life")); err != nil {
		return err
	}
	if b, err := p.recv(); err != nil || string(b) != "life" {
		return fmt.Errorf("%s: %q %w", tr, b, err)
	}
	switch i % 3 {
	case 0:
		return c.SetLinger(0)
	case 1:
		return p.Close()
	}
	return nil
}
