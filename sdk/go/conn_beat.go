package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/klinkio/klink/proto/frame"
)

const (
	pongMin = 5 * time.Second
	pongMax = 20 * time.Second
)

// pongTimeout is how long after a heartbeat something must be heard.
func pongTimeout(interval time.Duration) time.Duration { return min(max(interval/4, pongMin), pongMax) }

// heartbeat keeps time on one connection; it belongs to the goroutine of Run.
type heartbeat struct {
	cn     *conn
	asked  time.Duration // time of the last one, since cn.start
	frames uint64        // heard before it
	open   bool          // nothing was heard since
}

// next is when something is to be done, since cn.start.
func (h *heartbeat) next() time.Duration {
	if h.open && h.cn.frames.Load() != h.frames {
		h.open = false
	}
	interval := time.Duration(h.cn.interval.Load())
	if h.open {
		return h.asked + pongTimeout(interval)
	}
	sent, heard := time.Duration(h.cn.sent.Load()), time.Duration(h.cn.heard.Load())
	return min(max(sent, h.asked), max(heard, h.asked)) + interval
}

// check sends a heartbeat when it is time for one, and reports false when the server did not answer the last.
func (h *heartbeat) check(now time.Duration) bool {
	if now < h.next() {
		return true
	}
	if h.open {
		return false
	}
	h.open, h.asked, h.frames = true, now, h.cn.frames.Load()
	h.cn.c.stats.pings.Add(1)
	select {
	case h.cn.urgent <- nil:
	default: // the writer is stuck, which the missing answer will tell
	}
	return true
}

// setHeartbeat asks for another interval and keeps it. The client's mu is held.
func (cn *conn) setHeartbeat(wish uint32) {
	if hb := cn.connected.Heartbeat; hb.MaxSeconds > 0 {
		wish = min(max(wish, hb.MinSeconds), hb.MaxSeconds)
	}
	select {
	case cn.urgent <- frame.AppendSetHeartbeat(nil, &frame.SetHeartbeat{Seconds: wish}):
	default: // stuck: the next login says it
		return
	}
	cn.interval.Store(int64(time.Duration(wish) * time.Second))
	select {
	case cn.beat <- struct{}{}:
	default:
	}
}

// refresher exchanges the token of one connection before it expires.
type refresher struct {
	cn     *conn
	at     time.Time // of the next exchange; zero: none
	waits  bool      // for the callback
	answer *call     // of the Refresh in flight
	token  string    // in it
}

// start asks for a token when it is time.
func (r *refresher) start(now time.Time) {
	if !r.at.IsZero() && !now.Before(r.at) && !r.waits && r.answer == nil {
		r.waits, r.at = true, time.Time{}
		r.cn.c.fetch(TokenExpiring)
	}
}

// fetched goes on with what the callback returned. It reports false when there will be no token.
func (r *refresher) fetched(f fetched) bool {
	c := r.cn.c
	c.fetching, r.waits = nil, false
	if f.err != nil {
		c.events.add(event{err: f.err})
		r.later()
		return !errors.Is(f.err, ErrSignedOut)
	}
	id, cl, err := r.cn.begin(false)
	if err != nil {
		r.later()
		return true
	}
	r.answer, r.token = cl, f.token
	r.cn.say(frame.AppendRefresh(nil, &frame.Refresh{ID: id, Token: []byte(f.token)}))
	return true
}

// later tries again while there is time.
func (r *refresher) later() {
	left := time.Until(r.cn.c.until)
	if left < tokenMinLeft {
		r.at = time.Time{}
		return
	}
	r.at = time.Now().Add(min(refreshRetry, max(left/3, tokenMinLeft/2)))
}

// answered ends the exchange. A token that the server does not accept ends the session, so here is only a request that failed.
func (r *refresher) answered(a answer) {
	c := r.cn.c
	r.answer = nil
	if a.err != nil {
		if !errors.Is(a.err, errLost) {
			c.events.add(event{err: fmt.Errorf("exchange the token: %w", a.err)})
		}
		r.later()
		return
	}
	c.stats.refreshes.Add(1)
	c.token, c.until = r.token, time.Time{}
	if exp := tokenExpiry(r.token); exp > 0 {
		m := &r.cn.connected
		c.until = expiry(exp, m.ServerTimeMs, r.cn.since)
		r.at = refreshAt(time.Now(), c.until)
	}
}

// serve keeps time until the connection ends or ctx does; then it says goodbye.
func (cn *conn) serve(ctx context.Context) error {
	c := cn.c
	h := heartbeat{cn: cn}
	r := refresher{cn: cn}
	if !c.until.IsZero() {
		r.at = refreshAt(time.Now(), c.until)
	}
	cn.reconcile()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due := cn.start.Add(h.next())
		if !r.at.IsZero() && r.at.Before(due) {
			due = r.at
		}
		timer.Reset(time.Until(due))
		var token chan fetched
		if r.waits {
			token = c.fetching
		}
		var refreshed chan answer
		if r.answer != nil {
			refreshed = r.answer.done
		}
		select {
		case <-timer.C:
			if !h.check(time.Since(cn.start)) {
				c.stats.heartbeatLost.Add(1)
				return errHeartbeat
			}
			r.start(time.Now())
		case <-cn.beat:
		case f := <-token:
			if !r.fetched(f) {
				cn.bye("signed out")
				return f.err
			}
		case a := <-refreshed:
			r.answered(a)
		case <-cn.readEnd:
			return cn.ended()
		case <-cn.writeEnd:
			cn.drain()
			return cn.ended()
		case <-ctx.Done():
			cn.bye("closed")
			return nil
		}
	}
}

// ended is why the connection ended by itself, counted.
func (cn *conn) ended() error {
	err := cn.endError()
	if _, ok := errors.AsType[*DisconnectError](err); !ok {
		cn.c.stats.lost.Add(1)
	}
	return err
}

// bye ends the session in order: the server closes after it has read Bye. To close first could lose the Bye in a reset.
func (cn *conn) bye(reason string) {
	select {
	case cn.urgent <- frame.AppendBye(nil, &frame.Bye{Reason: []byte(reason)}):
	default:
		return // the writer is stuck
	}
	t := time.NewTimer(byeGrace)
	defer t.Stop()
	select {
	case <-cn.readEnd:
	case <-t.C:
	}
}
