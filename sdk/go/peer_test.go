package sdk

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/klinkio/klink"
	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

// peer is the server's end of one connection. It speaks klink/1 through the generated code, not through what the client uses.
type peer struct {
	t   testing.TB
	c   net.Conn
	r   *bufio.Reader
	end string // the address that was dialed
}

func newPeer(t testing.TB, c net.Conn, addr string) *peer {
	return &peer{t: t, c: c, r: bufio.NewReader(c), end: addr}
}

// recv returns the next frame; an empty one is a heartbeat.
func (p *peer) recv() (*klinkv1.ClientFrame, error) {
	n, err := binary.ReadUvarint(p.r)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(p.r, b); err != nil {
		return nil, err
	}
	f := new(klinkv1.ClientFrame)
	if err := proto.Unmarshal(b, f); err != nil {
		p.t.Errorf("the client sent what is no frame: %v", err)
		return nil, err
	}
	return f, nil
}

// send ignores errors: the client may be gone, and what it got is what the tests look at.
func (p *peer) send(frames ...*klinkv1.ServerFrame) {
	for _, f := range frames {
		b, err := proto.Marshal(f)
		if err != nil {
			p.t.Error(err)
		}
		_, _ = p.c.Write(append(binary.AppendUvarint(nil, uint64(len(b))), b...))
	}
}

// accept reads Connect and answers it.
func (p *peer) accept(change func(m *klinkv1.Connected)) *klinkv1.Connect {
	f, err := p.recv()
	if err != nil {
		return nil
	}
	c := f.GetConnect()
	if c == nil {
		p.t.Errorf("the first frame is %v", f)
		return nil
	}
	m := &klinkv1.Connected{
		Session: "s", User: "alice", App: "default", ServerTimeMs: time.Now().UnixMilli(),
		Heartbeat: &klinkv1.Heartbeat{Seconds: 60, MinSeconds: 10, MaxSeconds: 600},
		Limits:    &klinkv1.Limits{FrameBytes: 64 << 10, Tags: 128, Requests: 4, FramesPerSecond: 50},
	}
	for _, t := range c.Tags {
		m.Tags = append(m.Tags, &klinkv1.TagResult{Tag: t})
	}
	if change != nil {
		change(m)
	}
	p.send(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Connected{Connected: m}})
	return c
}

// serve answers what comes, the way that a server does, until the connection ends. see may answer a frame itself and return true.
func (p *peer) serve(see func(f *klinkv1.ClientFrame) bool) {
	for {
		f, err := p.recv()
		if err != nil {
			return
		}
		if see != nil && see(f) {
			continue
		}
		switch k := f.Kind.(type) {
		case nil:
			p.send(&klinkv1.ServerFrame{})
		case *klinkv1.ClientFrame_Subscribe:
			s := &klinkv1.Subscribed{Id: k.Subscribe.Id, Barrier: true}
			for _, t := range k.Subscribe.Tags {
				s.Tags = append(s.Tags, &klinkv1.TagResult{Tag: t.Tag})
			}
			p.send(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Subscribed{Subscribed: s}})
		case *klinkv1.ClientFrame_Unsubscribe:
			s := &klinkv1.Subscribed{Id: k.Unsubscribe.Id, Left: true}
			for _, t := range k.Unsubscribe.Tags {
				s.Tags = append(s.Tags, &klinkv1.TagResult{Tag: t})
			}
			p.send(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Subscribed{Subscribed: s}})
		case *klinkv1.ClientFrame_Publish:
			p.send(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Published{Published: &klinkv1.Published{
				Id: k.Publish.Id, Push: "p" + k.Publish.GetText(), Matched: 2, Enqueued: 1,
			}}})
		case *klinkv1.ClientFrame_Request:
			p.send(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Response{Response: &klinkv1.Response{
				Id: k.Request.Id, Body: &klinkv1.Response_Data{Data: k.Request.GetData()},
			}}})
		case *klinkv1.ClientFrame_Refresh:
			p.send(errorFrame(k.Refresh.Id, klinkv1.ErrorCode_OK, "refreshed"))
		case *klinkv1.ClientFrame_Bye:
			return
		}
	}
}

func errorFrame(id uint32, code klinkv1.ErrorCode, text string) *klinkv1.ServerFrame {
	return &klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Error{Error: &klinkv1.Error{Id: id, Code: code, Text: text}}}
}

func pushFrame(id, text string) *klinkv1.ServerFrame {
	return &klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Push{Push: &klinkv1.Push{Id: id, Body: &klinkv1.Push_Text{Text: text}}}}
}

func disconnectFrame(code klink.Disconnect, change func(m *klinkv1.Disconnect)) *klinkv1.ServerFrame {
	m := &klinkv1.Disconnect{Code: uint32(code), Reason: "test", Retry: code.Info().Retry}
	if change != nil {
		change(m)
	}
	return &klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Disconnect{Disconnect: m}}
}

// network is a Config.Dial over pipes. Each connection is served by script, on its own goroutine, with its number from 0 on.
type network struct {
	t      testing.TB
	script func(n int, p *peer)
	refuse func(n int) error // before a connection is made; may be nil

	mu      sync.Mutex
	dials   []time.Time
	addrs   []string
	open    int
	maxOpen int
}

var errRefused = errors.New("connection refused")

func (n *network) dial(_ context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := len(n.dials)
	n.dials = append(n.dials, time.Now())
	n.addrs = append(n.addrs, addr)
	if n.refuse != nil {
		if err := n.refuse(k); err != nil {
			return nil, err
		}
	}
	client, server := net.Pipe()
	n.open++
	n.maxOpen = max(n.maxOpen, n.open)
	go func() {
		defer server.Close()
		n.script(k, newPeer(n.t, server, addr))
	}()
	return &counted{Conn: client, n: n}, nil
}

// counted is a socket that knows when it was closed.
type counted struct {
	net.Conn
	n    *network
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.n.mu.Lock()
		c.n.open--
		c.n.mu.Unlock()
	})
	return c.Conn.Close()
}

func (n *network) snapshot() (dials []time.Time, addrs []string, open, maxOpen int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.dials), slices.Clone(n.addrs), n.open, n.maxOpen
}

// notes is what a script on another goroutine saw.
type notes[T any] struct {
	mu sync.Mutex
	v  []T
}

func (n *notes[T]) add(v ...T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.v = append(n.v, v...)
}

func (n *notes[T]) all() []T {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.v)
}

// log is a Handler that remembers.
type log struct {
	mu       sync.Mutex
	statuses []Status
	pushes   []*Push
	gaps     []*Gap
	tags     []*Tags
	errs     []error
}

func (l *log) OnStatus(s *Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.statuses = append(l.statuses, *s)
}
func (l *log) OnPush(p *Push)    { l.mu.Lock(); defer l.mu.Unlock(); l.pushes = append(l.pushes, p) }
func (l *log) OnGap(g *Gap)      { l.mu.Lock(); defer l.mu.Unlock(); l.gaps = append(l.gaps, g) }
func (l *log) OnTags(t *Tags)    { l.mu.Lock(); defer l.mu.Unlock(); l.tags = append(l.tags, t) }
func (l *log) OnError(err error) { l.mu.Lock(); defer l.mu.Unlock(); l.errs = append(l.errs, err) }

func (l *log) states() (out []State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.statuses {
		out = append(out, l.statuses[i].State)
	}
	return out
}

func staticToken(context.Context, TokenReason) (string, error) { return "token", nil }

// start makes a client on the network and runs it until the end of the test.
func (n *network) start(change func(c *Config)) (*Client, *log) {
	n.t.Helper()
	l := new(log)
	cfg := Config{Endpoints: []string{"tcp://a:1"}, Ordered: true, Token: staticToken, Handler: l, Dial: n.dial}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	go func() { _ = c.Run(context.Background()) }()
	n.t.Cleanup(func() { // inside the bubble, which waits for every goroutine
		_ = c.Close()
		<-c.Done()
	})
	return c, l
}

// connect is start and the first login.
func (n *network) connect(change func(c *Config)) (*Client, *log) {
	n.t.Helper()
	c, l := n.start(change)
	if _, err := c.await(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	return c, l
}

func wantCode(t *testing.T, err error, want klink.Code) {
	t.Helper()
	e, ok := errors.AsType[*klink.Error](err)
	if !ok || e.Code != want {
		t.Errorf("got error %v, want code %v", err, want)
	}
}

// canned is a transport whose bodies were recorded: each is a byte with its length, and so many bytes.
type canned struct{ in []byte }

func (c *canned) read() ([]byte, error) {
	if len(c.in) == 0 {
		return nil, io.EOF
	}
	n := min(int(c.in[0]), len(c.in)-1)
	body := c.in[1 : n+1]
	c.in = c.in[n+1:]
	return body, nil
}

func (c *canned) write([][]byte) error { return io.ErrClosedPipe }
func (c *canned) close()               {}
