package netloop

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klinkio/klink/crypto/tls13"
)

// stalled begins a handshake and does not go on.
func (ts *testServer) stalled(t testing.TB) net.Conn {
	t.Helper()
	c := ts.tcp(t, 0)
	n := ts.Stats().TLS.Started
	if _, err := c.Write(clientHello(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil { // the server's first flight
		t.Fatal(err)
	}
	if ts.Stats().TLS.Started != n+1 {
		t.Error("the handshake is not counted")
	}
	return c
}

func gone(c net.Conn) error {
	_, err := io.Copy(io.Discard, c)
	return err
}

// TestMaxHandshakes fills all places with clients that stall: a client that comes takes the place of the one that has stalled longest.
func TestMaxHandshakes(t *testing.T) {
	for _, engine := range engines {
		ts := serve(t, func(c *Config) { c.MaxHandshakes, c.Engine = 4, engine })
		var conns []net.Conn
		for range 4 {
			conns = append(conns, ts.stalled(t))
		}
		if n := ts.Stats().Handshaking; n != 4 {
			t.Fatalf("%d handshakes", n)
		}
		p := ts.dial(t, "tls")
		roundTrip(t, p, "past them")
		ts.refusal(t, RefusedHandshakes, 1)
		_ = gone(conns[0]) // returns, whatever it says
		if n := ts.Stats().Handshaking; n != 3 {
			t.Errorf("%d handshakes are left, want those of the others", n)
		}
		roundTrip(t, ts.dial(t, "wss"), "into the free place")
		ts.refusal(t, RefusedHandshakes, 1)
	}
}

// TestMaxHandshakesPerNet bounds what one network may have in flight, and forgets it afterwards.
func TestMaxHandshakesPerNet(t *testing.T) {
	ts := serve(t, func(c *Config) {
		c.MaxHandshakesPerNet, c.countLoopback = 2, true
		fromLoopback(c)
	})
	a, b := ts.stalled(t), ts.stalled(t)
	if _, err := ts.tryDial("tls", 0); err == nil {
		t.Error("a third of the network got in")
	}
	ts.refusal(t, RefusedNet, 1)
	other := ts.tcp(t, 0)
	if _, err := other.Write(proxyHeader(1, proxyV4, proxyV4, "")); err != nil {
		t.Fatal(err)
	}
	p, err := ts.upon(other, "tls")
	if err != nil {
		t.Fatalf("a client of another network: %v", err)
	}
	roundTrip(t, p, "other")
	a.Close()
	b.Close()
	ts.refusal(t, RefusedGone, 2)
	roundTrip(t, ts.dial(t, "tls"), "after them")
	eventually(t, "no handshake is left", func() bool { return ts.Stats().Handshaking == 0 })
	ts.refusal(t, RefusedNet, 1)
	h := ts.hs[0]
	h.mu.Lock() // the loop has nothing to do; the lock orders this after its last round
	defer h.mu.Unlock()
	if len(h.byID) != 0 || h.stalled.oldest != nil {
		t.Errorf("%d handshakes, oldest %v", len(h.byID), h.stalled.oldest)
	}
}

func TestNetOf(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.7": "192.0.2.0/24", "2001:db8:1:2ff::7": "2001:db8:1:200::/56", "fe80::1%eth0": "fe80::/56", "127.0.0.1": "", "::1": "",
	} {
		a := netip.MustParseAddr(in)
		if got := netOf(a, false); got.IsValid() != (want != "") || got.IsValid() && got.String() != want {
			t.Errorf("%s: %v", in, got)
		}
	}
}

// TestSlowloris has clients that stop at every place before they are open. Each ends by its deadline.
func TestSlowloris(t *testing.T) {
	ts := serve(t, func(c *Config) {
		c.HandshakeTimeout, c.UpgradeTimeout = 100*time.Millisecond, 100*time.Millisecond
		fromLoopback(c)
	})
	hello := string(clientHello(t))
	places := []string{
		"", "G", "GET /connect HTTP/1.1\r\nHost: ", "\x16", hello[:3], hello[:50], hello, proxySignature[:6],
		string(proxyHeader(1, proxyV4, proxyV4, "")), string(proxyHeader(1, proxyV4, proxyV4, "")) + hello,
	}
	routines := runtime.NumGoroutine()
	var conns []net.Conn
	for _, in := range places {
		c := ts.tcp(t, 0)
		if _, err := io.WriteString(c, in); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	tc := tls.Client(ts.tcp(t, 0), &tls.Config{RootCAs: ts.roots, ServerName: "localhost"})
	if err := tc.Handshake(); err != nil { // and then says nothing
		t.Fatal(err)
	}
	ts.refusal(t, RefusedTimeout, uint64(len(places)+1))
	eventually(t, "all are gone", func() bool { st := ts.Stats(); return st.Conns == 0 && st.Handshaking == 0 && st.InputBytes == 0 })
	for _, c := range append(conns, tc) {
		_ = gone(c) // returns, whatever it says
	}
	eventually(t, "no coroutine is left", func() bool { return runtime.NumGoroutine() <= routines })
	// An open connection may take its time over a frame: sessions have heartbeats.
}

// TestHandshakeRefused wants the alert to reach the client.
func TestHandshakeRefused(t *testing.T) {
	for _, engine := range engines {
		ts := serve(t, func(c *Config) { c.Engine, c.CloseGrace = engine, 50*time.Millisecond })
		old := ts.clientTLS()
		old.MaxVersion = tls.VersionTLS12
		err := tls.Client(ts.tcp(t, 0), old).Handshake()
		if err == nil || !strings.Contains(err.Error(), "protocol version") {
			t.Errorf("TLS 1.2: %v", err)
		}
		ts.refusal(t, RefusedHandshake, 1)
		c := ts.tcp(t, 0)
		if _, err := c.Write(append([]byte{22, 3, 1, 0, 100}, make([]byte, 100)...)); err != nil {
			t.Fatal(err)
		}
		if b := closedByPeer(t, c); len(b) != 7 || b[0] != 21 {
			t.Errorf("the answer to garbage is %x, want an alert", b)
		}
		c.Close()
		ts.refusal(t, RefusedHandshake, 2)
		eventually(t, "all are gone", func() bool { st := ts.Stats(); return st.Conns == 0 && st.Handshaking == 0 })
	}
}

// TestHandshakeByteByByte cuts the client's flights, and has frames right behind them.
func TestHandshakeByteByByte(t *testing.T) {
	for _, engine := range engines {
		ts := serve(t, func(c *Config) { c.Engine = engine })
		p, err := ts.upon(slowConn{ts.tcp(t, 0)}, "tls")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			roundTrip(t, p, strings.Repeat("x", 100*i))
		}
	}
}

// slowConn writes byte by byte.
type slowConn struct{ *net.TCPConn }

func (c slowConn) Write(p []byte) (int, error) {
	if err := slowly(c.TCPConn, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// heldSigner signs when it is told to.
type heldSigner struct {
	crypto.Signer
	mu   sync.Mutex
	jobs []func()
}

func (s *heldSigner) StartSign(message []byte, opts crypto.SignerOpts, done func([]byte, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, func() {
		h := opts.HashFunc().New()
		h.Write(message)
		done(s.Sign(rand.Reader, h.Sum(nil), opts))
	})
}

func (s *heldSigner) waiting() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.jobs) }

func (s *heldSigner) release() {
	s.mu.Lock()
	jobs := s.jobs
	s.jobs = nil
	s.mu.Unlock()
	for _, f := range jobs {
		f()
	}
}

func signedBy(t testing.TB, c *Config) *heldSigner {
	t.Helper()
	cert, _ := testCert(t)
	s := &heldSigner{Signer: cert.PrivateKey.(crypto.Signer)}
	cert.PrivateKey = asyncKey{s}
	c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	return s
}

// asyncKey hides Sign, so that only the asynchronous way is there.
type asyncKey struct{ s *heldSigner }

func (k asyncKey) Public() crypto.PublicKey { return k.s.Public() }
func (k asyncKey) StartSign(message []byte, opts crypto.SignerOpts, done func([]byte, error)) {
	k.s.StartSign(message, opts, done)
}

var _ tls13.AsyncSigner = asyncKey{}

// TestWaitForSigner has handshakes wait for a signature from elsewhere. They keep their place, others are refused meanwhile; one that
// leaves, or that nobody answers, is given up.
func TestWaitForSigner(t *testing.T) {
	for _, engine := range engines {
		var signer *heldSigner
		ts := serve(t, func(c *Config) {
			c.MaxHandshakes, c.Engine = 2, engine
			signer = signedBy(t, c)
		})
		dialed := make(chan error, 2)
		for range 2 {
			go func() {
				p, err := ts.tryDial("tls", 0)
				if err == nil {
					p.Close()
				}
				dialed <- err
			}()
		}
		eventually(t, "two wait", func() bool { return signer.waiting() == 2 })
		if _, err := ts.tryDial("tls", 0); err == nil {
			t.Error("a third handshake ended without a signature")
		}
		ts.refusal(t, RefusedHandshakes, 1)
		signer.release()
		for range 2 {
			if err := <-dialed; err != nil {
				t.Error(err)
			}
		}
		c := ts.tcp(t, 0)
		if _, err := c.Write(clientHello(t)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "one waits", func() bool { return signer.waiting() == 1 })
		if err := c.SetLinger(0); err != nil {
			t.Fatal(err)
		}
		c.Close()
		ts.refusal(t, RefusedGone, 1)
		signer.release() // the answer comes for nobody
	}
}

// TestBehindWithHandshakes fills the queue of a handshake loop that does not run: what waits for it is bounded.
func TestBehindWithHandshakes(t *testing.T) {
	const limit = 3
	idle := listenTest(t, func(c *Config) { c.MaxHandshakes = limit })
	defer idle.Close()
	for i := range limit + 2 {
		r, ok := idle.hs[0].post(&handshake{})
		if ok != (i < limit) || !ok && r != RefusedHandshakes {
			t.Errorf("handshake %d: %v %t", i, r, ok)
		}
	}
	idle.hs[0].posted = nil
}

// TestLateHandshake has a handshake loop look at a client whose time is over: no signature is spent on it. What is kept of the client's first
// bytes until then is little, whatever came behind its hello.
func TestLateHandshake(t *testing.T) {
	b := newByHand(t, func(c *Config) { c.Listeners[0].TLS = true })
	write(t, b.connect(0), append(clientHello(t), make([]byte, 30000)...))
	hs := b.hs[0]
	b.until("it is posted", func() bool { return len(hs.posted) == 1 })
	m := hs.posted[0]
	if len(m.first) > firstRead {
		t.Errorf("%d bytes are kept", len(m.first))
	}
	hs.posted, hs.nowMs = nil, m.due
	hs.begin(m)
	b.round()
	if st := b.Stats(); st.TLS.Started != 0 || st.Refused[RefusedTimeout] != 1 || st.Handshaking != 0 {
		t.Errorf("%d handshakes were begun, %d refused, %d are left", st.TLS.Started, st.Refused[RefusedTimeout], st.Handshaking)
	}
}

// TestHandshakeList keeps the order of steps.
func TestHandshakeList(t *testing.T) {
	var q handshakeList
	m := make([]handshake, 4)
	for i := range m {
		q.add(&m[i])
	}
	q.remove(&m[1])
	q.remove(&m[1])
	q.remove(&m[0])
	q.add(&m[0])
	q.remove(&m[3])
	if q.oldest != &m[2] || m[2].newer != &m[0] || m[0].older != &m[2] || q.newest != &m[0] || m[0].newer != nil || m[2].older != nil {
		t.Error("the list is not in order")
	}
	q.remove(&m[2])
	if q.oldest != &m[0] || q.newest != &m[0] || m[0].older != nil {
		t.Error("the last is not alone")
	}
	q.remove(&m[0])
	if q.oldest != nil || q.newest != nil {
		t.Error("the list is not empty")
	}
}
