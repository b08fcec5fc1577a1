package sdk

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

// slow is a handler whose push callback waits for leave.
type slow struct {
	Callbacks
	leave chan struct{}
	mu    sync.Mutex
	got   []string
}

func newSlow() *slow {
	s := &slow{leave: make(chan struct{})}
	add := func(format string, args ...any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, fmt.Sprintf(format, args...))
	}
	s.Callbacks = Callbacks{
		Push:   func(p *Push) { <-s.leave; add("%s", p.Payload.Data) },
		Gap:    func(g *Gap) { add("gap %d %s %v", g.Count, g.Reason, g.Local) },
		Status: func(st *Status) { add("%v", st.State) },
	}
	return s
}

func (s *slow) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, ", ")
}

// A slow callback holds up neither the connection nor the bounds, and what is dropped is told in its place.
func TestSlowCallbackGetsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSlow()
		var at *peer
		n := &network{t: t, script: func(_ int, p *peer) { at = p; p.accept(nil); p.serve(nil) }}
		c, _ := n.connect(func(c *Config) { c.Handler, c.QueueEvents = h, 3 })
		for i := range 10 {
			at.send(pushFrame("1", fmt.Sprint(i)))
			synctest.Wait() // the first is in the callback when the others come
		}
		at.send(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Gap{Gap: &klinkv1.Gap{Count: 2, Reason: "slow_consumer"}}})
		time.Sleep(10 * time.Minute) // the heartbeats go on
		synctest.Wait()
		if c.Status().State != StateConnected || c.Stats().Connects != 1 {
			t.Errorf("%+v", c.Status())
		}
		close(h.leave)
		synctest.Wait()
		at.send(pushFrame("1", "again"))
		synctest.Wait()
		want := "connecting, connected, 0, 1, 2, 3, gap 6 client_queue true, gap 2 slow_consumer false, again"
		if got := h.all(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		if s := c.Stats(); s.Dropped != 6 || s.Pushes != 11 || s.Gaps != 1 {
			t.Errorf("counted %+v", s)
		}
	})
}

func TestQueueIsBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSlow()
		var at *peer
		n := &network{t: t, script: func(_ int, p *peer) { at = p; p.accept(nil); p.serve(nil) }}
		n.connect(func(c *Config) { c.Handler, c.QueueBytes = h, 100 })
		at.send(pushFrame("", "first"))
		synctest.Wait()                 // it is in the callback
		big := strings.Repeat("x", 500) // one alone always fits, else it could never be told
		at.send(pushFrame("", big), pushFrame("", "a"), pushFrame("", "b"))
		synctest.Wait()
		h.leave <- struct{}{}
		synctest.Wait() // big is in the callback
		at.send(pushFrame("", strings.Repeat("y", 60)), pushFrame("", strings.Repeat("z", 60)), pushFrame("", "c"))
		synctest.Wait()
		close(h.leave)
		synctest.Wait()
		want := "connecting, connected, first, " + big + ", gap 2 client_queue true, " + strings.Repeat("y", 60) + ", gap 1 client_queue true, c"
		if got := h.all(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
}

// A handler that never comes back costs bounded memory while the connection flaps, and the last status is kept.
func TestStuckHandlerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSlow()
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(nil)
			p.send(pushFrame("", "x"), &klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Gap{Gap: &klinkv1.Gap{Count: 1, Reason: "memory"}}})
		}}
		c, _ := n.start(func(c *Config) { c.Handler, c.QueueEvents = h, 5 })
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		c.events.mu.Lock()
		waiting := len(c.events.queue)
		c.events.mu.Unlock()
		if waiting > 2*(maxControl+5) {
			t.Errorf("%d events wait", waiting)
		}
		_ = c.Close()
		synctest.Wait()
		close(h.leave)
		<-c.Done()
		got := h.all()
		if !strings.HasPrefix(got, "connecting, connected, x, closed") || c.Stats().Dropped < maxControl {
			t.Errorf("got %s, dropped %d", got, c.Stats().Dropped)
		}
	})
}

// Callbacks may use the client, Close included.
func TestCallbacksMayCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *Client
		ready := make(chan struct{})
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(nil)
			p.send(pushFrame("1", "x"))
			p.serve(nil)
		}}
		c, _ = n.start(func(cfg *Config) {
			cfg.Handler = &Callbacks{Push: func(*Push) {
				<-ready
				if _, err := c.Subscribe(t.Context(), "a"); err != nil {
					t.Error(err)
				}
				_ = c.Close()
			}}
		})
		close(ready)
		<-c.Done()
	})
}

func TestPushFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(nil)
			p.send(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Push{Push: &klinkv1.Push{
				Id: "id", Tag: "tag", From: "bob", Body: &klinkv1.Push_Json{Json: "1"}, TimeMs: 1234, CollapseKey: "k", Expr: "a && b",
			}}}, pushFrame("2", strings.Repeat("z", 100)))
			p.serve(nil)
		}}
		_, l := n.connect(nil)
		synctest.Wait()
		got := fmt.Sprintf("%+v", *l.pushes[0])
		want := fmt.Sprintf("%+v", Push{ID: "id", Tag: "tag", From: "bob", CollapseKey: "k", Expr: "a && b", Payload: jsonPayload("1"), Time: time.UnixMilli(1234)})
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}
