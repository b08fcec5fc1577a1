package sdk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

// Each row of the close-code table is obeyed, whether it ends a login or a session.
func TestDisconnectCodes(t *testing.T) {
	for _, row := range klink.Disconnects() {
		for _, early := range []bool{true, false} {
			t.Run(fmt.Sprint(row.Name, " early ", early), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testDisconnectCode(t, row, early) })
			})
		}
	}
}

func testDisconnectCode(t *testing.T, row klink.DisconnectInfo, early bool) {
	n := &network{t: t}
	n.script = func(k int, p *peer) {
		switch {
		case k == 0 && early:
			_, _ = p.recv()
			p.send(disconnectFrame(row.Code, nil))
		case k == 0:
			p.accept(nil)
			p.send(disconnectFrame(row.Code, nil))
		default:
			p.accept(nil)
			p.serve(nil)
		}
	}
	var reasons []TokenReason
	c, l := n.start(func(c *Config) {
		c.Endpoints = []string{"tcp://a:1", "tcp://b:2"}
		c.Token = func(_ context.Context, r TokenReason) (string, error) {
			reasons = append(reasons, r)
			return fmt.Sprint("token ", len(reasons)), nil
		}
	})
	time.Sleep(time.Minute)
	synctest.Wait()
	_, addrs, _, _ := n.snapshot()
	if row.First == klink.FirstStop {
		d, ok := errors.AsType[*DisconnectError](c.Err())
		if c.Status().State != StateClosed || len(addrs) != 1 || !ok || d.Code != row.Code || d.Reason != "test" {
			t.Errorf("after %d dials %+v", len(addrs), c.Status())
		}
		<-c.Done()
		if s := l.statuses[len(l.statuses)-1]; s.State != StateClosed || s.Err == nil {
			t.Errorf("the last status is %+v", s)
		}
		_, err := c.Publish(t.Context(), Publication{Tag: "x"})
		wantCode(t, err, klink.CodeUnavailable)
		return
	}
	if len(addrs) != 2 || c.Status().State != StateConnected {
		t.Fatalf("after %d dials %+v", len(addrs), c.Status())
	}
	wantAddr := "a:1"
	if row.First == klink.FirstEndpoint {
		wantAddr = "b:2"
	}
	if addrs[1] != wantAddr {
		t.Errorf("went on at %s, want %s", addrs[1], wantAddr)
	}
	wantReasons := []TokenReason{TokenConnect}
	if row.First == klink.FirstRefresh {
		wantReasons = append(wantReasons, tokenReason(row.Code))
	}
	if !slices.Equal(reasons, wantReasons) {
		t.Errorf("asked for tokens because of %v, want %v", reasons, wantReasons)
	}
	if got := c.Stats().Disconnects; got != 1 {
		t.Errorf("counted %d disconnects", got)
	}
}

// The slot and the target of a draining server are used; endpoints that Connected told come before those of the configuration.
func TestTargetAndEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t}
		var ended [3]time.Time
		n.script = func(k int, p *peer) {
			p.accept(func(m *klinkv1.Connected) {
				m.Endpoints = []string{"tcp://new:1", "gopher://x:1", "tcp://new:2", "tcp://a:1"}
			})
			if k > 2 {
				p.serve(nil)
				return
			}
			over := time.Now().Add(time.Hour) // long-lived, so that only the slot counts
			_ = p.c.SetReadDeadline(over)
			p.serve(nil)
			ended[k] = time.Now()
			p.send(disconnectFrame(klink.DisconnectShutdown, func(m *klinkv1.Disconnect) {
				m.DelayMs = 3210
				if k == 0 {
					m.Target = "tcp://target:9"
				}
			}))
		}
		n.start(nil)
		var want = []string{"a:1", "target:9", "new:1", "new:2"}
		for k := 1; k < len(want); k++ {
			time.Sleep(time.Hour + time.Minute)
			synctest.Wait()
			dials, addrs, _, maxOpen := n.snapshot()
			if len(dials) != k+1 || addrs[k] != want[k] {
				t.Fatalf("dialed %v, want %v", addrs, want[:k+1])
			}
			if d := dials[k].Sub(ended[k-1]); d != 3210*time.Millisecond {
				t.Errorf("came back after %v, want the slot of 3.21 s", d)
			}
			if maxOpen != 1 {
				t.Errorf("%d sockets at once", maxOpen)
			}
		}
	})
}

// mute is a socket that can't write after a while; what the server sends still comes.
type mute struct {
	net.Conn
	left int
}

func (m *mute) Write(b []byte) (int, error) {
	if m.left--; m.left < 0 {
		return 0, errRefused
	}
	return m.Conn.Write(b)
}

// When a write fails, what the server said before it closed is the reason, not the broken pipe.
func TestReasonAfterAFailedWrite(t *testing.T) {
	for writes, said := range []bool{true, true, false} {
		t.Run(fmt.Sprint(writes, " writes, said ", said), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &network{t: t}
				n.script = func(k int, p *peer) {
					switch {
					case k > 0:
						p.accept(nil)
						p.serve(nil)
					case writes == 0:
						p.send(disconnectFrame(klink.DisconnectOverloaded, nil))
					default:
						p.accept(nil)
						time.Sleep(60*time.Second + 100*time.Millisecond) // the first heartbeat has failed
						if said {
							p.send(disconnectFrame(klink.DisconnectOverloaded, nil))
						} else {
							time.Sleep(10 * time.Second)
						}
					}
				}
				c, l := n.start(func(c *Config) {
					first := true
					c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						conn, err := n.dial(ctx, network, addr)
						if first && err == nil {
							first = false
							return &mute{conn, min(writes, 1)}, nil
						}
						return conn, err
					}
				})
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				i := slices.Index(l.states(), StateWaiting)
				if i < 0 || c.Status().State != StateConnected {
					t.Fatalf("told %v", l.states())
				}
				d, ok := errors.AsType[*DisconnectError](l.statuses[i].Err)
				if ok != said || (said && d.Code != klink.DisconnectOverloaded) || (!said && !errors.Is(l.statuses[i].Err, errRefused)) {
					t.Errorf("lost with %v", l.statuses[i].Err)
				}
			})
		})
	}
}
