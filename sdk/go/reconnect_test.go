package sdk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

// A server that is down is asked rarely, never without a delay, and at every endpoint.
func TestRefusedDialsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, refuse: func(int) error { return errRefused }}
		c, l := n.start(func(c *Config) { c.Endpoints = []string{"tcp://a:1", "tls://b:2", "ws://c:3"} })
		time.Sleep(time.Minute)
		synctest.Wait()
		dials, addrs, _, _ := n.snapshot()
		if len(dials) < 4 || len(dials) > 30 {
			t.Errorf("%d dials in the first minute, want 4 to 30", len(dials))
		}
		if want := []string{"a:1", "b:2", "c:3", "a:1"}; !slices.Equal(addrs[:4], want) {
			t.Errorf("dialed %v, want %v first", addrs, want)
		}
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		all, _, _, _ := n.snapshot()
		for i := 1; i < len(all); i++ {
			if gap := all[i].Sub(all[i-1]); gap < backoffMin || gap > backoffCap {
				t.Fatalf("%v between two dials", gap)
			}
		}
		// The mean of a full jitter is half of its cap: 1,200 in ten hours.
		if k := len(all) - len(dials); k < 1000 || k > 1450 {
			t.Errorf("%d dials in ten hours, want about 1,200", k)
		}
		if s := c.Stats(); s.DialFailures != uint64(len(all)) || s.Connects != 0 {
			t.Errorf("counted %+v", s)
		}
		if st := c.Status(); st.State != StateWaiting || !errors.Is(st.Err, errRefused) {
			t.Errorf("status %+v", st)
		}
		if got := l.states()[:4]; !slices.Equal(got, []State{StateConnecting, StateWaiting, StateConnecting, StateWaiting}) {
			t.Errorf("told %v", got)
		}
	})
}

// A server that accepts and drops at once is no reason to hammer it either.
func TestShortConnectionsBackOff(t *testing.T) {
	for name, last := range map[string]*klinkv1.ServerFrame{
		"cut":        nil,
		"short slot": disconnectFrame(klink.DisconnectOverloaded, func(m *klinkv1.Disconnect) { m.DelayMs = 1 }),
		"no slot":    disconnectFrame(klink.DisconnectMoved, nil),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &network{t: t, script: func(_ int, p *peer) {
					p.accept(nil)
					if last != nil {
						p.send(last)
					}
				}}
				n.start(nil)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				dials, _, _, maxOpen := n.snapshot()
				if len(dials) < 5 || len(dials) > 70 {
					t.Errorf("%d connections in ten minutes, want 5 to 70", len(dials))
				}
				if maxOpen != 1 {
					t.Errorf("%d sockets at once", maxOpen)
				}
			})
		})
	}
}

func TestBackoff(t *testing.T) {
	var b backoff
	for i, bound := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
		var least, most time.Duration = time.Hour, 0
		for range 2000 {
			try := backoff{failures: i}
			d := try.after(0, nil)
			least, most = min(least, d), max(most, d)
		}
		if least < backoffMin || least > backoffMin+bound/20 || most > bound || most < bound-bound/20 {
			t.Errorf("after %d failures from %v to %v, want %v to %v", i, least, most, backoffMin, bound)
		}
		b.after(time.Second, nil)
	}
	if b.after(stableLife, nil) > backoffBase || b.failures != 1 {
		t.Error("a minute of life does not start anew")
	}
	slot := &DisconnectError{Code: klink.DisconnectShutdown, Retry: true, Delay: 7 * time.Second}
	b = backoff{}
	if d := b.after(0, slot); d != 7*time.Second {
		t.Errorf("the slot of 7 s became %v", d)
	}
	slot.Delay = 1 << 40
	if d := b.after(0, slot); d != maxAdvised {
		t.Errorf("a slot of %v became %v", slot.Delay, d)
	}
	for range 500 {
		b = backoff{}
		if d := b.after(0, &DisconnectError{Code: klink.DisconnectRateLimited, Retry: true}); d < 5*time.Second || d > 15*time.Second {
			t.Fatalf("rate_limited waits %v, want its advice of 10 s give or take a half", d)
		}
	}
}

// A server can't talk a client out of encryption.
func TestServerEndpointsStayEncrypted(t *testing.T) {
	eps, err := parseAll("tls://a:1", "wss://b:2/connect")
	if err != nil {
		t.Fatal(err)
	}
	r := newRing(eps, 0)
	r.learn([]string{"tcp://evil:1", "ws://evil:2", "tls://c:3"}, eps[0])
	if len(r.all) != 3 || r.all[0].url != "tls://c:3" {
		t.Errorf("learned %+v", r.all)
	}
	if r.aim("tcp://evil:1"); r.target != nil {
		t.Error("aimed at plaintext")
	}
	if got := r.next().url; got != "tls://a:1" {
		t.Errorf("goes on at %s, want the endpoint in use", got)
	}
}

func parseAll(raw ...string) (eps []endpoint, err error) {
	for _, s := range raw {
		ep, err := parseEndpoint(s)
		if err != nil {
			return nil, err
		}
		eps = append(eps, ep)
	}
	return eps, nil
}

func TestParseEndpoint(t *testing.T) {
	for raw, want := range map[string]string{
		"tls://h:1":             "tls://h:1",
		"tcp://[::1]:7443/":     "tcp://[::1]:7443",
		"wss://h":               "wss://h:443/connect",
		"ws://h:8/x?y=1":        "ws://h:8/x?y=1",
		"ws://h/":               "ws://h:80/connect",
		"tls://h":               "",
		"tls://h:1/path":        "",
		"tcp://:1":              "",
		"quic://h:1":            "",
		"http://h:1":            "",
		"h:1":                   "",
		"wss://u:p@h/connect":   "",
		"wss://h/connect#there": "",
		"":                      "",
	} {
		ep, err := parseEndpoint(raw)
		if (err != nil) != (want == "") || ep.url != want {
			t.Errorf("%q: got %q, %v, want %q", raw, ep.url, err, want)
		}
	}
}

// Attempts grow over reconnects and over runs; the device stays.
func TestAttemptsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemoryStore("")
		first, _ := store.Load()
		type hello struct {
			device  string
			attempt uint64
			resume  string
		}
		var got []hello
		n := &network{t: t, script: func(k int, p *peer) {
			c := p.accept(func(m *klinkv1.Connected) { m.Session = fmt.Sprint("session ", k) })
			got = append(got, hello{c.GetDevice(), c.GetAttempt(), c.GetResume().GetSession()})
		}}
		var device string
		for range 2 {
			c, _ := n.start(func(c *Config) { c.Store = store })
			time.Sleep(30 * time.Second)
			_ = c.Close()
			<-c.Done()
			device = c.Device()
		}
		if len(got) < 4 {
			t.Fatalf("%d attempts", len(got))
		}
		for i, h := range got {
			if h.device != device || h.attempt != first.Attempt+uint64(i)+1 {
				t.Errorf("attempt %d is %+v, want %d of %s", i, h, first.Attempt+uint64(i)+1, device)
			}
		}
		if got[1].resume != "session 0" || got[0].resume != "" {
			t.Errorf("resumes %q, %q", got[0].resume, got[1].resume)
		}
	})
}

// What the server sends is not trusted: whatever breaks the protocol ends the connection, and the client comes back.
func TestBadServer(t *testing.T) {
	for name, script := range map[string]func(p *peer){
		"no frame":       func(p *peer) { p.accept(nil); _, _ = p.c.Write([]byte{3, 0xff, 0xff, 0xff}) },
		"too large":      func(p *peer) { p.accept(nil); _, _ = p.c.Write([]byte{0xff, 0xff, 0xff, 0x7f}) },
		"long prefix":    func(p *peer) { p.accept(nil); _, _ = p.c.Write([]byte{0x80, 0}) },
		"cut in a frame": func(p *peer) { p.accept(nil); _, _ = p.c.Write([]byte{9, 1}) },
		"two Connected": func(p *peer) {
			p.accept(nil)
			p.send(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Connected{Connected: &klinkv1.Connected{}}})
		},
		"end before login": func(p *peer) {},
		"silence":          func(p *peer) { _, _ = p.recv(); _, _ = p.recv() },
		"deaf":             func(p *peer) { time.Sleep(30 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &network{t: t, script: func(k int, p *peer) {
					if k == 0 {
						script(p)
						return
					}
					p.accept(nil)
					p.send(&klinkv1.ServerFrame{Kind: nil}, pushFrame("1", "after"))
					p.serve(nil)
				}}
				c, l := n.start(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				if st := c.Status(); st.State != StateConnected || len(l.pushes) != 1 {
					t.Errorf("%+v with %d pushes", st, len(l.pushes))
				}
				if dials, _, _, maxOpen := n.snapshot(); len(dials) != 2 || maxOpen != 1 {
					t.Errorf("%d dials, %d sockets at once", len(dials), maxOpen)
				}
			})
		})
	}
}

func TestDialIsBoundByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, refuse: func(int) error { return errRefused }}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := Dial(ctx, Config{Endpoints: []string{"tcp://a:1"}, Token: staticToken, Dial: n.dial})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errRefused) {
			t.Errorf("got %v, want the deadline and why", err)
		}
		n = &network{t: t, script: func(_ int, p *peer) { p.accept(nil); p.serve(nil) }}
		ctx, cancel = context.WithCancel(t.Context())
		c, err := Dial(ctx, Config{Endpoints: []string{"tcp://a:1"}, Token: staticToken, Dial: n.dial})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Hour)
		if st := c.Status().State; st != StateConnected {
			t.Errorf("%v after the context of Dial ended", st)
		}
		_ = c.Close()
		<-c.Done()
		n = &network{t: t, script: func(_ int, p *peer) { _, _ = p.recv(); p.send(disconnectFrame(klink.DisconnectForbidden, nil)) }}
		_, err = Dial(t.Context(), Config{Endpoints: []string{"tcp://a:1"}, Token: staticToken, Dial: n.dial})
		if d, ok := errors.AsType[*DisconnectError](err); !ok || d.Code != klink.DisconnectForbidden {
			t.Errorf("got %v, want forbidden", err)
		}
	})
}

// forgetful is a store that can't save.
type forgetful struct{ MemoryStore }

func (*forgetful) Save(Install) error { return errRefused }

func TestInstallThatCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, script: func(_ int, p *peer) { p.accept(nil); p.serve(nil) }}
		c, l := n.connect(func(c *Config) { c.Store = &forgetful{} })
		synctest.Wait()
		if len(l.errs) != 1 || !errors.Is(l.errs[0], errRefused) || c.Status().State != StateConnected {
			t.Errorf("told %v, and it is %v", l.errs, c.Status().State)
		}
	})
}
