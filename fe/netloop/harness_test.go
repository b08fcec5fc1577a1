package netloop

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crypto/tls13"
	"github.com/klinkio/klink/fe/link"
)

// echo is a handler that sends every body back, as a frame of its own, and queues what the transport refuses.
type echo struct {
	loop link.Loop

	mu      sync.Mutex
	open    map[klink.Handle]link.Info
	closed  map[klink.Handle]link.CloseReason
	alive   int
	queue   map[klink.Handle][]*link.Frame
	queued  int
	refused int
	onMsg   func(e *echo, h klink.Handle, body []byte) bool // true: handled
	tasks   []func()
}

func newEcho(l link.Loop) *echo {
	return &echo{loop: l, open: map[klink.Handle]link.Info{}, closed: map[klink.Handle]link.CloseReason{}, queue: map[klink.Handle][]*link.Frame{}}
}

func (e *echo) OnOpen(h klink.Handle, in link.Info) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, dup := e.open[h]; dup {
		panic("a handle was opened twice")
	}
	e.open[h] = in
}

func (e *echo) OnMessage(h klink.Handle, body []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.onMsg != nil && e.onMsg(e, h, body) {
		return
	}
	e.send(h, link.NewFrame(bytes.Clone(body)))
}

func (e *echo) send(h klink.Handle, f *link.Frame) {
	if len(e.queue[h]) > 0 {
		e.queue[h] = append(e.queue[h], f)
		return
	}
	switch e.loop.Send(h, f) {
	case link.Queued:
		e.queued++
	case link.Refused:
		e.refused++
		e.queue[h] = append(e.queue[h], f)
	case link.Accepted:
	}
}

func (e *echo) OnAlive(klink.Handle) { e.mu.Lock(); e.alive++; e.mu.Unlock() }

func (e *echo) OnWritable(h klink.Handle) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.queue[h]) > 0 {
		f := e.queue[h][0]
		r := e.loop.Send(h, f)
		if r == link.Refused {
			return
		}
		e.queue[h] = e.queue[h][1:]
		if r == link.Queued {
			return
		}
	}
}

func (e *echo) OnClose(h klink.Handle, why link.CloseReason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.open[h]; !ok {
		panic("OnClose without OnOpen")
	}
	delete(e.open, h)
	delete(e.queue, h)
	e.closed[h] = why
}

func (e *echo) OnRound(int64) int {
	e.mu.Lock()
	tasks := e.tasks
	e.tasks = nil
	e.mu.Unlock()
	for _, f := range tasks {
		f()
	}
	return -1
}

func (e *echo) do(f func()) {
	done := make(chan struct{})
	e.mu.Lock()
	e.tasks = append(e.tasks, func() { f(); close(done) })
	e.mu.Unlock()
	e.loop.Wake()
	<-done
}

type testServer struct {
	*Server
	echoes []*echo
	roots  *x509.CertPool
	addr   string
}

// serve starts a server that takes everything on one port, and stops it at the end of the test.
func serve(t testing.TB, change func(*Config)) *testServer {
	t.Helper()
	ts, stop := start(t, change)
	t.Cleanup(stop)
	return ts
}

// start is serve with the stopping left to the caller. It wants nothing to be left when the server has stopped.
func start(t testing.TB, change func(*Config)) (ts *testServer, stop func()) {
	t.Helper()
	ts = listenTest(t, change)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ts.Run(ctx) }()
	for _, e := range ts.echoes {
		e.do(func() {}) // all goroutines are there now, which some tests count
	}
	return ts, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if st := ts.Stats(); st.Conns != 0 || st.Handshaking != 0 || st.OutputBytes != 0 || st.InputBytes != 0 || st.Open != [NumTransports]int64{} {
			t.Errorf("left at the end: %d connections, %d handshakes, %d bytes of output, %d of input, open %v",
				st.Conns, st.Handshaking, st.OutputBytes, st.InputBytes, st.Open)
		}
	}
}

// listenTest makes a server that does not run yet.
func listenTest(t testing.TB, change func(*Config)) *testServer {
	t.Helper()
	cert, roots := testCert(t)
	ts := &testServer{roots: roots}
	cfg := Config{
		Listeners: []Listener{{Addr: "127.0.0.1:0", TLS: true, Insecure: true}}, Loops: 2, HandshakeLoops: 1,
		TLS: &tls.Config{Certificates: []tls.Certificate{cert}},
		NewHandler: func(l link.Loop) link.Handler {
			e := newEcho(l)
			ts.echoes = append(ts.echoes, e)
			return e
		},
		CloseGrace: time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	srv, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ts.Server, ts.addr = srv, srv.Addrs()[0].String()
	return ts
}

var engines = []tls13.Engine{tls13.EngineLoop, tls13.EngineStdlib}

var certOnce = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
})

func testCert(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	cert, err := certOnce()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert.Leaf)
	return cert, pool
}

// hangAfter ends a wait for something that never comes. Nothing is asserted about time.
const hangAfter = 20 * time.Second

// eventually looks until f holds.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(hangAfter); !f(); {
		if time.Now().After(end) {
			t.Fatalf("this never came: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// refusal waits until the server has refused n connections for this reason.
func (ts *testServer) refusal(t testing.TB, r Refusal, n uint64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d refusals %v", n, r), func() bool { return ts.Stats().Refused[r] >= n })
	if got := ts.Stats().Refused[r]; got != n {
		t.Errorf("%d refusals %v, want %d", got, r, n)
	}
}

// ended waits until n connections have been closed for this reason, and no connection is left.
func (ts *testServer) ended(t testing.TB, why link.CloseReason, n uint64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d ends %v", n, why), func() bool { return ts.Stats().Closed[why] >= n })
	if st := ts.Stats(); st.Closed[why] != n {
		t.Errorf("%d ends %v, want %d", st.Closed[why], why, n)
	}
}

// only waits for the single open connection.
func (ts *testServer) only(t testing.TB) (e *echo, h klink.Handle) {
	t.Helper()
	eventually(t, "one open connection", func() bool {
		n := 0
		for _, x := range ts.echoes {
			x.mu.Lock()
			for k := range x.open {
				e, h = x, k
				n++
			}
			x.mu.Unlock()
		}
		return n == 1
	})
	return e, h
}

// closedByPeer reads to the end of a connection and returns what came before it. A reset is no orderly end.
func closedByPeer(t testing.TB, c net.Conn) []byte {
	t.Helper()
	b, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("the connection did not end in order: %v", err)
	}
	return b
}

var transports = []string{"tcp", "tls", "ws", "wss"}

// forAll runs a test over every transport, engine and address family.
func forAll(t *testing.T, change func(*Config), f func(t *testing.T, ts *testServer, transport string)) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		for _, engine := range engines {
			for _, tr := range transports {
				if engine == tls13.EngineStdlib && (tr == "tcp" || tr == "ws") {
					continue
				}
				name := fmt.Sprintf("%s/engine%d/%s", tr, engine, addr[:5])
				t.Run(name, func(t *testing.T) {
					ts := serve(t, func(c *Config) {
						c.Engine, c.Listeners[0].Addr = engine, addr
						if change != nil {
							change(c)
						}
					})
					f(t, ts, tr)
				})
			}
		}
	}
}

// onMessage sets what the handlers of all loops do with a message; see echo.
func (ts *testServer) onMessage(f func(e *echo, h klink.Handle, body []byte) bool) {
	for _, e := range ts.echoes {
		e.mu.Lock()
		e.onMsg = f
		e.mu.Unlock()
	}
}

// roundTrip sends a body and wants it back. Plain TCP is open only when the first bytes have come.
func roundTrip(t testing.TB, p peer, body string) {
	t.Helper()
	if err := p.send([]byte(body)); err != nil {
		t.Fatalf("send %q: %v", body, err)
	}
	if b, err := p.recv(); err != nil || string(b) != body {
		t.Fatalf("the echo of %q is %q, %v", body, b, err)
	}
}

// listenChild is a plain server for a process of its own.
func listenChild() (srv *Server, stop func() error, err error) {
	srv, err = Listen(Config{
		Listeners: []Listener{{Addr: "127.0.0.1:0", Insecure: true}}, Loops: 1, MaxConns: 1 << 20,
		NewHandler: func(l link.Loop) link.Handler { return newEcho(l) },
	})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	return srv, func() error { cancel(); return <-done }, nil
}
