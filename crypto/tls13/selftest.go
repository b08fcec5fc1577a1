package tls13

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"time"
)

// SelfTest proves that this process can serve TLS with EngineLoop: a handshake with the client of crypto/tls in memory, one record each
// way, the same by resumption, and a record of each suite. A server calls it when it starts, so that a Go release that logs other secrets,
// or a mode that forbids a cipher, shows there and not in production. It takes some milliseconds and starts no goroutine.
func SelfTest() error {
	server, client, err := selfConfigs()
	if err != nil {
		return fmt.Errorf("tls self-test: make a certificate: %w", err)
	}
	s, err := NewServer(server, EngineLoop)
	if err != nil {
		return fmt.Errorf("tls self-test: %w", err)
	}
	for _, resumed := range []bool{false, true} {
		if err := selfConnection(s, client, resumed); err != nil {
			return fmt.Errorf("tls self-test: connection (resumed: %t): %w", resumed, err)
		}
	}
	for _, su := range []suite{suiteAES128, suiteAES256, suiteChaCha20} {
		if err := selfSuite(su); err != nil {
			return fmt.Errorf("tls self-test: suite %s: %w", tls.CipherSuiteName(su.id()), err)
		}
	}
	return nil
}

// selfConfigs makes a certificate that trusts itself. The clock is fixed: hosts start with a wrong one.
func selfConfigs() (server, client *tls.Config, err error) {
	const host = "selftest.invalid"
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: host},
		DNSNames:              []string{host},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	clock := func() time.Time { return now }
	server = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}},
		NextProtos:   []string{"selftest"},
		Time:         clock,
	}
	client = &tls.Config{
		RootCAs: roots, ServerName: host, NextProtos: []string{"selftest"}, Time: clock,
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
	return server, client, nil
}

// memClient is a client of crypto/tls in a coroutine, until its handshake is done.
type memClient struct {
	conn  *tls.Conn
	shim  *shim
	next  func() (Status, bool)
	stop  func()
	ended bool
	err   error
}

func newMemClient(cfg *tls.Config) *memClient {
	c := &memClient{shim: &shim{}}
	c.conn = tls.Client(c.shim, cfg)
	c.next, c.stop = iter.Pull(func(yield func(Status) bool) {
		c.shim.yield = yield
		c.err = c.conn.Handshake()
		c.shim.yield = nil
		c.ended = true
	})
	return c
}

// feed gives bytes of the server and answers what has to be sent to it.
func (c *memClient) feed(in []byte) []byte {
	c.shim.in = append(c.shim.in, in...)
	if !c.ended {
		c.next()
	}
	return c.take()
}

func (c *memClient) take() []byte {
	out := c.shim.out
	c.shim.out = nil
	return out
}

// shake runs a handshake between a client and a server in memory to its end. leftover bytes of the client stay in h.
func shake(h *Handshake, c *memClient) error {
	defer c.stop()
	toServer := c.feed(nil)
	for range 16 { // two round trips are the most that TLS 1.3 needs
		st, err := h.Feed(toServer)
		toServer = c.feed(h.Output())
		switch {
		case err != nil:
			return err
		case c.err != nil:
			return c.err
		case st == Done && c.ended:
			if len(toServer) > 0 {
				_, err = h.Feed(toServer)
			}
			return err
		}
	}
	return errors.New("handshake makes no progress")
}

// selfConnection is one connection: handshake, and a record each way.
func selfConnection(s *Server, cfg *tls.Config, resumed bool) error {
	h := s.NewHandshake()
	defer h.Abort()
	c := newMemClient(cfg)
	if err := shake(h, c); err != nil {
		return err
	}
	if got := h.Result(); got.Resumed != resumed || got.ALPN != "selftest" {
		return fmt.Errorf("result %+v", got)
	}
	var r Record
	defer r.Wipe(nil, 0)
	if _, err := h.Export(&r); err != nil {
		return err
	}
	cache := NewCache(1)
	ping, pong := []byte("self-test ping"), []byte("self-test pong")
	if _, err := c.conn.Write(ping); err != nil {
		return err
	}
	ev, got, err := r.Open(cache, 1, c.take())
	if err != nil {
		return fmt.Errorf("open the client's record: %w", err)
	}
	if ev != EventData || !bytes.Equal(got, ping) {
		return fmt.Errorf("client's record opened as event %d", ev)
	}
	if c.shim.in, err = r.AppendSeal(cache, 1, c.shim.in, pong); err != nil {
		return err
	}
	buf := make([]byte, 64)
	n, err := c.conn.Read(buf) // takes the ticket before it, too
	if err != nil {
		return fmt.Errorf("client reads our record: %w", err)
	}
	if !bytes.Equal(buf[:n], pong) {
		return errors.New("client read something else")
	}
	return nil
}

// selfSuite passes a record from one end to the other, over a key update.
func selfSuite(su suite) error {
	var secret [2][maxSecretLen]byte
	for i := range secret {
		_, _ = rand.Read(secret[i][:]) // never fails
	}
	var a, b Record
	if err := a.init(su, secret[0][:su.secretLen()], secret[1][:su.secretLen()], 0); err != nil {
		return err
	}
	if err := b.init(su, secret[1][:su.secretLen()], secret[0][:su.secretLen()], 0); err != nil {
		return err
	}
	ca, cb := NewCache(1), NewCache(1)
	update, err := a.AppendKeyUpdate(ca, 1, nil)
	if err != nil {
		return err
	}
	if _, _, err := b.Open(cb, 1, update); err != nil {
		return fmt.Errorf("key update: %w", err)
	}
	text := []byte("self-test")
	rec, err := a.AppendSeal(ca, 1, nil, text)
	if err != nil {
		return err
	}
	ev, got, err := b.Open(cb, 1, rec)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if ev != EventData || !bytes.Equal(got, text) {
		return fmt.Errorf("record opened as event %d", ev)
	}
	return nil
}
