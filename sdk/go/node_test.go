package sdk_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/fe"
	"github.com/klinkio/klink/fe/netloop"
	sdk "github.com/klinkio/klink/sdk/go"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

// node is a real front end with TLS and plaintext on one port.
type node struct {
	*fe.Node
	store crux.Store
	addr  string
	roots *x509.CertPool
}

// Publish implements fe.Publisher: this node is the only one.
func (n *node) Publish(p *klink.Push, done func(klink.Report, error)) {
	if err := n.Start(&klink.Delivery{Push: p, Tags: p.To.Tags}, func(r klink.Report) { done(r, nil) }); err != nil {
		done(klink.Report{}, err)
	}
}

func newStore(t testing.TB) crux.Store {
	t.Helper()
	store, err := crux.NewEmbedded(crux.EmbeddedConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func startNode(t testing.TB, store crux.Store, id, addr string, change func(c *fe.Config)) *node {
	t.Helper()
	key, err := auth.NewSecretKey("k1", secret)
	if err != nil {
		t.Fatal(err)
	}
	v, err := auth.NewVerifier(auth.VerifierConfig{Leeway: time.Second}, []*auth.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{store: store}
	cert, roots := certificate(t)
	n.roots = roots
	cfg := fe.Config{
		ID: id, Store: store, Verifier: v, Publisher: n, Apps: map[string]fe.App{klink.DefaultApp: {}},
		Net: netloop.Config{
			Listeners: []netloop.Listener{{Addr: addr, Insecure: true, TLS: true}}, Loops: 2,
			TLS: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: []string{netloop.ALPN, "http/1.1"}},
		},
	}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.Node, err = fe.Listen(ctx, cfg)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	n.addr = n.Addrs()[0].String()
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return n
}

func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "klink test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, roots
}

func mint(t testing.TB, user string, life time.Duration) string {
	t.Helper()
	s, err := auth.Mint(auth.SigningKey{KID: "k1", Secret: secret}, auth.Claims{
		User: user, Issued: time.Now(), Expires: time.Now().Add(life), Subscribe: []string{"room:*"}, Publish: []string{"room:*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// events is a Handler that hands everything on; tests read what they wait for.
type events struct {
	statuses chan *sdk.Status
	pushes   chan *sdk.Push
}

func newEvents() *events {
	return &events{statuses: make(chan *sdk.Status, 1000), pushes: make(chan *sdk.Push, 10000)}
}

func (e *events) handler(t testing.TB) sdk.Handler {
	return &sdk.Callbacks{
		Status: func(s *sdk.Status) { e.statuses <- s },
		Push:   func(p *sdk.Push) { e.pushes <- p },
		Gap:    func(g *sdk.Gap) { t.Errorf("gap %+v", *g) },
		Error:  func(err error) { t.Errorf("told %v", err) },
	}
}

func (e *events) wait(t testing.TB, state sdk.State) *sdk.Status {
	t.Helper()
	for {
		select {
		case s := <-e.statuses:
			if s.State == state {
				return s
			}
		case <-t.Context().Done():
			t.Fatalf("the test ended before %v", state)
		}
	}
}

func (n *node) config(t testing.TB, user, endpoint string, e *events) sdk.Config {
	return sdk.Config{
		Endpoints: []string{endpoint}, Handler: e.handler(t), TLS: &tls.Config{RootCAs: n.roots},
		Token: func(context.Context, sdk.TokenReason) (string, error) { return mint(t, user, time.Hour), nil },
	}
}

func dial(t testing.TB, cfg sdk.Config) *sdk.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := sdk.Dial(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		<-c.Done()
	})
	return c
}

func text(s string) klink.Payload { return klink.Payload{Kind: klink.DataText, Data: []byte(s)} }

func TestEveryTransport(t *testing.T) {
	for _, host := range []string{"127.0.0.1:0", "[::1]:0"} {
		n := startNode(t, newStore(t), "fe-1", host, func(c *fe.Config) { c.Sessions.FramesPerSecond, c.Sessions.FrameBurst = 100_000, 100_000 })
		for _, format := range []string{"tcp://%s", "tls://%s", "ws://%s/connect", "wss://%s/connect"} {
			t.Run(fmt.Sprintf(format, host), func(t *testing.T) { testTransport(t, n, fmt.Sprintf(format, n.addr)) })
		}
	}
}

func testTransport(t *testing.T, n *node, endpoint string) {
	alice, bob := newEvents(), newEvents()
	a := dial(t, n.config(t, "alice", endpoint, alice))
	b := dial(t, n.config(t, "bob", endpoint, bob))
	st := a.Status()
	if st.User != "alice" || st.App != klink.DefaultApp || st.Heartbeat != time.Minute || st.Session == "" || st.Transport.String() != endpoint[:len(st.Transport.String())] {
		t.Errorf("status %+v", st)
	}
	for _, c := range []*sdk.Client{a, b} {
		sub, err := c.Subscribe(t.Context(), "room:1", "secret")
		if err != nil || !sub.Barrier || sub.Tags[0].Code != klink.OK || sub.Tags[1].Code != klink.CodeForbidden {
			t.Fatalf("got %+v, %v", sub, err)
		}
	}
	// Small frames and some that take several TLS records and socket reads; in the publisher's order.
	for i := range 40 {
		p := sdk.Publication{Tag: "room:1", Payload: klink.Payload{Data: make([]byte, i*800)}}
		p.Payload.Data = append(p.Payload.Data, byte(i))
		got, err := a.Publish(t.Context(), p)
		if err != nil || got.Matched != 2 || got.Enqueued != 2 {
			t.Fatalf("got %+v, %v", got, err)
		}
		for _, e := range []*events{alice, bob} {
			push := <-e.pushes
			if push.ID != got.ID || push.From != "alice" || push.Tag != "room:1" || len(push.Payload.Data) != i*800+1 || push.Payload.Data[i*800] != byte(i) {
				t.Fatalf("push %d is %s from %s with %d bytes", i, push.ID, push.From, len(push.Payload.Data))
			}
		}
	}
	if _, err := a.Publish(t.Context(), sdk.Publication{Tag: "other", Payload: text("x")}); codeOf(err) != klink.CodeForbidden {
		t.Errorf("publishing to a tag that is not granted: %v", err)
	}
	if _, err := a.Publish(t.Context(), sdk.Publication{Tag: "room:1", Payload: klink.Payload{Data: make([]byte, 40<<10)}}); codeOf(err) != klink.CodeTooLarge {
		t.Errorf("more than the server's payload limit: %v", err)
	}
	if _, err := a.Request(t.Context(), sdk.Call{Service: "bank"}); codeOf(err) != klink.CodeForbidden {
		t.Errorf("a service that is not granted: %v", err)
	}
	if got, err := b.Request(t.Context(), sdk.Call{Service: "echo", Payload: text("hello"), Timeout: 20 * time.Second}); err != nil || string(got.Data) != "hello" || got.Kind != klink.DataText {
		t.Errorf("echo: %+v, %v", got, err)
	}
	if left, err := b.Unsubscribe(t.Context(), "room:1"); err != nil || left[0].Code != klink.OK {
		t.Errorf("got %+v, %v", left, err)
	}
	if got, err := a.Publish(t.Context(), sdk.Publication{Tag: "room:1", Payload: text("bye")}); err != nil || got.Matched != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	ref := session(t, n, "alice")
	if _, err := n.Sessions().Ping(t.Context(), ref, 77); err != nil {
		t.Errorf("dial test: %v", err)
	}
	_ = a.Close()
	<-a.Done()
	if last := alice.wait(t, sdk.StateClosed); last.Err != nil {
		t.Errorf("closed with %v", last.Err)
	}
}

func codeOf(err error) klink.Code {
	e, ok := err.(*klink.Error)
	if !ok {
		return klink.OK
	}
	return e.Code
}

func session(t *testing.T, n *node, user string) klink.Handle {
	t.Helper()
	users, err := n.store.Lookup(t.Context(), klink.DefaultApp, []string{user})
	if err != nil || len(users) != 1 || len(users[0].Sessions) != 1 {
		t.Fatalf("%s: %+v, %v", user, users, err)
	}
	return users[0].Sessions[0].Handle
}

// A drained front end sends its clients to another; they carry their tags there and are told everything that is pushed after that.
func TestDrainMovesToTheTarget(t *testing.T) {
	store := newStore(t)
	second := startNode(t, store, "fe-2", "127.0.0.1:0", nil)
	first := startNode(t, store, "fe-1", "127.0.0.1:0", func(c *fe.Config) {
		c.DrainTarget, c.DrainSpread = "tcp://"+second.addr, 50*time.Millisecond
	})
	e := newEvents()
	cfg := first.config(t, "alice", "tcp://"+first.addr, e)
	cfg.Tags = []string{"room:1"}
	c := dial(t, cfg)
	e.wait(t, sdk.StateConnected)
	first.Drain(t.Context())
	lost := e.wait(t, sdk.StateWaiting)
	if d, ok := lost.Err.(*sdk.DisconnectError); !ok || d.Code != klink.DisconnectShutdown || d.Delay != lost.Delay || d.Target != "tcp://"+second.addr {
		t.Errorf("lost with %v, comes back after %v", lost.Err, lost.Delay)
	}
	if st := e.wait(t, sdk.StateConnected); st.Endpoint != "tcp://"+second.addr || st.Connects != 2 {
		t.Errorf("went to %+v", st)
	}
	got, err := c.Publish(t.Context(), sdk.Publication{Tag: "room:1", Payload: text("here")})
	if err != nil || got.Matched != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if p := <-e.pushes; string(p.Payload.Data) != "here" {
		t.Errorf("got %q", p.Payload.Data)
	}
}

// Of two clients with one device the later login wins, and the other stops for good.
func TestReplacedStops(t *testing.T) {
	n := startNode(t, newStore(t), "fe-1", "127.0.0.1:0", nil)
	e1, e2 := newEvents(), newEvents()
	cfg := n.config(t, "alice", "ws://"+n.addr, e1)
	cfg.Store = sdk.NewMemoryStore("phone")
	c1 := dial(t, cfg)
	cfg = n.config(t, "alice", "tls://"+n.addr, e2)
	store := sdk.NewMemoryStore("phone")
	if err := store.Save(sdk.Install{Device: "phone", Attempt: c1.Status().Attempt}); err != nil {
		t.Fatal(err)
	}
	cfg.Store = store
	c2 := dial(t, cfg)
	<-c1.Done()
	if d, ok := c1.Err().(*sdk.DisconnectError); !ok || d.Code != klink.DisconnectReplaced {
		t.Errorf("ended with %v", c1.Err())
	}
	if c2.Status().State != sdk.StateConnected {
		t.Errorf("the winner is %v", c2.Status().State)
	}
}

// The server ends a session whose token has expired; the client exchanges it before that, on the same connection.
func TestRefreshAgainstTheRealServer(t *testing.T) {
	n := startNode(t, newStore(t), "fe-1", "127.0.0.1:0", nil)
	e := newEvents()
	cfg := n.config(t, "alice", "tls://"+n.addr, e)
	asked := make(chan sdk.TokenReason, 100)
	lives := []time.Duration{5 * time.Second, time.Hour}
	cfg.Token = func(_ context.Context, r sdk.TokenReason) (string, error) {
		asked <- r
		life := lives[0]
		lives = lives[min(1, len(lives)-1):]
		return mint(t, "alice", life), nil
	}
	c := dial(t, cfg)
	if r := <-asked; r != sdk.TokenConnect {
		t.Errorf("asked because of %q", r)
	}
	if r := <-asked; r != sdk.TokenExpiring {
		t.Errorf("asked because of %q", r)
	}
	// An answer that comes after the Refresh was sent on the same connection: it was taken.
	if _, err := c.Subscribe(t.Context(), "room:1"); err != nil {
		t.Error(err)
	}
	for c.Stats().Refreshes == 0 && c.Stats().Connects == 1 {
		if _, err := c.Unsubscribe(t.Context(), "room:1"); err != nil {
			t.Fatal(err)
		}
	}
	if s := c.Stats(); s.Refreshes != 1 || s.Connects != 1 {
		t.Errorf("counted %+v", s)
	}
}

func TestUntrustedCertificate(t *testing.T) {
	n := startNode(t, newStore(t), "fe-1", "127.0.0.1:0", nil)
	for _, scheme := range []string{"tls", "wss"} {
		cfg := n.config(t, "alice", scheme+"://"+n.addr, newEvents())
		cfg.TLS = nil
		ctx, cancel := context.WithCancel(t.Context())
		cfg.Handler = &sdk.Callbacks{Status: func(s *sdk.Status) {
			if s.State == sdk.StateWaiting {
				cancel()
			}
		}}
		_, err := sdk.Dial(ctx, cfg)
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
			t.Errorf("%s: got %v", scheme, err)
		}
	}
}
