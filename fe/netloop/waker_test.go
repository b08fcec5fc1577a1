package netloop

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
)

// countHandler does in OnRound what was asked for before the Wake.
type countHandler struct {
	loop          link.Loop
	asked, served atomic.Uint64
	rounds        atomic.Uint64
	inside        atomic.Int32
	t             *testing.T
}

func (h *countHandler) OnOpen(klink.Handle, link.Info)         {}
func (h *countHandler) OnMessage(klink.Handle, []byte)         {}
func (h *countHandler) OnAlive(klink.Handle)                   {}
func (h *countHandler) OnWritable(klink.Handle)                {}
func (h *countHandler) OnClose(klink.Handle, link.CloseReason) {}
func (h *countHandler) OnRound(int64) int {
	if h.inside.Add(1) != 1 {
		h.t.Error("two rounds of one loop at once")
	}
	h.served.Store(h.asked.Load())
	h.rounds.Add(1)
	h.inside.Add(-1)
	return -1
}

func wakeServer(t *testing.T) (*Server, *countHandler) {
	t.Helper()
	var h *countHandler
	ts := serve(t, func(c *Config) {
		c.Loops = 1
		c.NewHandler = func(l link.Loop) link.Handler { h = &countHandler{loop: l, t: t}; return h }
	})
	return ts.Server, h
}

// TestWake has many goroutines ask for work and wait for it. A wake-up that is lost is a goroutine that waits for ever.
func TestWake(t *testing.T) {
	_, h := wakeServer(t)
	var wg sync.WaitGroup
	end := time.Now().Add(hangAfter)
	for g := range 8 {
		wg.Go(func() {
			for range 1500 {
				ticket := h.asked.Add(1)
				if g%2 == 0 {
					h.loop.Wake()
				} else {
					h.loop.WakeHere()
				}
				for n := 0; h.served.Load() < ticket; n++ {
					if n%1024 == 1023 {
						if time.Now().After(end) {
							t.Error("a wake-up was lost")
							return
						}
					}
					time.Sleep(time.Microsecond)
				}
			}
		})
	}
	wg.Wait()
}

// TestWakeOnce counts the system calls of many wake-ups while the loop is awake: none.
func TestWakeOnce(t *testing.T) {
	ts := serve(t, func(c *Config) { c.Loops = 1 })
	e := ts.echoes[0]
	e.do(func() {
		before := ts.Stats().Wakes
		for range 1000 {
			e.loop.Wake()
		}
		if n := ts.Stats().Wakes - before; n != 0 {
			t.Errorf("%d writes to wake a loop that is awake", n)
		}
	})
	e.do(func() {}) // it still wakes up
}

// TestWakeAfterEnd is harmless, whoever has the loop still.
func TestWakeAfterEnd(t *testing.T) {
	ts, stop := start(t, nil)
	e := ts.echoes[0]
	var wg sync.WaitGroup
	quit := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
					e.loop.Wake()
					e.loop.WakeHere()
				}
			}
		})
	}
	stop()
	close(quit)
	wg.Wait()
	e.loop.Wake()
	e.loop.WakeHere()
}
