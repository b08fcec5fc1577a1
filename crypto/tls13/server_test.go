package tls13

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestNewServerRefuses(t *testing.T) {
	for name, cfg := range map[string]*tls.Config{
		"no configuration": nil,
		"key log":          {Certificates: []tls.Certificate{ecdsaCert()}, KeyLogWriter: io.Discard},
		"GetConfigForClient": {Certificates: []tls.Certificate{ecdsaCert()},
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }},
		"MaxVersion":     {Certificates: []tls.Certificate{ecdsaCert()}, MaxVersion: tls.VersionTLS12},
		"no certificate": {},
		"empty chain":    {Certificates: []tls.Certificate{{}}},
		"no key":         {Certificates: []tls.Certificate{{Certificate: ecdsaCert().Certificate}}},
		"broken leaf":    {Certificates: []tls.Certificate{{Certificate: [][]byte{{1}}, PrivateKey: ecdsaCert().PrivateKey}}},
	} {
		for _, engine := range []Engine{EngineLoop, EngineStdlib} {
			if s, err := NewServer(cfg, engine); err == nil || s != nil {
				t.Errorf("%s: accepted", name)
			}
		}
	}
	if _, err := NewServer(serverConfig(), EngineStdlib+1); err == nil {
		t.Error("unknown engine: accepted")
	}
}

// The caller's Config is not changed.
func TestNewServerCopies(t *testing.T) {
	cfg := serverConfig()
	newTestServer(t, cfg, EngineLoop)
	if cfg.KeyLogWriter != nil || cfg.WrapSession != nil || cfg.GetCertificate != nil || len(cfg.Certificates) != 1 || cfg.MinVersion != 0 {
		t.Errorf("changed: %+v", cfg)
	}
}

func newCert(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return testCert(key)
}

// served is the leaf that a client gets.
func served(c *conn) []byte { return c.client.conn.ConnectionState().PeerCertificates[0].Raw }

func TestSetCertificates(t *testing.T) {
	s := newTestServer(t, serverConfig(), EngineLoop)
	first := connect(t, s, clientConfig())
	if !bytes.Equal(served(first), ecdsaCert().Certificate[0]) {
		t.Error("another certificate than configured")
	}
	fresh := newCert(t)
	if err := s.SetCertificates([]tls.Certificate{fresh}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(served(connect(t, s, clientConfig())), fresh.Certificate[0]) {
		t.Error("the new certificate is not served")
	}
	first.echo("old connection", "lives")
	if s.SetCertificates(nil) == nil {
		t.Error("no certificates: accepted")
	}
	if s.SetCertificates([]tls.Certificate{fresh, {}}) == nil {
		t.Error("an empty certificate: accepted")
	}
	if !bytes.Equal(served(connect(t, s, clientConfig())), fresh.Certificate[0]) {
		t.Error("a refused change had an effect")
	}
}

func TestCertificateChoice(t *testing.T) {
	rsaCert := testCert(rsaKey())
	named := newCert(t)
	ask := errors.New("no")
	cfg := serverConfig()
	cfg.Certificates = append(cfg.Certificates, rsaCert)
	cfg.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		switch hello.ServerName {
		case "named.test":
			return &named, nil
		case "error.test":
			return nil, ask
		}
		return nil, nil
	}
	s := newTestServer(t, cfg, EngineLoop)
	for name, want := range map[string][]byte{
		"":           cfg.Certificates[0].Certificate[0], // ECDSA is first
		"other.test": cfg.Certificates[0].Certificate[0],
		"named.test": named.Certificate[0],
	} {
		client := clientConfig()
		client.ServerName = name
		c := connect(t, s, client)
		if !bytes.Equal(served(c), want) || c.h.Result().ServerName != name {
			t.Errorf("%q: another certificate, or name %q", name, c.h.Result().ServerName)
		}
	}
	client := clientConfig()
	client.ServerName = "error.test"
	err := shake(s.NewHandshake(), newMemClient(client))
	wantError(t, err, ReasonHandshake, NoAlert)
	if !strings.Contains(err.Error(), "no") {
		t.Errorf("the cause is lost: %v", err)
	}
}

// TestWrapSession keeps a wrapper of the user and bounds what it makes.
func TestWrapSession(t *testing.T) {
	var pad, calls int
	cfg := serverConfig()
	cfg.SetSessionTicketKeys([][32]byte{{1}})
	cfg.WrapSession = func(cs tls.ConnectionState, ss *tls.SessionState) ([]byte, error) {
		calls++
		if ss.EarlyData {
			t.Error("a ticket that allows early data")
		}
		return make([]byte, pad), nil
	}
	s := newTestServer(t, cfg, EngineLoop)
	client := clientConfig()
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for _, pad = range []int{1, 1000, maxTicket} {
		c := connect(t, s, client)
		if c.h.tickets != 1 {
			t.Errorf("%d tickets", c.h.tickets)
		}
		c.echo("ping", "pong") // fails if the ticket took more than one record
	}
	pad = maxTicket + 1
	wantError(t, shake(s.NewHandshake(), newMemClient(client)), ReasonHandshake, NoAlert)
	s.current, pad = s.NewHandshake(), 1
	if _, err := s.cfg.WrapSession(tls.ConnectionState{}, &tls.SessionState{EarlyData: true}); err != nil {
		t.Error(err)
	}
	if calls != 5 {
		t.Errorf("%d calls of the wrapper", calls)
	}
}

func TestStats(t *testing.T) {
	s := newTestServer(t, serverConfig(), EngineLoop)
	client := clientConfig()
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	connect(t, s, client).echo("a", "b")
	connect(t, s, client).echo("a", "b")
	half := s.NewHandshake()
	if _, err := half.Feed(hello(client)); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Started != 3 || st.Done != 2 || st.Resumed != 1 || st.Active != 1 {
		t.Errorf("%+v", st)
	}
	half.Abort()
	if st := s.Stats(); st.Active != 0 || st.Failed[ReasonAborted] != 1 {
		t.Errorf("%+v", st)
	}
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range NumReasons {
		if name := r.String(); name == "" || seen[name] {
			t.Errorf("reason %d is %q", r, name)
		} else {
			seen[name] = true
		}
	}
	if NumReasons.String() != "none" || Alert(40).String() != "40" || AlertDecodeError.String() != "decode_error" {
		t.Error("names of unknown values")
	}
}

// TestKeyLogLines: only what crypto/tls writes today is taken.
func TestKeyLogLines(t *testing.T) {
	random := strings.Repeat("ab", 32)
	line := func(label string, n int) string { return label + " " + random + " " + strings.Repeat("0f", n) + "\n" }
	ok := func(lines ...string) *secrets {
		var s secrets
		for _, l := range lines {
			if err := s.add([]byte(l)); err != nil {
				t.Errorf("%q: %v", l, err)
			}
		}
		return &s
	}
	s := ok(line("CLIENT_HANDSHAKE_TRAFFIC_SECRET", 32), line("SERVER_HANDSHAKE_TRAFFIC_SECRET", 32), "EXPORTER_SECRET x y\n",
		line(labelClient, 32), line(labelServer, 32))
	if !s.complete(suiteAES128) || !s.complete(suiteChaCha20) || s.complete(suiteAES256) || s.complete(0) {
		t.Error("32-byte secrets do not fit their suites, or fit another")
	}
	if s := ok(line(labelClient, 48), line(labelServer, 48)); !s.complete(suiteAES256) || s.complete(suiteAES128) {
		t.Error("48-byte secrets do not fit their suite, or fit another")
	}
	if s := ok(line(labelClient, 32)); s.complete(suiteAES128) {
		t.Error("one secret is complete")
	}
	for _, bad := range []string{
		labelClient, labelClient + " " + random, labelClient + " " + random + " \n", labelClient + " abab " + strings.Repeat("0f", 32),
		line(labelClient, 49), labelClient + " " + random + " zz\n", labelClient + " " + strings.Repeat("z", 64) + " 0f\n", labelClient + " " + random + " 0\n",
	} {
		if err := new(secrets).add([]byte(bad)); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
	s = ok(line(labelClient, 32))
	if s.add([]byte(line(labelClient, 32))) == nil {
		t.Error("the same secret twice: accepted")
	}
	if s.add([]byte(strings.Replace(line(labelServer, 32), "ab", "cd", 1))) == nil {
		t.Error("secrets of two connections: accepted")
	}
	srv := newTestServer(t, serverConfig(), EngineLoop)
	if _, err := (keyLog{srv}).Write([]byte(line(labelClient, 32))); err == nil {
		t.Error("a line outside of a handshake: accepted")
	}
}
