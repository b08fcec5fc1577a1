package sdk

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

func text(s string) klink.Payload { return klink.Payload{Kind: klink.DataText, Data: []byte(s)} }

func TestPublishAndRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pubs []*klinkv1.Publish
		var reqs []*klinkv1.Request
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(nil)
			p.serve(func(f *klinkv1.ClientFrame) bool {
				if m := f.GetPublish(); m != nil {
					pubs = append(pubs, m)
				}
				if m := f.GetRequest(); m != nil {
					reqs = append(reqs, m)
					if m.Service == "bad" {
						p.send(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Response{Response: &klinkv1.Response{
							Id: m.Id, Error: klinkv1.ErrorCode_UNKNOWN_SERVICE, Text: "no such",
						}}})
						return true
					}
				}
				return false
			})
		}}
		c, _ := n.connect(nil)
		got, err := c.Publish(t.Context(), Publication{Tag: "room", Payload: text("hi"), CollapseKey: "c", IdempotencyKey: "i", Droppable: true})
		if err != nil || got != (Published{ID: "phi", Matched: 2, Enqueued: 1}) {
			t.Errorf("got %+v, %v", got, err)
		}
		if m := pubs[0]; m.Tag != "room" || m.GetText() != "hi" || m.CollapseKey != "c" || m.IdempotencyKey != "i" || !m.Droppable {
			t.Errorf("sent %v", m)
		}
		ans, err := c.Request(t.Context(), Call{Service: "echo", Method: "m", Payload: klink.Payload{Data: []byte{1, 2}}, Timeout: 5 * time.Second})
		if err != nil || string(ans.Data) != "\x01\x02" || ans.Kind != klink.DataBinary {
			t.Errorf("got %+v, %v", ans, err)
		}
		if m := reqs[0]; m.Service != "echo" || m.Method != "m" || m.DeadlineMs != 5000 {
			t.Errorf("sent %v", m)
		}
		_, err = c.Request(t.Context(), Call{Service: "bad"})
		wantCode(t, err, klink.CodeUnknownSvc)
		if reqs[1].DeadlineMs != 0 {
			t.Errorf("a deadline of %d ms that nobody set", reqs[1].DeadlineMs)
		}
	})
}

func TestCallsAreCheckedHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frames := 0
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(nil)
			p.serve(func(*klinkv1.ClientFrame) bool { frames++; return false })
		}}
		c, _ := n.connect(nil)
		ctx := t.Context()
		refused := 0
		check := func(want klink.Code, err error) {
			t.Helper()
			refused++
			wantCode(t, err, want)
		}
		publish := func(p Publication) error { _, err := c.Publish(ctx, p); return err }
		request := func(r Call) error { _, err := c.Request(ctx, r); return err }
		subscribe := func(tags ...string) error { _, err := c.Subscribe(ctx, tags...); return err }
		check(klink.CodeInvalid, publish(Publication{}))
		check(klink.CodeInvalid, publish(Publication{Tag: "a\n"}))
		check(klink.CodeInvalid, publish(Publication{Tag: "a", Payload: klink.Payload{Kind: klink.DataJSON, Data: []byte("{")}}))
		check(klink.CodeInvalid, publish(Publication{Tag: "a", Payload: text("\xff")}))
		check(klink.CodeInvalid, publish(Publication{Tag: "a", CollapseKey: strings.Repeat("k", 129)}))
		check(klink.CodeInvalid, publish(Publication{Tag: "a", IdempotencyKey: "\x00"}))
		check(klink.CodeTooLarge, publish(Publication{Tag: "a", Payload: text(strings.Repeat("x", 64<<10))}))
		check(klink.CodeInvalid, request(Call{}))
		check(klink.CodeInvalid, request(Call{Service: "s", Method: "\x01"}))
		check(klink.CodeInvalid, subscribe())
		check(klink.CodeInvalid, subscribe("a", ""))
		check(klink.CodeTooLarge, subscribe(make513()...))
		_, err := c.Unsubscribe(ctx, "\xff")
		check(klink.CodeInvalid, err)
		if got := c.Stats().Refused; got != uint64(refused) || frames != 0 {
			t.Errorf("%d counted of %d, %d frames sent", got, refused, frames)
		}
	})
}

func make513() (tags []string) {
	for range maxHelloTags + 1 {
		tags = append(tags, "t")
	}
	return tags
}

// A call that nobody waits for any more stays in flight until its answer comes, as the server counts it.
func TestTimeoutAndRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seenIDs notes[uint32]
		var peers *peer
		n := &network{t: t, script: func(_ int, p *peer) {
			peers = p
			p.accept(nil) // allows four requests
			p.serve(func(f *klinkv1.ClientFrame) bool {
				if r := f.GetRequest(); r != nil {
					seenIDs.add(r.Id)
				}
				return f.GetRequest() != nil
			})
		}}
		c, _ := n.connect(nil)
		for range 4 {
			start := time.Now()
			_, err := c.Request(t.Context(), Call{Service: "slow", Timeout: time.Second})
			wantCode(t, err, klink.CodeTimeout)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		}
		synctest.Wait()
		held := seenIDs.all()
		_, err := c.Publish(t.Context(), Publication{Tag: "x"})
		wantCode(t, err, klink.CodeLimit)
		peers.send(errorFrame(held[0], klinkv1.ErrorCode_TIMEOUT, "late"))
		synctest.Wait()
		if _, err := c.Publish(t.Context(), Publication{Tag: "x"}); err != nil {
			t.Errorf("a slot is free, but %v", err)
		}
		peers.send(errorFrame(held[0], klinkv1.ErrorCode_TIMEOUT, "once more"))
		synctest.Wait()
		if s := c.Stats(); s.Stray != 1 {
			t.Errorf("counted %+v", s)
		}
		seen := map[uint32]bool{}
		for _, id := range held {
			if seen[id] || id == 0 {
				t.Errorf("ids %v", held)
			}
			seen[id] = true
		}
	})
}

func TestLostConnectionFailsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, script: func(k int, p *peer) {
			p.accept(nil)
			p.serve(func(f *klinkv1.ClientFrame) bool {
				if f.GetPublish() != nil && k == 0 {
					_ = p.c.Close()
				}
				return false
			})
		}}
		c, _ := n.connect(nil)
		_, err := c.Publish(t.Context(), Publication{Tag: "x"})
		wantCode(t, err, klink.CodeUnavailable)
		if _, err := c.Publish(t.Context(), Publication{Tag: "x"}); err != nil { // waits for the next connection
			t.Error(err)
		}
		if s := c.Stats(); s.Lost != 1 || s.Connects != 2 {
			t.Errorf("counted %+v", s)
		}
	})
}

func TestCallsWaitForAConnectionOnlyAsLongAsTheyMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, refuse: func(int) error { return errRefused }}
		c, _ := n.start(nil)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := c.Subscribe(ctx, "x")
		wantCode(t, err, klink.CodeTimeout)
		if time.Since(start) != 3*time.Second || len(c.Tags()) != 0 {
			t.Errorf("after %v the tags are %v", time.Since(start), c.Tags())
		}
		done := make(chan error, 1)
		go func() {
			_, err := c.Request(context.Background(), Call{Service: "s"})
			done <- err
		}()
		synctest.Wait()
		_ = c.Close()
		err = <-done
		wantCode(t, err, klink.CodeUnavailable)
		if !errors.Is(err, ErrClosed) {
			t.Errorf("got %v, want ErrClosed in it", err)
		}
	})
}

// Many calls at once are sent no faster than the server takes them, and each gets its own answer.
func TestFramesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget, at := 50.0, time.Now() // what a server with a burst of one second lets pass
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(func(m *klinkv1.Connected) { m.Limits.Requests = 0 })
			budget--
			p.serve(func(f *klinkv1.ClientFrame) bool {
				if f.GetPublish() == nil {
					return false
				}
				now := time.Now()
				budget = min(50, budget+now.Sub(at).Seconds()*50)
				at = now
				budget -= float64(1 + len(f.GetPublish().GetText())>>10)
				if budget < -0.001 {
					t.Errorf("%f frames over the budget", -budget)
				}
				return false
			})
		}}
		c, _ := n.connect(nil)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				body := strings.Repeat("x", i%3*1000) + string(rune('A'+i%26))
				got, err := c.Publish(t.Context(), Publication{Tag: "t", Payload: text(body)})
				if err != nil || got.ID != "p"+body {
					t.Errorf("got %v, %v", got.ID, err)
				}
			})
		}
		wg.Wait()
		// 300 frames and 100 KiB over, at 50 a second after the first 49.
		if d := time.Since(start); d < 6*time.Second || d > 10*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

// The client's own frames do not wait behind those of calls.
func TestPongsOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(func(m *klinkv1.Connected) { m.Limits.FramesPerSecond, m.Limits.Requests = 1, 0 })
			time.Sleep(10 * time.Second)
			asked := time.Now()
			p.send(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Ping{Ping: &klinkv1.Ping{Id: 1}}})
			p.serve(func(f *klinkv1.ClientFrame) bool {
				if f.GetPong() != nil && time.Since(asked) != 0 {
					t.Errorf("answered after %v", time.Since(asked))
				}
				return false
			})
		}}
		c, _ := n.connect(nil)
		var wg sync.WaitGroup
		for range 200 { // more than the queue holds
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				_, _ = c.Publish(ctx, Publication{Tag: "t"})
			})
		}
		wg.Wait()
		if c.Stats().Pongs != 1 {
			t.Error("no Ping came")
		}
	})
}

func TestErrorsWithoutARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, script: func(_ int, p *peer) {
			p.accept(nil)
			f := errorFrame(0, klinkv1.ErrorCode_LIMIT_EXCEEDED, "too much")
			f.GetError().Limit = "tags"
			p.send(f, errorFrame(77, klinkv1.ErrorCode_INTERNAL, "whose?"))
			p.serve(nil)
		}}
		c, l := n.connect(nil)
		synctest.Wait()
		if len(l.errs) != 1 || l.errs[0].Error() != "limit_exceeded: too much (limit tags)" || c.Stats().Stray != 1 {
			t.Errorf("told %v, counted %+v", l.errs, c.Stats())
		}
		wantCode(t, l.errs[0], klink.CodeLimit)
	})
}

func jsonPayload(s string) klink.Payload { return klink.Payload{Kind: klink.DataJSON, Data: []byte(s)} }
