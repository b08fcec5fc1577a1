package fe

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/connmgr"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/fe/netloop"
	"github.com/klinkio/klink/proto/frame"
)

var testSecret = []byte("0123456789abcdef0123456789abcdef")

// node is a front end under test, with a store and a publisher that pushes to it.
type node struct {
	*Node
	store crux.Store
	addr  string
	stop  context.CancelFunc
	done  chan error
}

// Publish implements Publisher: this node is the only one.
func (n *node) Publish(p *klink.Push, done func(klink.Report, error)) {
	d := klink.Delivery{Push: p, Tags: p.To.Tags}
	if err := n.Start(&d, func(r klink.Report) { done(r, nil) }); err != nil {
		done(klink.Report{}, err)
	}
}

func startNode(t testing.TB, change func(*Config)) *node {
	t.Helper()
	store, err := crux.NewEmbedded(crux.EmbeddedConfig{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := auth.NewSecretKey("k1", testSecret)
	if err != nil {
		t.Fatal(err)
	}
	v, err := auth.NewVerifier(auth.VerifierConfig{Leeway: time.Second}, []*auth.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{store: store, done: make(chan error, 1)}
	cfg := Config{
		ID: "fe-1", Store: store, Verifier: v, Publisher: n, Apps: map[string]App{klink.DefaultApp: {}, "other": {}},
		Net: netloop.Config{Listeners: []netloop.Listener{{Addr: "127.0.0.1:0", Insecure: true}}, Loops: 2, SendBuffer: 8 << 10},
	}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	n.Node, err = Listen(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.addr = n.Addrs()[0].String()
	go func() { n.done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-n.done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if got := n.Sessions().QueuedBytes(); got != 0 {
			t.Errorf("%d bytes are queued for sessions that are gone", got)
		}
		if got := n.loginBytes.Load(); got != 0 {
			t.Errorf("%d bytes are held for logins that are over", got)
		}
		st, err := store.Stats(context.Background())
		if err != nil || st.Sessions != 0 {
			t.Errorf("the user state still has %d sessions, %v", st.Sessions, err)
		}
		store.Close()
	})
	return n
}

func token(t testing.TB, c auth.Claims) string {
	t.Helper()
	if c.Expires.IsZero() {
		c.Expires = time.Now().Add(time.Hour)
	}
	if c.Issued.IsZero() {
		c.Issued = time.Now()
	}
	s, err := auth.Mint(auth.SigningKey{KID: "k1", Secret: testSecret}, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// device is a client that speaks frames over a plain stream.
type device struct {
	t  testing.TB
	c  net.Conn
	r  *bufio.Reader
	in frame.Server
}

func dial(t testing.TB, addr string) *device {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return deviceOn(t, c)
}

func deviceOn(t testing.TB, c net.Conn) *device {
	c.SetDeadline(time.Now().Add(30 * time.Second))
	t.Cleanup(func() { c.Close() })
	return &device{t: t, c: c, r: bufio.NewReader(c)}
}

func (d *device) send(body []byte) {
	d.t.Helper()
	if _, err := d.c.Write(frame.AppendStream(nil, body)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *device) next() (*frame.Server, error) {
	n, err := binary.ReadUvarint(d.r)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(d.r, b); err != nil {
		return nil, err
	}
	return &d.in, d.in.Decode(b)
}

func (d *device) want(kind frame.ServerKind) *frame.Server {
	d.t.Helper()
	f, err := d.next()
	if err != nil {
		d.t.Fatalf("waiting for %v: %v", kind, err)
	}
	if f.Kind != kind {
		d.t.Fatalf("got %v %+v %+v, want %v", f.Kind, f.Error, f.Disconnect, kind)
	}
	return f
}

// enter connects a user and returns what Connected said.
func enter(t testing.TB, n *node, user string, tags ...string) *device {
	t.Helper()
	d := dial(t, n.addr)
	d.connect(token(t, auth.Claims{User: user, Subscribe: []string{"*"}, Publish: []string{"*"}}), user+"-phone", tags...)
	d.want(frame.ServerConnected)
	return d
}

func (d *device) connect(tok, dev string, tags ...string) {
	d.t.Helper()
	c := frame.Connect{Token: []byte(tok), Device: []byte(dev)}
	for _, tag := range tags {
		c.Tags = append(c.Tags, []byte(tag))
	}
	d.send(frame.AppendConnect(nil, &c))
}

func (n *node) push(t testing.TB, to klink.Target, text string, change func(*klink.Push)) klink.Report {
	t.Helper()
	now := time.Now()
	p := &klink.Push{ID: klink.NewID(now), App: klink.DefaultApp, To: to, Payload: klink.Payload{Kind: klink.DataText, Data: []byte(text)}, Accepted: now}
	if change != nil {
		change(p)
	}
	d := klink.Delivery{Push: p, Tags: to.Tags, Expr: to.Expr, All: to.All}
	users, err := n.store.Lookup(t.Context(), p.App, to.Users)
	if err != nil {
		t.Fatal(err)
	}
	for i, u := range users {
		for _, s := range u.Sessions {
			d.Sessions = append(d.Sessions, klink.SessionRef{Incarnation: s.Incarnation, Handle: s.Handle, User: to.Users[i], Device: s.Device})
		}
	}
	r, err := n.Deliver(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLoginSubscribePush(t *testing.T) {
	n := startNode(t, nil)
	d := dial(t, n.addr)
	d.connect(token(t, auth.Claims{User: "alice", Subscribe: []string{"room:*"}, Join: []string{"vip"}}), "phone", "room:1", "secret")
	c := d.want(frame.ServerConnected).Connected
	if c.User != "alice" || c.App != klink.DefaultApp || c.Heartbeat.Seconds != 60 || c.Limits.Tags != 128 || c.Session == "" || c.Version == 0 {
		t.Errorf("Connected says %+v", c)
	}
	var got []string
	for _, r := range c.Tags {
		got = append(got, fmt.Sprint(r.Tag, " ", r.Error))
	}
	if want := []string{"vip ok", "room:1 ok", "secret forbidden"}; !slices.Equal(got, want) {
		t.Errorf("tags %v, want %v", got, want)
	}
	d.send(frame.AppendSubscribe(nil, &frame.Subscribe{ID: 7, Tags: []frame.TagPosition{{Tag: []byte("room:2")}, {Tag: []byte("x")}}}))
	s := d.want(frame.ServerSubscribed).Subscribed
	if s.ID != 7 || !s.Barrier || s.Tags[0].Error != klink.OK || s.Tags[1].Error != klink.CodeForbidden {
		t.Errorf("Subscribed says %+v", s)
	}
	for _, tc := range []struct {
		to      klink.Target
		matched int
		tag     string
	}{
		{klink.Target{Tags: []string{"room:2"}}, 1, "room:2"},
		{klink.Target{Tags: []string{"room:1", "room:2", "vip"}}, 1, "room:1"},
		{klink.Target{Tags: []string{"nobody"}}, 0, ""},
		{klink.Target{Expr: "room:1 && !nobody"}, 1, ""},
		{klink.Target{Expr: "room:1 && !vip"}, 0, ""},
		{klink.Target{Users: []string{"alice", "bob"}}, 1, ""},
		{klink.Target{Users: []string{"alice"}, Tags: []string{"vip", "room:2"}, Expr: "room:1"}, 1, ""},
		{klink.Target{All: true}, 1, ""},
		{klink.Target{All: true, Expr: "!vip"}, 0, ""},
		{klink.Target{All: true, Expr: "!x"}, 1, ""},
	} {
		text := fmt.Sprintf("%+v", tc.to)
		r := n.push(t, tc.to, text, nil)
		if r.Matched != tc.matched || r.Enqueued != tc.matched {
			t.Errorf("%+v: matched %d enqueued %d, want %d", tc.to, r.Matched, r.Enqueued, tc.matched)
		}
		if tc.matched == 1 {
			p := d.want(frame.ServerPush).Push
			if string(p.Body.Data) != text || string(p.Tag) != tc.tag {
				t.Errorf("got %q with tag %q, want %q with tag %q", p.Body.Data, p.Tag, text, tc.tag)
			}
		}
	}
}

func TestHeartbeatPublishRequest(t *testing.T) {
	n := startNode(t, nil)
	a, b := enter(t, n, "alice", "room:1"), enter(t, n, "bob", "room:1")
	a.send(nil)
	a.want(frame.ServerPong)
	a.send(frame.AppendPublish(nil, &frame.Publish{ID: 3, Tag: []byte("room:1"), Body: frame.Body{Kind: klink.DataJSON, Data: []byte(`{"hi":1}`)}}))
	got := map[frame.ServerKind]bool{}
	for range 2 {
		f, err := a.next()
		if err != nil {
			t.Fatal(err)
		}
		got[f.Kind] = true
		if f.Kind == frame.ServerPublished && (f.Published.ID != 3 || f.Published.Matched != 2 || f.Published.Enqueued != 2) {
			t.Errorf("Published says %+v", f.Published)
		}
	}
	if !got[frame.ServerPublished] || !got[frame.ServerPush] {
		t.Errorf("the publisher got %v", got)
	}
	if p := b.want(frame.ServerPush).Push; string(p.From) != "alice" || string(p.Body.Data) != `{"hi":1}` || p.Body.Kind != klink.DataJSON {
		t.Errorf("bob got %+v", p)
	}
	b.send(frame.AppendRequest(nil, &frame.Request{ID: 9, Service: []byte("echo"), Body: frame.Body{Kind: klink.DataText, Data: []byte("hello")}}))
	if r := b.want(frame.ServerResponse).Response; r.ID != 9 || r.Error != klink.OK || string(r.Body.Data) != "hello" {
		t.Errorf("echo says %+v", r)
	}
	b.send(frame.AppendRequest(nil, &frame.Request{ID: 10, Service: []byte("bank")}))
	if e := b.want(frame.ServerError).Error; e.ID != 10 || e.Code != klink.CodeForbidden {
		t.Errorf("a service that is not granted: %+v", e)
	}
}

func TestReplacedAndLateClose(t *testing.T) {
	n := startNode(t, nil)
	d1 := enter(t, n, "alice", "room:1")
	d2 := enter(t, n, "alice", "room:1")
	f := d1.want(frame.ServerDisconnect).Disconnect
	if klink.Disconnect(f.Code) != klink.DisconnectReplaced || f.Retry {
		t.Errorf("the old session was told %+v", f)
	}
	if _, err := d1.next(); err != io.EOF {
		t.Errorf("after Disconnect: %v, want the end", err)
	}
	if r := n.push(t, klink.Target{Users: []string{"alice"}}, "x", nil); r.Enqueued != 1 {
		t.Errorf("the new session is not known: %+v", r)
	}
	d2.want(frame.ServerPush)
}

func TestRefusedLogins(t *testing.T) {
	n := startNode(t, nil)
	good := auth.Claims{User: "alice"}
	tests := []struct {
		name string
		tok  string
		dev  string
		want klink.Disconnect
	}{
		{"no token", "", "d", klink.DisconnectUnauthorized},
		{"garbage", "a.b.c", "d", klink.DisconnectUnauthorized},
		{"far too long", strings.Repeat("a", 20_000), "d", klink.DisconnectUnauthorized},
		{"expired", token(t, auth.Claims{User: "a", Expires: time.Now().Add(-time.Minute)}), "d", klink.DisconnectUnauthorized},
		{"no device", token(t, good), "", klink.DisconnectBadConnect},
		{"other device", token(t, auth.Claims{User: "a", Device: "x"}), "d", klink.DisconnectForbidden},
		{"unknown app", token(t, auth.Claims{User: "a", App: "nope"}), "d", klink.DisconnectForbidden},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d := dial(t, n.addr)
			d.connect(tc.tok, tc.dev)
			f := d.want(frame.ServerDisconnect).Disconnect
			if klink.Disconnect(f.Code) != tc.want || f.Reason == "" {
				t.Errorf("got %d %q, want %v", f.Code, f.Reason, tc.want)
			}
		})
	}
	t.Run("not Connect first", func(t *testing.T) {
		d := dial(t, n.addr)
		d.send(frame.AppendSubscribe(nil, &frame.Subscribe{ID: 1}))
		if f := d.want(frame.ServerDisconnect).Disconnect; klink.Disconnect(f.Code) != klink.DisconnectProtocol {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("revoked", func(t *testing.T) {
		if err := n.store.Revoke(t.Context(), klink.DefaultApp, "eve", "", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		d := dial(t, n.addr)
		d.connect(token(t, auth.Claims{User: "eve"}), "d")
		if f := d.want(frame.ServerDisconnect).Disconnect; klink.Disconnect(f.Code) != klink.DisconnectRevoked {
			t.Errorf("got %+v", f)
		}
	})
}

func TestDrainTellsEverybodyWhenAndWhere(t *testing.T) {
	n := startNode(t, func(c *Config) { c.DrainPerSecond, c.DrainTarget = 100_000, "tcp://elsewhere:1" })
	var devices []*device
	for i := range 50 {
		devices = append(devices, enter(t, n, fmt.Sprint("user", i)))
	}
	n.Drain(t.Context())
	delays := make(map[uint32]bool)
	for _, d := range devices {
		f := d.want(frame.ServerDisconnect).Disconnect
		if klink.Disconnect(f.Code) != klink.DisconnectShutdown || f.Target != "tcp://elsewhere:1" || !f.Retry {
			t.Fatalf("told %+v", f)
		}
		delays[f.DelayMs] = true
		if _, err := d.next(); err != io.EOF {
			t.Fatalf("after Disconnect: %v", err)
		}
	}
	if len(delays) < 40 {
		t.Errorf("50 clients share %d slots", len(delays))
	}
	if c, err := net.Dial("tcp", n.addr); err == nil {
		c.Close()
		t.Error("a draining node still accepts")
	}
}

// A thousand tag pushes from many goroutines reach every member exactly once and in the order of each publisher.
func TestConcurrentPushesReachEveryoneOnceInOrder(t *testing.T) {
	n := startNode(t, nil)
	const members, publishers, each = 20, 8, 100
	var devices []*device
	for i := range members {
		devices = append(devices, enter(t, n, fmt.Sprint("user", i), "room:1"))
	}
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				r := n.push(t, klink.Target{Tags: []string{"room:1"}}, fmt.Sprint(p, ":", i), nil)
				if r.Matched != members {
					t.Errorf("matched %d, want %d", r.Matched, members)
				}
			}
		})
	}
	for _, d := range devices {
		wg.Go(func() {
			next := make([]int, publishers)
			for range publishers * each {
				f, err := d.next()
				if err != nil || f.Kind != frame.ServerPush {
					t.Errorf("got %v %v", f.Kind, err)
					return
				}
				var p, i int
				fmt.Sscanf(string(f.Push.Body.Data), "%d:%d", &p, &i)
				if i != next[p] {
					t.Errorf("publisher %d: got %d, want %d", p, i, next[p])
					return
				}
				next[p]++
			}
		})
	}
	wg.Wait()
}

var (
	_ connmgr.Authority = (*Node)(nil)
)
