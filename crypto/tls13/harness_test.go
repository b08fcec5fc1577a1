package tls13

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"sync"
	"testing"
	"time"
)

const testHost = "klink.test"

// testCert is a certificate that signs itself.
func testCert(key crypto.Signer) tls.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: testHost},
		DNSNames:     []string{testHost, "localhost"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

var ecdsaCert = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return testCert(key)
})

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func serverConfig() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{ecdsaCert()}, NextProtos: []string{"klink/1", "http/1.1"}}
}

func clientConfig() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, ServerName: testHost, NextProtos: []string{"klink/1"}}
}

func newTestServer(t testing.TB, cfg *tls.Config, engine Engine) *Server {
	t.Helper()
	s, err := NewServer(cfg, engine)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// connKey is the cache key of connections in tests.
const connKey = 7

// conn is one established connection in memory: our record, the client of crypto/tls, and the client's keys as a record, with
// which a test can send what crypto/tls never would.
type conn struct {
	t      testing.TB
	h      *Handshake
	r      Record
	cache  *Cache
	client *memClient
	raw    Record
	rawC   *Cache
}

// secretSink is a KeyLogWriter of a client.
type secretSink struct{ secrets }

func (s *secretSink) Write(line []byte) (int, error) { return len(line), s.add(line) }

// connect makes a connection with EngineLoop.
func connect(t testing.TB, s *Server, cfg *tls.Config) *conn {
	t.Helper()
	cfg = cfg.Clone()
	sink := &secretSink{}
	cfg.KeyLogWriter = sink
	c := &conn{t: t, h: s.NewHandshake(), client: newMemClient(cfg), cache: NewCache(4), rawC: NewCache(4)}
	if err := shake(c.h, c.client); err != nil {
		t.Fatalf("handshake: %v", err)
	}
	tickets := c.h.tickets
	leftover, err := c.h.Export(&c.r)
	if err != nil || len(leftover) != 0 {
		t.Fatalf("export: %d bytes left over, %v", len(leftover), err)
	}
	if err := c.raw.init(c.r.write.suite, sink.server[:sink.serverLen], sink.client[:sink.clientLen], 0); err != nil {
		t.Fatal(err)
	}
	c.raw.read.seq = tickets
	return c
}

// pair is two records that talk to each other, without a handshake.
func pair(t testing.TB, su suite) *conn {
	t.Helper()
	var secret [2][maxSecretLen]byte
	_, _ = rand.Read(secret[0][:])
	_, _ = rand.Read(secret[1][:])
	c := &conn{t: t, cache: NewCache(4), rawC: NewCache(4)}
	n := su.secretLen()
	if err := errors.Join(c.r.init(su, secret[0][:n], secret[1][:n], 0), c.raw.init(su, secret[1][:n], secret[0][:n], 0)); err != nil {
		t.Fatal(err)
	}
	return c
}

// toClient lets crypto/tls read what the server sent and answers its plaintext.
func (c *conn) toClient(wire []byte) []byte {
	c.t.Helper()
	c.client.shim.in = append(c.client.shim.in, wire...)
	var out []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := c.client.conn.Read(buf)
		out = append(out, buf[:n]...)
		var later again
		if errors.As(err, &later) {
			return out
		}
		if err != nil {
			c.t.Fatalf("client reads: %v", err)
		}
	}
}

// write lets crypto/tls send and answers the wire bytes.
func (c *conn) write(plain []byte) []byte {
	c.t.Helper()
	if _, err := c.client.conn.Write(plain); err != nil {
		c.t.Fatalf("client writes: %v", err)
	}
	return c.client.take()
}

// event is what became of one record.
type event struct {
	ev    Event
	plain []byte
	err   error
}

// open gives the server any number of whole records.
func (c *conn) open(wire []byte) []event { return openAll(&c.r, c.cache, wire) }

func openAll(r *Record, c *Cache, wire []byte) []event {
	var out []event
	for len(wire) > 0 {
		n, ok, err := RecordLen(wire)
		if err != nil || !ok || n > len(wire) {
			return append(out, event{EventNone, nil, err})
		}
		ev, plain, err := r.Open(c, connKey, wire[:n])
		out = append(out, event{ev, bytes.Clone(plain), err})
		wire = wire[n:]
	}
	return out
}

// data joins the application data of events and fails on anything else but ignored records.
func data(t testing.TB, events []event) []byte {
	t.Helper()
	var out []byte
	for _, e := range events {
		if e.err != nil || e.ev != EventData && e.ev != EventIgnored {
			t.Fatalf("event %d, %v", e.ev, e.err)
		}
		if e.ev == EventData {
			out = append(out, e.plain...)
		}
	}
	return out
}

// echo sends both ways and checks that it arrives.
func (c *conn) echo(up, down string) {
	c.t.Helper()
	if got := data(c.t, c.open(c.write([]byte(up)))); string(got) != up {
		c.t.Fatalf("server got %q, want %q", got, up)
	}
	wire, err := c.r.AppendSeal(c.cache, connKey, nil, []byte(down))
	if err != nil {
		c.t.Fatal(err)
	}
	if got := c.toClient(wire); string(got) != down {
		c.t.Fatalf("client got %q, want %q", got, down)
	}
}

// rawSeal seals a whole TLSInnerPlaintext: content, type and padding as the test wants them.
func rawSeal(t testing.TB, r *Record, inner []byte) []byte {
	t.Helper()
	aead, err := r.write.suite.aead(&r.write.key)
	if err != nil {
		t.Fatal(err)
	}
	n := len(inner) + tagLen
	hdr := []byte{typeApplication, 3, 3, byte(n >> 8), byte(n)}
	var nonce [ivLen]byte
	r.write.nonce(&nonce)
	r.write.seq++
	return aead.Seal(bytes.Clone(hdr), nonce[:], inner, hdr)
}

// openRaw decrypts without looking at the content.
func openRaw(t testing.TB, r *Record, rec []byte) []byte {
	t.Helper()
	aead, err := r.read.suite.aead(&r.read.key)
	if err != nil {
		t.Fatal(err)
	}
	var nonce [ivLen]byte
	r.read.nonce(&nonce)
	r.read.seq++
	inner, err := aead.Open(nil, nonce[:], rec[headerLen:], rec[:headerLen])
	if err != nil {
		t.Fatal(err)
	}
	return inner
}

// send is what the raw client seals: one record of a type.
func (c *conn) send(typ byte, content ...byte) []byte {
	return rawSeal(c.t, &c.raw, append(bytes.Clone(content), typ))
}

// wantError checks the reason and the alert of an error.
func wantError(t testing.TB, err error, reason Reason, alert Alert) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Reason != reason || e.Alert != alert {
		t.Fatalf("error %v (%+v), want reason %s and alert %s", err, e, reason, alert)
	}
}

// wantMisuse runs what must be refused: with an error, or in builds with assertions by a panic.
func wantMisuse(t testing.TB, want error, f func() error) {
	t.Helper()
	err := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err, _ = p.(error)
				if !assertions {
					t.Errorf("panic %v in a build without assertions", p)
				}
			} else if assertions {
				t.Error("no panic in a build with assertions")
			}
		}()
		return f()
	}()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// hello is the first flight of a client that is never heard again.
func hello(cfg *tls.Config) []byte {
	c := newMemClient(cfg)
	defer c.stop()
	return c.feed(nil)
}
