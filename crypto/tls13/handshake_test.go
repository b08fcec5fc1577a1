package tls13

import (
	"bytes"
	"crypto/tls"
	"errors"
	"testing"
)

// TestGoClient is the default client of crypto/tls: ML-KEM, ALPN, SNI.
func TestGoClient(t *testing.T) {
	c := connect(t, newTestServer(t, serverConfig(), EngineLoop), clientConfig())
	got := c.h.Result()
	if got.ALPN != "klink/1" || got.ServerName != testHost || got.Resumed || got.Retried || got.Curve != tls.X25519MLKEM768 {
		t.Errorf("result %+v", got)
	}
	if got.CipherSuite != c.r.CipherSuite() || got.CipherSuite == 0 {
		t.Errorf("suite %#x in the result, %#x in the record", got.CipherSuite, c.r.CipherSuite())
	}
	for range 3 {
		c.echo("ping", "pong")
	}
	wire, err := c.r.AppendCloseNotify(c.cache, connKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.client.shim.in = wire
	if n, err := c.client.conn.Read(make([]byte, 1)); n != 0 || err == nil || err.Error() != "EOF" {
		t.Errorf("client reads %d, %v after close_notify", n, err)
	}
	if err := c.client.conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if ev := c.open(c.client.take()); len(ev) != 1 || ev[0].ev != EventCloseNotify {
		t.Errorf("server opens %+v", ev)
	}
}

func TestCurves(t *testing.T) {
	for _, tc := range []struct {
		name           string
		server, client []tls.CurveID
		retried        bool
	}{
		{"X25519 only", nil, []tls.CurveID{tls.X25519}, false},
		{"P-256 only", nil, []tls.CurveID{tls.CurveP256}, false},
		{"retry with P-384", []tls.CurveID{tls.CurveP384}, []tls.CurveID{tls.X25519, tls.CurveP384}, true},
		{"retry of an ML-KEM hello", []tls.CurveID{tls.CurveP521}, nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := serverConfig()
			cfg.CurvePreferences = tc.server
			client := clientConfig()
			client.CurvePreferences = tc.client
			client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			s := newTestServer(t, cfg, EngineLoop)
			for _, resumed := range []bool{false, true} {
				c := connect(t, s, client)
				if got := c.h.Result(); got.Retried != tc.retried || got.Resumed != resumed {
					t.Errorf("result %+v, want retried %t, resumed %t", got, tc.retried, resumed)
				}
				c.echo("ping", "pong") // the client takes its ticket here
			}
		})
	}
}

// TestByteAtATime gives the server its input in pieces of each size.
func TestByteAtATime(t *testing.T) {
	for _, step := range []int{1, 2, 5, 7, 50, 1000} {
		s := newTestServer(t, serverConfig(), EngineLoop)
		h := s.NewHandshake()
		client := newMemClient(clientConfig())
		toServer := client.feed(nil)
		for round := 0; !client.ended || len(toServer) > 0; round++ {
			if round > 4 {
				t.Fatal("no progress")
			}
			var out []byte
			for piece := range slicesOf(toServer, step) {
				if _, err := h.Feed(piece); err != nil {
					t.Fatal(err)
				}
				out = append(out, h.Output()...)
			}
			toServer = client.feed(out)
			if client.err != nil {
				t.Fatal(client.err)
			}
		}
		client.stop()
		if h.Status() != Done {
			t.Fatalf("status %d", h.Status())
		}
		var r Record
		if left, err := h.Export(&r); err != nil || len(left) != 0 {
			t.Fatal(left, err)
		}
		if _, err := client.conn.Write([]byte("after")); err != nil {
			t.Fatal(err)
		}
		if got := data(t, openAll(&r, NewCache(1), client.take())); string(got) != "after" {
			t.Fatalf("step %d: got %q", step, got)
		}
	}
}

// slicesOf cuts b into copies of step bytes, so that a Feed that kept its argument would show.
func slicesOf(b []byte, step int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(step, len(b))
			piece := bytes.Clone(b[:n])
			if !yield(piece) {
				return
			}
			for i := range piece {
				piece[i] = 0xee
			}
			b = b[n:]
		}
	}
}

func TestTLS12Refused(t *testing.T) {
	for _, engine := range []Engine{EngineLoop, EngineStdlib} {
		s := newTestServer(t, serverConfig(), engine)
		cfg := clientConfig()
		cfg.MaxVersion = tls.VersionTLS12
		h := s.NewHandshake()
		client := newMemClient(cfg)
		err := shake(h, client)
		wantError(t, err, ReasonHandshake, NoAlert)
		if client.err == nil || !bytes.Contains([]byte(client.err.Error()), []byte("protocol version")) {
			t.Errorf("client saw %v", client.err)
		}
		if st := s.Stats(); st.Failed[ReasonHandshake] != 1 || st.Active != 0 || st.Done != 0 {
			t.Errorf("stats %+v", st)
		}
	}
}

// TestFirstBytes sends what is no TLS: it is refused before any stack is made.
func TestFirstBytes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		in     string
		reason Reason
		output string
	}{
		{"HTTP", "GET / HTTP/1.1\r\n", ReasonNotTLS, ""},
		{"one byte", "\x00", ReasonNotTLS, ""},
		{"SSLv2", "\x80\x2e\x01\x00\x02", ReasonNotTLS, ""},
		{"handshake of another major version", "\x16\x02", ReasonNotTLS, ""},
		{"alert first", "\x15\x03\x01\x00\x02\x02\x28", ReasonNotTLS, ""},
		{"application data first", "\x17\x03\x03\x00\x01x", ReasonNotTLS, ""},
		{"record over the limit", "\x16\x03\x01\x40\x01", ReasonOverflow, "\x15\x03\x03\x00\x02\x02\x16"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newTestServer(t, serverConfig(), EngineLoop)
			h := s.NewHandshake()
			st, err := h.Feed([]byte(tc.in))
			var e *Error
			if !errors.As(err, &e) || e.Reason != tc.reason || st != Failed {
				t.Fatalf("status %d, %v", st, err)
			}
			if got := string(h.Output()); got != tc.output {
				t.Errorf("output %q", got)
			}
			if again, err2 := h.Feed([]byte("more")); again != Failed || !errors.Is(err2, err) {
				t.Errorf("second Feed: %d, %v", again, err2)
			}
			if got := s.Stats(); got.Started != 0 || got.Failed[tc.reason] != 1 {
				t.Errorf("stats %+v", got)
			}
		})
	}
}

// TestGarbageInHandshake lets crypto/tls refuse, and its alert must come out.
func TestGarbageInHandshake(t *testing.T) {
	for name, in := range map[string][]byte{
		"no message":         {22, 3, 1, 0, 4, 9, 0, 0, 0},
		"empty ClientHello":  {22, 3, 1, 0, 4, 1, 0, 0, 0},
		"huge ClientHello":   {22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff},
		"random ClientHello": append([]byte{22, 3, 1, 0, 54, 1, 0, 0, 50}, bytes.Repeat([]byte{3}, 50)...),
	} {
		s := newTestServer(t, serverConfig(), EngineLoop)
		h := s.NewHandshake()
		st, err := h.Feed(in)
		var e *Error
		if st != Failed || !errors.As(err, &e) || e.Reason != ReasonHandshake {
			t.Errorf("%s: status %d, %v", name, st, err)
		}
		if out := h.Output(); len(out) != 7 || out[0] != typeAlert {
			t.Errorf("%s: output %x, want an alert", name, out)
		}
		if s.Stats().Active != 0 {
			t.Errorf("%s: %d coroutines", name, s.Stats().Active)
		}
	}
}

// TestRecordTooLongInHandshake: after the ServerHello the limit is 16,384 + 256.
func TestRecordTooLongInHandshake(t *testing.T) {
	for _, n := range []int{maxCiphertext + 1, maxLegacyCiphertext + 1, 65535} {
		s := newTestServer(t, serverConfig(), EngineLoop)
		h := s.NewHandshake()
		client := newMemClient(clientConfig())
		if st, err := h.Feed(client.feed(nil)); st != NeedMore || err != nil {
			t.Fatal(st, err)
		}
		h.Output()
		st, err := h.Feed([]byte{23, 3, 3, byte(n >> 8), byte(n)})
		if st != Failed || err == nil {
			t.Errorf("length %d: status %d, %v", n, st, err)
		}
		if len(h.Output()) == 0 {
			t.Errorf("length %d: no alert", n)
		}
		client.stop()
	}
}

func TestPeerAlert(t *testing.T) {
	s := newTestServer(t, serverConfig(), EngineLoop)
	h := s.NewHandshake()
	cfg := clientConfig()
	cfg.InsecureSkipVerify = false // does not trust our certificate
	client := newMemClient(cfg)
	if _, err := h.Feed(client.feed(nil)); err != nil {
		t.Fatal(err)
	}
	alert := client.feed(h.Output())
	if client.err == nil || len(alert) == 0 {
		t.Fatalf("client: %v, %d bytes", client.err, len(alert))
	}
	st, err := h.Feed(alert)
	if st != Failed {
		t.Fatalf("status %d", st)
	}
	wantError(t, err, ReasonPeerAlert, NoAlert)
	if s.Stats().Failed[ReasonPeerAlert] != 1 {
		t.Errorf("stats %+v", s.Stats())
	}
}

func TestALPNMismatch(t *testing.T) {
	s := newTestServer(t, serverConfig(), EngineLoop)
	cfg := clientConfig()
	cfg.NextProtos = []string{"h3"}
	client := newMemClient(cfg)
	wantError(t, shake(s.NewHandshake(), client), ReasonHandshake, NoAlert)
	if client.err == nil {
		t.Error("the client was content")
	}
	cfg.NextProtos = nil // a client without ALPN is served
	if c := connect(t, s, cfg); c.h.Result().ALPN != "" {
		t.Errorf("ALPN %q", c.h.Result().ALPN)
	}
}

// TestPendingBound: a handshake keeps what one read brings behind the Finished, and no more.
func TestPendingBound(t *testing.T) {
	done := func() *Handshake {
		h := newTestServer(t, serverConfig(), EngineLoop).NewHandshake()
		if err := shake(h, newMemClient(clientConfig())); err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := done()
	if st, err := h.Feed(make([]byte, MaxPending)); st != Done || err != nil {
		t.Fatalf("at the limit: %d, %v", st, err)
	}
	st, err := h.Feed([]byte{0})
	if st != Failed {
		t.Fatalf("over the limit: %d", st)
	}
	wantError(t, err, ReasonPending, NoAlert)

	h = done()
	var r Record
	for range 3 {
		if _, err := h.Feed([]byte("ab")); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := h.Export(&r); err != nil || string(left) != "ababab" {
		t.Fatalf("left over %q, %v", left, err)
	}
}

// TestMovedHandshake: nothing of a handshake works after its keys are moved, above all no write.
func TestMovedHandshake(t *testing.T) {
	s := newTestServer(t, serverConfig(), EngineLoop)
	h := s.NewHandshake()
	if err := shake(h, newMemClient(clientConfig())); err != nil {
		t.Fatal(err)
	}
	retained := h.tls
	var r, other Record
	if _, err := h.Export(&r); err != nil {
		t.Fatal(err)
	}
	wantMisuse(t, ErrMisuse, func() error { _, err := h.Export(&other); return err })
	wantMisuse(t, ErrMisuse, func() error { _, err := h.Feed([]byte("x")); return err })
	wantMisuse(t, ErrMisuse, func() error { _, err := h.Conn(); return err })
	wantMisuse(t, ErrMisuse, func() error { _, err := retained.Write([]byte("under a used nonce")); return err })
	if other != (Record{}) {
		t.Error("a second export gave keys")
	}
	if len(h.Output()) != 0 {
		t.Error("output after the move")
	}
	if st, _ := h.Resume(); st != Moved {
		t.Errorf("Resume: %d", st)
	}
	h.Abort()
	if h.Status() != Moved || r.CipherSuite() == 0 {
		t.Error("Abort after the move had an effect")
	}
}

func TestExportBeforeDone(t *testing.T) {
	h := newTestServer(t, serverConfig(), EngineLoop).NewHandshake()
	var r Record
	wantMisuse(t, ErrMisuse, func() error { _, err := h.Export(&r); return err })
}

// TestClientCertificate: a client certificate makes the ticket come behind the client's Finished; the loop may export first and send then.
func TestClientCertificate(t *testing.T) {
	cfg := serverConfig()
	cfg.ClientAuth = tls.RequireAnyClientCert
	client := clientConfig()
	client.Certificates = []tls.Certificate{ecdsaCert()}
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	h := newTestServer(t, cfg, EngineLoop).NewHandshake()
	c := newMemClient(client)
	flight := c.feed(nil)
	if st, err := h.Feed(flight); st != NeedMore || err != nil {
		t.Fatal(st, err)
	}
	if st, err := h.Feed(c.feed(h.Output())); st != Done || err != nil {
		t.Fatal(st, err)
	}
	var r Record
	if _, err := h.Export(&r); err != nil {
		t.Fatal(err)
	}
	ticket := h.Output()
	if r.write.seq != 1 || len(ticket) == 0 {
		t.Fatalf("sequence %d, %d bytes of output after the export", r.write.seq, len(ticket))
	}
	wire, err := r.AppendSeal(NewCache(1), connKey, bytes.Clone(ticket), []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	c.shim.in = append(c.shim.in, wire...)
	buf := make([]byte, 16)
	if n, err := c.conn.Read(buf); err != nil || string(buf[:n]) != "hello" {
		t.Fatalf("client read %q, %v", buf[:n], err)
	}
}

// TestAbort at each state gives everything back, twice does no harm.
func TestAbort(t *testing.T) {
	s := newTestServer(t, serverConfig(), EngineLoop)
	hello := hello(clientConfig())
	for name, prepare := range map[string]func(h *Handshake){
		"new":       func(*Handshake) {},
		"part":      func(h *Handshake) { _, _ = h.Feed(hello[:100]) },
		"half open": func(h *Handshake) { _, _ = h.Feed(hello) },
		"done": func(h *Handshake) {
			if err := shake(h, newMemClient(clientConfig())); err != nil {
				t.Fatal(err)
			}
		},
	} {
		h := s.NewHandshake()
		prepare(h)
		h.Abort()
		h.Abort()
		if h.Status() != Failed || h.secrets != (secrets{}) || h.tls != nil || h.conn.in != nil {
			t.Errorf("%s: status %d, or something is left", name, h.Status())
		}
		if _, err := h.Feed(hello); !errors.Is(err, errAborted) {
			t.Errorf("%s: Feed answers %v", name, err)
		}
	}
	if st := s.Stats(); st.Active != 0 || st.Failed[ReasonAborted] != 4 {
		t.Errorf("stats %+v", st)
	}
}

// A panic in a callback reaches the loop and leaves a Handshake that can be aborted, and a Server that goes on.
func TestCallbackPanics(t *testing.T) {
	cfg := &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if hello.ServerName == "panic" {
			panic("callback")
		}
		if hello.Conn.RemoteAddr().String() != "memory" || hello.Conn.LocalAddr().Network() != "memory" {
			return nil, errors.New("no address")
		}
		cert := ecdsaCert()
		return &cert, nil
	}}
	s := newTestServer(t, cfg, EngineLoop)
	bad := clientConfig()
	bad.ServerName, bad.NextProtos = "panic", nil
	h := s.NewHandshake()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was lost")
			}
		}()
		_, _ = h.Feed(hello(bad))
	}()
	h.Abort()
	if st := s.Stats(); st.Active != 0 || s.current != nil {
		t.Errorf("stats %+v", st)
	}
	good := clientConfig()
	good.NextProtos = nil
	connect(t, s, good).echo("still", "alive")
}
