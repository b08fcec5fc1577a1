package tls13

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"sync"
	"testing"
)

// remoteKey is a key elsewhere. start sees each request.
type remoteKey struct {
	key   crypto.Signer
	start func(message []byte, opts crypto.SignerOpts, done func([]byte, error))
}

func (k *remoteKey) Public() crypto.PublicKey { return k.key.Public() }

func (k *remoteKey) StartSign(message []byte, opts crypto.SignerOpts, done func([]byte, error)) {
	k.start(message, opts, done)
}

// sign is what the other side does.
func (k *remoteKey) sign(message []byte, opts crypto.SignerOpts) ([]byte, error) {
	return crypto.SignMessage(k.key, rand.Reader, message, opts)
}

// remoteServer has an RSA certificate whose key answers as start decides.
func remoteServer(t *testing.T, start func(k *remoteKey, message []byte, opts crypto.SignerOpts, done func([]byte, error))) *Server {
	t.Helper()
	k := &remoteKey{key: rsaKey()}
	k.start = func(m []byte, o crypto.SignerOpts, done func([]byte, error)) { start(k, m, o, done) }
	cert := testCert(rsaKey())
	cert.PrivateKey = k
	cfg := serverConfig()
	cfg.Certificates = []tls.Certificate{cert}
	return newTestServer(t, cfg, EngineLoop)
}

// TestAsyncSigner signs on other goroutines, as a remote signer's client would, with many handshakes at once.
func TestAsyncSigner(t *testing.T) {
	const n = 20
	var workers sync.WaitGroup
	defer workers.Wait()
	s := remoteServer(t, func(k *remoteKey, m []byte, o crypto.SignerOpts, done func([]byte, error)) {
		if _, ok := o.(*rsa.PSSOptions); !ok || o.HashFunc() == 0 {
			t.Errorf("options %T", o)
		}
		workers.Go(func() { done(k.sign(m, o)) })
	})
	ready := make(chan *Handshake, n) // one for each handshake
	s.OnSigned(func(h *Handshake) { ready <- h })

	clients := map[uint64]*memClient{}
	for i := range uint64(n) {
		h := s.NewHandshake()
		h.Owner = i
		clients[i] = newMemClient(clientConfig())
		st, err := h.Feed(clients[i].feed(nil))
		if err != nil {
			t.Fatal(err)
		}
		// The worker can't be faster than the first park only by chance: Waiting is what a loop must expect.
		if st == NeedMore {
			t.Logf("handshake %d was signed before it parked", i)
		} else if st != Waiting || !h.Waiting() {
			t.Fatalf("status %d", st)
		}
	}
	for range n {
		h := <-ready
		if st, err := h.Resume(); st != NeedMore || err != nil {
			t.Fatal(st, err)
		}
		c := clients[h.Owner]
		if st, err := h.Feed(c.feed(h.Output())); st != Done || err != nil {
			t.Fatal(st, err)
		}
		var r Record
		if _, err := h.Export(&r); err != nil {
			t.Fatal(err)
		}
		if _, err := c.conn.Write([]byte{byte(h.Owner)}); err != nil {
			t.Fatal(err)
		}
		if got := data(t, openAll(&r, NewCache(1), c.take())); len(got) != 1 || got[0] != byte(h.Owner) {
			t.Errorf("connection %d got %x", h.Owner, got)
		}
	}
	if s.Stats().Active != 0 {
		t.Errorf("%d coroutines", s.Stats().Active)
	}
}

// Trap 9: Sign runs inside a coroutine and finds its handshake through the Server, whatever order the answers have.
func TestTrap09_SignFindsItsHandshake(t *testing.T) {
	type request struct {
		h       *Handshake
		answer  func()
		message string
	}
	var requests []request
	var s *Server
	s = remoteServer(t, func(k *remoteKey, m []byte, o crypto.SignerOpts, done func([]byte, error)) {
		requests = append(requests, request{s.current, func() { done(k.sign(m, o)) }, string(m)})
	})
	var notified []*Handshake
	s.OnSigned(func(h *Handshake) { notified = append(notified, h) })
	var hs []*Handshake
	var clients []*memClient
	for range 3 {
		h, c := s.NewHandshake(), newMemClient(clientConfig())
		if st, err := h.Feed(c.feed(nil)); st != Waiting || err != nil {
			t.Fatal(st, err)
		}
		hs, clients = append(hs, h), append(clients, c)
	}
	for i, h := range hs {
		if requests[i].h != h {
			t.Fatalf("request %d belongs to another handshake", i)
		}
		if st, err := h.Resume(); st != Waiting || err != nil { // nothing has come yet
			t.Fatal(st, err)
		}
	}
	for _, i := range []int{1, 2, 0} {
		requests[i].answer()
		if notified[len(notified)-1] != hs[i] {
			t.Fatalf("answer %d was notified for another handshake", i)
		}
		requests[i].answer() // a second answer does nothing
	}
	if len(notified) != 3 {
		t.Fatalf("%d notifications", len(notified))
	}
	for i, h := range hs {
		if st, err := h.Resume(); st != NeedMore || err != nil {
			t.Fatal(st, err)
		}
		if st, err := h.Feed(clients[i].feed(h.Output())); st != Done || err != nil || clients[i].err != nil {
			t.Fatal(st, err, clients[i].err)
		}
	}
	// RFC 8446 section 4.4.3: the signer sees the message, so that it can check what it signs.
	const prefix = "TLS 1.3, server CertificateVerify\x00"
	for _, r := range requests {
		if len(r.message) != 64+len(prefix)+32 && len(r.message) != 64+len(prefix)+48 || r.message[64:64+len(prefix)] != prefix {
			t.Errorf("message %q", r.message)
		}
	}
}

func TestSignerAnswersAtOnce(t *testing.T) {
	s := remoteServer(t, func(k *remoteKey, m []byte, o crypto.SignerOpts, done func([]byte, error)) { done(k.sign(m, o)) })
	connect(t, s, clientConfig()).echo("ping", "pong") // no OnSigned needed
}

func TestSignerFails(t *testing.T) {
	broken := errors.New("circuit breaker is open")
	s := remoteServer(t, func(_ *remoteKey, _ []byte, _ crypto.SignerOpts, done func([]byte, error)) { done(nil, broken) })
	h, c := s.NewHandshake(), newMemClient(clientConfig())
	wantError(t, shake(h, c), ReasonSigner, NoAlert)
	if c.err == nil || s.Stats().Failed[ReasonSigner] != 1 || s.Stats().Active != 0 {
		t.Errorf("client %v, stats %+v", c.err, s.Stats())
	}
}

// An aborted handshake does not wait, and a late answer reaches nobody.
func TestAbortWhileWaiting(t *testing.T) {
	var answer func()
	s := remoteServer(t, func(k *remoteKey, m []byte, o crypto.SignerOpts, done func([]byte, error)) {
		answer = func() { done(k.sign(m, o)) }
	})
	notified := 0
	s.OnSigned(func(*Handshake) { notified++ })
	h := s.NewHandshake()
	if st, err := h.Feed(hello(clientConfig())); st != Waiting || err != nil {
		t.Fatal(st, err)
	}
	h.Abort()
	answer()
	if s.Stats().Active != 0 || notified != 0 {
		t.Errorf("%d coroutines, %d notifications", s.Stats().Active, notified)
	}
	if st, err := h.Resume(); st != Failed || !errors.Is(err, errAborted) {
		t.Errorf("Resume: %d, %v", st, err)
	}
}

// While it waits a handshake takes one record of input and no more.
func TestPendingBoundWhileWaiting(t *testing.T) {
	s := remoteServer(t, func(*remoteKey, []byte, crypto.SignerOpts, func([]byte, error)) {})
	h := s.NewHandshake()
	if st, err := h.Feed(hello(clientConfig())); st != Waiting || err != nil {
		t.Fatal(st, err)
	}
	if st, err := h.Feed(make([]byte, MaxRecord)); st != Waiting || err != nil {
		t.Fatal(st, err)
	}
	st, err := h.Feed([]byte{0})
	if st != Failed {
		t.Fatalf("status %d", st)
	}
	wantError(t, err, ReasonPending, NoAlert)
}

// A callback may hand out a certificate with a remote key, too.
func TestAsyncSignerFromCallback(t *testing.T) {
	k := &remoteKey{key: rsaKey()}
	k.start = func(m []byte, o crypto.SignerOpts, done func([]byte, error)) { done(k.sign(m, o)) }
	cert := testCert(rsaKey())
	cert.PrivateKey = k
	cfg := &tls.Config{NextProtos: []string{"klink/1"}, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }}
	connect(t, newTestServer(t, cfg, EngineLoop), clientConfig()).echo("ping", "pong")
	if cert.PrivateKey != crypto.PrivateKey(k) {
		t.Error("the user's certificate was changed")
	}
}

func TestBoundSignerOutsideOfHandshake(t *testing.T) {
	b := &boundSigner{newTestServer(t, serverConfig(), EngineLoop), &remoteKey{key: rsaKey()}}
	if _, err := b.SignMessage(nil, []byte("x"), crypto.SHA256); err == nil {
		t.Error("signed outside of a handshake")
	}
	if _, err := b.Sign(nil, []byte("x"), crypto.SHA256); err == nil {
		t.Error("signed a digest")
	}
}
