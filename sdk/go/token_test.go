package sdk

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

func jwt(exp time.Time) string {
	return "h." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"sub":"a","exp":%d}`, exp.Unix())) + ".s"
}

// skew is how far the server's clock, which dates the tokens, is ahead of the client's.
const skew = 3 * time.Hour

// tokens is a token callback whose tokens live for life.
type tokens struct {
	life    time.Duration
	reasons []TokenReason
	fail    func(n int) error
}

func (k *tokens) get(_ context.Context, r TokenReason) (string, error) {
	k.reasons = append(k.reasons, r)
	if k.fail != nil {
		if err := k.fail(len(k.reasons)); err != nil {
			return "", err
		}
	}
	return jwt(time.Now().Add(k.life + skew)), nil
}

// expires is a Connected with the token's expiry.
func expires(life time.Duration) func(m *klinkv1.Connected) {
	return func(m *klinkv1.Connected) {
		m.ServerTimeMs = time.Now().Add(skew).UnixMilli()
		m.TokenExpiresMs = m.ServerTimeMs + life.Milliseconds()
	}
}

func TestTokenIsExchangedBeforeItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(expires(10 * time.Minute))
			login := time.Now()
			p.serve(func(f *klinkv1.ClientFrame) bool {
				if f.GetRefresh() != nil {
					at = append(at, time.Since(login))
				}
				return false
			})
		}}
		k := tokens{life: 10 * time.Minute}
		c, l := n.connect(func(c *Config) { c.Token = k.get })
		time.Sleep(time.Hour)
		synctest.Wait()
		last := time.Duration(0)
		for _, d := range at {
			if gap := d - last; gap < 510*time.Second-time.Second || gap > 9*time.Minute {
				t.Errorf("exchanged at %v: %v after the last, want 8.5 to 9 minutes", d, gap)
			}
			last = d
		}
		if len(at) != 6 || c.Stats().Refreshes != 6 || c.Stats().Connects != 1 {
			t.Errorf("exchanged at %v, counted %+v", at, c.Stats())
		}
		if k.reasons[0] != TokenConnect || slices.ContainsFunc(k.reasons[1:], func(r TokenReason) bool { return r != TokenExpiring }) {
			t.Errorf("reasons %v", k.reasons)
		}
		if len(l.errs) > 0 {
			t.Errorf("told %v", l.errs)
		}
	})
}

// A callback that fails is asked again while there is time; when there is none the server ends the session, and the client comes back.
func TestTokenCallbackFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(expires(10 * time.Minute))
			_ = p.c.SetReadDeadline(time.Now().Add(10 * time.Minute))
			p.serve(nil)
			p.send(disconnectFrame(klink.DisconnectTokenExpired, nil))
		}}
		k := tokens{life: 10 * time.Minute, fail: func(n int) error {
			if n > 1 && n < 40 {
				return errRefused
			}
			return nil
		}}
		c, l := n.connect(func(c *Config) { c.Token = k.get })
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if st := c.Status(); st.State != StateConnected {
			t.Fatalf("%+v", st)
		}
		if len(l.errs) < 4 || len(l.errs) > 30 || !errors.Is(l.errs[0], errRefused) {
			t.Errorf("told %d errors, first %v", len(l.errs), l.errs[0])
		}
		if !slices.Contains(k.reasons, TokenExpired) {
			t.Errorf("reasons %v", k.reasons)
		}
	})
}

func TestTokenRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		token func(n int) (string, error)
		asked int
		want  error
	}{
		"the same again":  {func(int) (string, error) { return "same", nil }, 2, nil},
		"always others":   {func(n int) (string, error) { return fmt.Sprint(n), nil }, 3, nil},
		"signed out":      {func(n int) (string, error) { return "t", []error{nil, ErrSignedOut}[n-1] }, 2, ErrSignedOut},
		"signed out soon": {func(int) (string, error) { return "", fmt.Errorf("gone: %w", ErrSignedOut) }, 1, ErrSignedOut},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &network{t: t, script: func(_ int, p *peer) {
					_, _ = p.recv()
					p.send(disconnectFrame(klink.DisconnectUnauthorized, nil))
				}}
				asked := 0
				c, _ := n.start(func(c *Config) {
					c.Token = func(context.Context, TokenReason) (string, error) { asked++; return tc.token(asked) }
				})
				<-c.Done()
				if asked != tc.asked {
					t.Errorf("asked %d times, want %d", asked, tc.asked)
				}
				d, ok := errors.AsType[*DisconnectError](c.Err())
				if tc.want == nil && (!ok || d.Code != klink.DisconnectUnauthorized || d.Reason != "test") {
					t.Errorf("ended with %v, want what the server said", c.Err())
				}
				if tc.want != nil && !errors.Is(c.Err(), tc.want) {
					t.Errorf("ended with %v, want %v", c.Err(), tc.want)
				}
			})
		})
	}
}

// A callback that hangs does not keep Close from ending the client, and never runs twice.
func TestTokenCallbackHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most, ends := 0, 0, make(chan struct{})
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(expires(10 * time.Minute))
			_ = p.c.SetReadDeadline(time.Now().Add(10 * time.Minute))
			p.serve(nil)
			p.send(disconnectFrame(klink.DisconnectTokenExpired, nil))
		}}
		first := true
		c, _ := n.connect(func(c *Config) {
			c.Token = func(ctx context.Context, _ TokenReason) (string, error) {
				if first {
					first = false
					return "t", nil
				}
				running++
				most = max(most, running)
				<-ctx.Done()
				<-ends // not even the context impresses it
				running--
				return "", ctx.Err()
			}
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		if most != 1 || c.Stats().Connects != 1 {
			t.Errorf("%d callbacks at once, %d logins", most, c.Stats().Connects)
		}
		_ = c.Close()
		synctest.Wait()
		if c.Status().State != StateClosed {
			t.Errorf("%v after Close", c.Status().State)
		}
		close(ends)
		<-c.Done()
	})
}

func TestTokenExpiry(t *testing.T) {
	for token, want := range map[string]int64{
		jwt(time.Unix(1700000000, 0)): 1700000000000,
		"":                            0,
		"opaque":                      0,
		"a.b":                         0,
		"a.!.c":                       0,
		"a." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1e300}`)) + ".c": 0,
		"a." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":-1}`)) + ".c":    0,
		"a." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":"x"}`)) + ".c":   0,
		"a." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1.5}`)) + ".c":   1500,
	} {
		if got := tokenExpiry(token); got != want {
			t.Errorf("%q: got %d, want %d", token, got, want)
		}
	}
}

// A user who signs out while connected is signed out: the session ends at once and in order.
func TestSignedOutWhileConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var byes notes[string]
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(expires(10 * time.Minute))
			p.serve(func(f *klinkv1.ClientFrame) bool {
				if f.GetBye() != nil {
					byes.add(f.GetBye().Reason)
				}
				return false
			})
		}}
		k := tokens{life: 10 * time.Minute, fail: func(n int) error {
			if n > 1 {
				return ErrSignedOut
			}
			return nil
		}}
		c, _ := n.connect(func(c *Config) { c.Token = k.get })
		<-c.Done()
		if got := byes.all(); !errors.Is(c.Err(), ErrSignedOut) || !slices.Equal(got, []string{"signed out"}) {
			t.Errorf("ended with %v after Bye %q", c.Err(), got)
		}
		if dials, _, _, _ := n.snapshot(); len(dials) != 1 {
			t.Errorf("%d dials", len(dials))
		}
	})
}

// A server that can't take a token now is asked again before the old one expires.
func TestRefreshIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := false
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(expires(10 * time.Minute))
			p.serve(func(f *klinkv1.ClientFrame) bool {
				if r := f.GetRefresh(); r != nil && !refused {
					refused = true
					p.send(errorFrame(r.Id, klinkv1.ErrorCode_OVERLOADED, "later"))
					return true
				}
				return false
			})
		}}
		k := tokens{life: 10 * time.Minute}
		c, l := n.connect(func(c *Config) { c.Token = k.get })
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := c.Stats(); s.Refreshes != 1 || s.Connects != 1 || len(k.reasons) != 3 {
			t.Errorf("counted %+v, asked because of %v", s, k.reasons)
		}
		if len(l.errs) != 1 {
			t.Fatalf("told %v", l.errs)
		}
		wantCode(t, l.errs[0], klink.CodeOverloaded)
	})
}
