package sdk

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

// beats is a script that serves and notes when heartbeats came, counted from the login.
func beats(at *notes[time.Duration], see func(f *klinkv1.ClientFrame) bool) func(int, *peer) {
	return func(_ int, p *peer) {
		p.accept(nil)
		login := time.Now()
		p.serve(func(f *klinkv1.ClientFrame) bool {
			if f.Kind == nil {
				at.add(time.Since(login))
			}
			return see != nil && see(f)
		})
	}
}

func TestIdleHourCostsSixtyHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at notes[time.Duration]
		n := &network{t: t, script: beats(&at, nil)}
		c, _ := n.connect(nil)
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		if at := at.all(); len(at) != 60 || at[0] != time.Minute || at[59] != time.Hour {
			t.Errorf("%d heartbeats: %v", len(at), at)
		}
		if s := c.Stats(); s.FramesOut != 61 || s.Pings != 60 || s.Connects != 1 {
			t.Errorf("counted %+v", s)
		}
	})
}

// Any frame counts, in both directions.
func TestHeartbeatsAlignWithTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at notes[time.Duration]
		n := &network{t: t, script: beats(&at, nil)}
		c, _ := n.connect(nil)
		for range 30 {
			time.Sleep(50 * time.Second)
			if _, err := c.Publish(t.Context(), Publication{Tag: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if at := at.all(); len(at) != 0 {
			t.Errorf("heartbeats at %v beside other traffic", at)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if at := at.all(); len(at) != 1 {
			t.Errorf("heartbeats at %v, want one a minute after the last frame", at)
		}
	})
}

// Receiving alone does not keep the session alive at the server: heartbeats go on.
func TestHeartbeatsWhileReceiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at notes[time.Duration]
		n := &network{t: t}
		n.script = func(_ int, p *peer) {
			p.accept(nil)
			login := time.Now()
			go func() {
				for range 30 {
					time.Sleep(10 * time.Second)
					p.send(pushFrame("1", "x"))
				}
			}()
			for {
				f, err := p.recv() // never answers a heartbeat: the pushes do
				if err != nil {
					return
				}
				if f.Kind == nil {
					at.add(time.Since(login))
				}
			}
		}
		n.connect(nil)
		time.Sleep(5*time.Minute - time.Second)
		synctest.Wait()
		if want := []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute}; !slices.Equal(at.all(), want) {
			t.Errorf("heartbeats at %v, want %v", at.all(), want)
		}
	})
}

// A connection that is half open is found within an interval and the timeout, whether the client sends or not, and is never left behind
// as a second socket.
func TestHalfOpenIsFound(t *testing.T) {
	for name, tc := range map[string]struct {
		seconds uint32
		sends   bool
		found   time.Duration
	}{
		"idle":        {60, false, 75 * time.Second},
		"sending":     {60, true, 75 * time.Second},
		"short":       {10, false, 15 * time.Second},
		"long":        {600, false, 620 * time.Second},
		"no interval": {0, false, 6 * time.Second}, // of a server that tells none: a second, and the least timeout
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &network{t: t, script: func(_ int, p *peer) {
					p.accept(func(m *klinkv1.Connected) { m.Heartbeat = &klinkv1.Heartbeat{Seconds: tc.seconds} })
					for {
						if _, err := p.recv(); err != nil { // reads, and says nothing
							return
						}
					}
				}}
				c, _ := n.connect(nil)
				cn, _ := c.await(t.Context())
				for waited := time.Duration(0); waited < tc.found; waited += time.Second {
					synctest.Wait()
					if c.Status().State != StateConnected {
						t.Fatalf("given up after %v, want %v", waited, tc.found)
					}
					if tc.sends {
						cn.say([]byte{0x52, 0}) // a frame that has no answer
					}
					time.Sleep(time.Second)
				}
				synctest.Wait()
				if c.Status().State == StateConnected || c.Stats().HeartbeatLost != 1 {
					t.Errorf("still %v after %v", c.Status().State, tc.found)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if _, _, open, maxOpen := n.snapshot(); maxOpen != 1 || open > 1 {
					t.Errorf("%d sockets open, %d at once", open, maxOpen)
				}
			})
		})
	}
}

func TestSetHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at notes[time.Duration]
		var asked notes[uint32]
		n := &network{t: t, script: beats(&at, func(f *klinkv1.ClientFrame) bool {
			if s := f.GetSetHeartbeat(); s != nil {
				asked.add(s.Seconds)
			}
			return false
		})}
		c, _ := n.connect(nil)
		c.SetHeartbeat(14500 * time.Millisecond)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if want := []time.Duration{15 * time.Second, 30 * time.Second}; !slices.Equal(at.all(), want) {
			t.Errorf("heartbeats at %v, want %v", at.all(), want)
		}
		c.SetHeartbeat(time.Second) // below the bounds that Connected told
		c.SetHeartbeat(time.Hour)
		c.SetHeartbeat(0) // nothing to ask for now
		synctest.Wait()
		if want := []uint32{15, 10, 600}; !slices.Equal(asked.all(), want) {
			t.Errorf("asked for %v, want %v", asked.all(), want)
		}
		before := len(at.all())
		time.Sleep(601 * time.Second)
		synctest.Wait()
		if got := len(at.all()) - before; got != 1 {
			t.Errorf("%d heartbeats in an interval of ten minutes", got)
		}
	})
}

func TestHeartbeatWishAndBackgroundInConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hello []*klinkv1.Connect
		n := &network{t: t, script: func(_ int, p *peer) { hello = append(hello, p.accept(nil)); p.serve(nil) }}
		c, _ := n.connect(func(c *Config) {
			c.Heartbeat, c.Background, c.Platform, c.AppVersion = 90*time.Second, true, "linux", "7"
		})
		synctest.Wait()
		h := hello[0]
		if h.HeartbeatSeconds != 90 || !h.Background || h.Client.Platform != "linux" || h.Client.AppVersion != "7" || h.Client.Version != Version {
			t.Errorf("Connect says %v", h)
		}
		_, err := c.Publish(t.Context(), Publication{Tag: "x"})
		wantCode(t, err, klink.CodeConflict)
		_, err = c.Subscribe(t.Context(), "x")
		wantCode(t, err, klink.CodeConflict)
		_, err = c.Request(t.Context(), Call{Service: "x"})
		wantCode(t, err, klink.CodeConflict)
		c.SetBackground(false)
		if _, err := c.Publish(t.Context(), Publication{Tag: "x"}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s := c.Stats(); s.Refused != 3 || s.FramesOut != 2 {
			t.Errorf("counted %+v", s)
		}
	})
}

func TestPingIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids []uint64
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(nil)
			start := time.Now()
			for id := range uint64(3) {
				p.send(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Ping{Ping: &klinkv1.Ping{Id: id + 1<<40}}})
				f, err := p.recv()
				if err != nil || f.GetPong() == nil || time.Since(start) != 0 {
					t.Errorf("answered with %v, %v after %v", f, err, time.Since(start))
					return
				}
				ids = append(ids, f.GetPong().Id)
			}
			p.serve(nil)
		}}
		c, _ := n.connect(nil)
		synctest.Wait()
		if want := []uint64{1 << 40, 1<<40 + 1, 1<<40 + 2}; !slices.Equal(ids, want) {
			t.Errorf("answered %v, want %v", ids, want)
		}
		if c.Stats().Pongs != 3 {
			t.Errorf("counted %d", c.Stats().Pongs)
		}
	})
}

func TestByeOnClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bye := false
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(nil)
			p.serve(func(f *klinkv1.ClientFrame) bool {
				bye = bye || f.GetBye() != nil
				return false
			})
		}}
		c, l := n.connect(nil)
		synctest.Wait() // Close drops what waits for callbacks
		_ = c.Close()
		<-c.Done()
		if !bye {
			t.Error("no Bye")
		}
		if err := c.Err(); err != nil {
			t.Errorf("closed because of %v", err)
		}
		if got, want := l.states(), []State{StateConnecting, StateConnected, StateClosed}; !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
		if _, _, open, _ := n.snapshot(); open != 0 {
			t.Errorf("%d sockets are open", open)
		}
		_, err := c.Subscribe(t.Context(), "x")
		wantCode(t, err, klink.CodeUnavailable)
		if err := c.Run(t.Context()); err == nil {
			t.Error("a client runs twice")
		}
	})
}

// As soon as there is a session it ends in order, also when the client has not begun to serve it.
func TestByeRightAfterLogin(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			var byes notes[string]
			n := &network{t: t, script: func(_ int, p *peer) {
				p.accept(nil)
				p.serve(func(f *klinkv1.ClientFrame) bool {
					if f.GetBye() != nil {
						byes.add(f.GetBye().Reason)
					}
					return false
				})
			}}
			c, _ := n.connect(nil)
			_ = c.Close()
			<-c.Done()
			if got := byes.all(); !slices.Equal(got, []string{"closed"}) {
				t.Errorf("Bye %q", got)
			}
		})
	}
}

// Close ends whatever the client is doing.
func TestCloseInEachState(t *testing.T) {
	for name, script := range map[string]func(p *peer){
		"connecting": func(p *peer) { _, _ = p.recv(); _, _ = p.recv() },
		"connected":  func(p *peer) { p.accept(nil); p.serve(func(*klinkv1.ClientFrame) bool { return true }) },
		"waiting":    func(p *peer) { p.accept(nil); p.send(disconnectFrame(klink.DisconnectRateLimited, nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &network{t: t, script: func(_ int, p *peer) { script(p) }}
				c, _ := n.start(nil)
				time.Sleep(time.Second)
				synctest.Wait()
				if got := c.Status().State.String(); got != name {
					t.Fatalf("it is %s", got)
				}
				start := time.Now()
				_ = c.Close()
				<-c.Done()
				if d := time.Since(start); d > byeGrace {
					t.Errorf("took %v", d)
				}
			})
		})
	}
	t.Run("idle", func(t *testing.T) {
		c, err := New(Config{Endpoints: []string{"tcp://a:1"}, Token: staticToken})
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		<-c.Done()
	})
}
