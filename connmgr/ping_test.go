package connmgr

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Config{})
		l := r.loops[0]
		h := r.enter(l, 0, "alice")
		type result struct {
			d   time.Duration
			err error
		}
		ping := func(ctx context.Context, h klink.Handle, id uint64) chan result {
			c := make(chan result, 1)
			go func() {
				d, err := r.m.Ping(ctx, h, id)
				c <- result{d, err}
			}()
			synctest.Wait()
			l.round()
			return c
		}
		pong := func(id uint64) { l.shard.OnMessage(h, frame.AppendPong(nil, &frame.Pong{ID: id})) }

		a := ping(t.Context(), h, 7)
		if got := l.frames(t, h); !slices.Equal(got, []string{"ping"}) {
			t.Fatalf("sent %v", got)
		}
		if res := <-ping(t.Context(), h, 7); asError(res.err).Code != klink.CodeConflict {
			t.Errorf("the same id twice: %v", res.err)
		}
		time.Sleep(30 * time.Millisecond)
		pong(8) // of nobody
		pong(7)
		pong(7)
		if res := <-a; res.err != nil || res.d != 30*time.Millisecond {
			t.Errorf("%v %v", res.d, res.err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		b := ping(ctx, h, 9)
		cancel()
		if res := <-b; !errors.Is(res.err, context.Canceled) {
			t.Errorf("after its context: %v", res.err)
		}
		c := ping(t.Context(), h, 10)
		l.leave(h)
		if res := <-c; asError(res.err).Code != klink.CodeNotFound {
			t.Errorf("a session that goes: %v", res.err)
		}
		for _, gone := range []klink.Handle{h, klink.MakeHandle(9, 0, 1)} {
			if res := <-ping(t.Context(), gone, 11); asError(res.err).Code != klink.CodeNotFound {
				t.Errorf("a session that is gone: %v", res.err)
			}
		}
		if r.m.pings.n.Load() != 0 || len(r.m.pings.wait) != 0 {
			t.Error("pings are left")
		}
		r.check()
	})
}
