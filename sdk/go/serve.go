package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

// outcome is how one attempt, or the connection that it became, ended.
type outcome struct {
	life time.Duration // from Connected; 0: never
	err  error
}

func (o *outcome) disconnect() *DisconnectError {
	d, _ := errors.AsType[*DisconnectError](o.err)
	return d
}

// serve connects again and again, one connection at a time. The error is why it gave up; nil: ctx has ended.
func (c *Client) serve(ctx context.Context) error {
	for ctx.Err() == nil {
		var o outcome
		if stop, err := c.ensureToken(ctx); err != nil {
			if stop {
				return err
			}
			o.err = err
		} else {
			o = c.once(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		c.lastErr = o.err
		delay, stop := c.judge(&o)
		if stop {
			return o.err
		}
		c.setStatus(func(s *Status) { s.lost(o.err, delay) })
		if !sleep(ctx, delay) {
			return nil
		}
	}
	return nil
}

// lost is the status between two attempts.
func (s *Status) lost(err error, delay time.Duration) {
	*s = Status{
		State: StateWaiting, Endpoint: s.Endpoint, Transport: s.Transport, Attempt: s.Attempt, Connects: s.Connects, Err: err, Delay: delay,
	}
}

// sleep reports false when ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// judge says what to do after an attempt: how long to wait and, in the ring and in need, with what to come back.
func (c *Client) judge(o *outcome) (delay time.Duration, stop bool) {
	if o.life > 0 {
		c.rejected = 0
	}
	d := o.disconnect()
	if errors.Is(o.err, ErrSignedOut) {
		return 0, true
	}
	if d == nil {
		c.ring.move()
		return c.backoff.after(o.life, nil), false
	}
	c.stats.disconnects.Add(1)
	first := d.Code.Info().First
	switch {
	case first == klink.FirstRefresh:
		if c.rejected++; !d.Retry && c.rejected > 2 {
			return 0, true // a third token would not be better
		}
		c.need, c.refusal = tokenReason(d.Code), d
	case first == klink.FirstStop || !d.Retry:
		return 0, true
	case first == klink.FirstEndpoint && d.Target == "":
		c.ring.move()
	}
	if d.Target != "" {
		c.ring.aim(d.Target)
	}
	return c.backoff.after(o.life, d), false
}

// once makes one attempt and serves the connection until it ends.
func (c *Client) once(ctx context.Context) (o outcome) {
	ep := c.ring.next()
	hello, sent, cut := c.hello(ep)
	c.stats.attempts.Add(1)
	limited, cancel := context.WithTimeout(ctx, c.cfg.ConnectTimeout)
	defer cancel()
	tr, err := c.dialer.open(limited, ep)
	if err != nil {
		c.stats.dialFailures.Add(1)
		return outcome{err: err}
	}
	cn := newConn(c, ep, tr, sent, cut)
	defer cn.shut()
	defer c.unlive()
	if err := cn.login(limited, hello); err != nil {
		c.stats.loginFailures.Add(1)
		return outcome{err: fmt.Errorf("log in at %s: %w", ep.url, err)}
	}
	c.ring.learn(cn.connected.Endpoints, ep)
	c.session = cn.connected.Session
	c.rememberExpiry(cn)
	err = cn.serve(ctx)
	return outcome{life: max(1, time.Since(cn.since)), err: err}
}

// unlive takes the connection away from calls, before it is shut: those that it fails may look for the next.
func (c *Client) unlive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = nil
	c.broadcast()
}

// maxHelloTags and maxHelloBytes bound the tags in one Connect or Subscribe, far below what every server takes.
const (
	maxHelloTags  = 512
	maxHelloBytes = 16 << 10
)

// hello counts an attempt and makes its Connect frame. It returns the tags that are in it, and whether some had no room.
func (c *Client) hello(ep endpoint) (body []byte, sent []string, cut bool) {
	c.mu.Lock()
	c.install.Attempt++
	in := c.install
	c.mu.Unlock()
	if err := c.cfg.Store.Save(in); err != nil {
		c.events.add(event{err: err})
	}
	c.setStatus(func(s *Status) {
		*s = Status{State: StateConnecting, Endpoint: ep.url, Transport: ep.transport, Attempt: in.Attempt, Connects: s.Connects}
	})
	m := frame.Connect{
		Token: []byte(c.token), Device: []byte(in.Device), Attempt: in.Attempt,
		Client: frame.ClientInfo{
			Name: []byte("klink-go"), Version: []byte(Version), Platform: []byte(c.cfg.Platform), AppVersion: []byte(c.cfg.AppVersion),
		},
		Resume: frame.Resume{Session: []byte(c.session)},
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	size := 0
	for t := range c.wanted {
		if size += len(t) + 2; size > maxHelloBytes || len(sent) == maxHelloTags {
			cut = true
			break
		}
		sent = append(sent, t)
		m.Tags = append(m.Tags, []byte(t))
	}
	m.HeartbeatSeconds, m.Background = c.wish, c.background
	return frame.AppendConnect(nil, &m), sent, cut
}
