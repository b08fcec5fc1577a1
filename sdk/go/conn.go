package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

const (
	maxUrgent = 16 // frames of the client's own: heartbeats, answers, tokens; more wait only while the peer takes nothing
	maxOut    = 64 // frames of calls; more wait in their callers, who have a context
	byeGrace  = time.Second
)

var (
	errHeartbeat = errors.New("nothing was heard from the server in time")
	errLost      = errors.New("connection lost")
)

// conn is one connection: made by an attempt, never used again.
type conn struct {
	c      *Client
	ep     endpoint
	tr     transport
	asked  []string // tags in its Connect
	cut    bool     // there are more, which had no room
	urgent chan []byte
	out    chan []byte
	end    chan struct{} // closed when the connection is given up
	logged chan struct{} // closed by the reader after connected and since are set
	beat   chan struct{} // a token: the interval has changed

	connected frame.Connected
	since     time.Time
	limits    frame.Limits
	granted   map[string]bool // tags of the login

	start    time.Time // of sent and heard
	sent     atomic.Int64
	heard    atomic.Int64
	frames   atomic.Uint64 // heard
	interval atomic.Int64  // of the heartbeat, in force

	readEnd, writeEnd chan struct{}
	readErr, writeErr error // set before the channel is closed

	mu      sync.Mutex
	pending map[uint32]*call
	inUse   int // requests in flight by the server's count
	lastID  uint32
	lost    bool
}

func newConn(c *Client, ep endpoint, tr transport, asked []string, cut bool) *conn {
	return &conn{
		c: c, ep: ep, tr: tr, asked: asked, cut: cut, start: time.Now(),
		urgent: make(chan []byte, maxUrgent), out: make(chan []byte, maxOut), end: make(chan struct{}), logged: make(chan struct{}),
		beat:    make(chan struct{}, 1),
		readEnd: make(chan struct{}), writeEnd: make(chan struct{}), pending: make(map[uint32]*call),
	}
}

// login sends Connect, starts reader and writer, and waits for Connected. ctx bounds it; once there is a session, only serve ends it.
func (cn *conn) login(ctx context.Context, hello []byte) error {
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-cn.logged:
		default:
			cn.tr.close()
		}
	})
	defer stop()
	cn.urgent <- hello // has room
	go cn.readLoop()
	go cn.writeLoop()
	select {
	case <-cn.logged:
	case <-cn.readEnd:
	case <-cn.writeEnd:
		cn.drain() // what the server said before it closed is the better reason
	}
	select {
	case <-cn.logged:
		return nil
	default:
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("no answer to Connect: %w", err)
	}
	return cn.endError()
}

// drain lets the reader take what has already come, for a short time, after a write failed.
func (cn *conn) drain() {
	t := time.AfterFunc(byeGrace, cn.tr.close)
	defer t.Stop()
	<-cn.readEnd
}

// endError is why the connection ended by itself: what the server said, before what the socket says.
func (cn *conn) endError() error {
	select {
	case <-cn.readEnd:
		if _, ok := errors.AsType[*DisconnectError](cn.readErr); ok {
			return cn.readErr
		}
	default:
	}
	select {
	case <-cn.writeEnd:
		return cn.writeErr
	default:
	}
	if errors.Is(cn.readErr, io.EOF) {
		return io.ErrUnexpectedEOF // a server says Disconnect first
	}
	return cn.readErr
}

// shut closes the socket, waits for reader and writer, and fails the calls in flight. After it there is no trace of the connection.
func (cn *conn) shut() {
	close(cn.end)
	cn.tr.close()
	<-cn.readEnd
	<-cn.writeEnd
	cn.mu.Lock()
	cn.lost = true
	for id, cl := range cn.pending {
		cl.done <- answer{err: errLost}
		delete(cn.pending, id)
	}
	cn.mu.Unlock()
}

// onConnected is called by the reader, so that the handler hears of the login before anything that came after it.
func (cn *conn) onConnected(m *frame.Connected) error {
	select {
	case <-cn.logged:
		return errors.New("a second Connected")
	default:
	}
	cn.connected = *m
	cn.connected.Endpoints, cn.connected.Tags = slices.Clone(m.Endpoints), nil
	cn.connected.Capabilities = slices.Clone(m.Capabilities)
	cn.since, cn.limits = time.Now(), m.Limits
	cn.interval.Store(int64(time.Duration(max(1, m.Heartbeat.Seconds)) * time.Second))
	c := cn.c
	c.stats.connects.Add(1)
	tags := cn.loginTags(m.Tags)
	c.mu.Lock()
	c.state = Status{
		State: StateConnected, Endpoint: cn.ep.url, Transport: cn.ep.transport, Attempt: c.state.Attempt, Connects: c.state.Connects + 1,
		Session: m.Session, User: m.User, App: m.App, Version: m.Version, Resumed: m.Resume == frame.ResumeResumed, Degraded: m.Degraded,
		Heartbeat: time.Duration(cn.interval.Load()),
	}
	st := c.state
	c.live = cn
	c.events.add(event{status: &st})
	if tags != nil {
		c.events.add(event{tags: tags})
	}
	c.broadcast()
	c.mu.Unlock()
	close(cn.logged)
	return nil
}

// readLoop decodes what comes until the connection ends.
func (cn *conn) readLoop() {
	defer close(cn.readEnd)
	var s frame.Server
	for {
		body, err := cn.tr.read()
		if err == nil {
			cn.heard.Store(int64(time.Since(cn.start)))
			cn.frames.Add(1)
			cn.c.stats.framesIn.Add(1)
			cn.c.stats.bytesIn.Add(uint64(len(body)))
			if err = s.Decode(body); err == nil {
				err = cn.handle(&s)
			}
		}
		if err != nil {
			cn.readErr = err
			return
		}
	}
}

// handle does one frame of the server; s is valid until it returns.
func (cn *conn) handle(s *frame.Server) error {
	c := cn.c
	switch s.Kind {
	case frame.ServerConnected:
		return cn.onConnected(&s.Connected)
	case frame.ServerDisconnect:
		return disconnectError(&s.Disconnect)
	case frame.ServerUnknown:
		c.stats.unknown.Add(1)
	case frame.ServerPush:
		c.stats.pushes.Add(1)
		c.events.add(event{push: copyPush(&s.Push)})
	case frame.ServerGap:
		c.stats.gaps.Add(1)
		g := &s.Gap
		c.events.add(event{gap: &Gap{Tag: g.Tag, From: g.From, To: g.To, Count: g.Count, Reason: g.Reason}})
	case frame.ServerPing:
		c.stats.pongs.Add(1)
		cn.say(frame.AppendPong(nil, &frame.Pong{ID: s.Ping.ID}))
	case frame.ServerTagsChanged:
		cn.onTagsChanged(&s.TagsChanged)
	case frame.ServerSubscribed:
		cn.onSubscribed(&s.Subscribed)
	case frame.ServerPublished:
		p := &s.Published
		cn.answer(p.ID, answer{published: Published{ID: p.Push, Matched: int(p.Matched), Enqueued: int(p.Enqueued)}})
	case frame.ServerResponse:
		cn.onResponse(&s.Response)
	case frame.ServerError:
		cn.onError(&s.Error)
	}
	return nil
}

func disconnectError(m *frame.Disconnect) error {
	return &DisconnectError{
		Code: klink.Disconnect(min(m.Code, 0xffff)), Reason: m.Reason, Retry: m.Retry,
		Delay: time.Duration(m.DelayMs) * time.Millisecond, Target: m.Target,
	}
}

func copyPush(p *frame.Push) *Push {
	q := &Push{
		ID: string(p.ID), Tag: string(p.Tag), Expr: string(p.Expr), From: string(p.From), CollapseKey: string(p.CollapseKey),
		Payload: klink.Payload{Kind: p.Body.Kind, Data: append([]byte(nil), p.Body.Data...)},
	}
	if p.TimeMs != 0 {
		q.Time = time.UnixMilli(p.TimeMs)
	}
	return q
}

// say queues a frame of the client's own. It waits only while the writer, which has a time limit, is stuck.
func (cn *conn) say(body []byte) {
	select {
	case cn.urgent <- body:
	case <-cn.writeEnd:
	case <-cn.end:
	}
}
