package floor

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

// patience bounds a test that hangs; nothing waits for it otherwise.
const patience = 20 * time.Second

var errStop = errors.New("stop")

// order makes the loop of a running server call f, and waits for it.
type running struct {
	srv   *Server
	wake  *os.File
	calls chan func() error
	done  chan error
}

func (r *running) order(f func()) {
	ended := make(chan struct{})
	r.calls <- func() error { f(); close(ended); return nil }
	_, _ = r.wake.Write([]byte{0}) // a pipe of this process
	<-ended
}

func serve(t *testing.T, cfg *tls.Config) *running {
	t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{wake: out, calls: make(chan func() error, 1), done: make(chan error, 1)}
	r.srv, err = Listen(&Options{
		Answer: frame.AppendConnected(nil, &frame.Connected{User: "ann"}), Joined: frame.AppendSubscribed(nil, &frame.Subscribed{ID: 1}), TLS: cfg, Control: int(in.Fd()),
		Ready: func() error {
			var b [1]byte
			if _, err := in.Read(b[:]); err != nil {
				return err
			}
			return (<-r.calls)()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { r.done <- r.srv.Run() }()
	t.Cleanup(func() {
		r.calls <- func() error { return errStop }
		_, _ = out.Write([]byte{0}) // a pipe of this process
		if err := <-r.done; !errors.Is(err, errStop) {
			t.Errorf("Run: %v", err)
		}
		in.Close()
		out.Close()
	})
	return r
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// login sends a Connect byte by byte and wants the answer.
func login(t *testing.T, c io.Writer, r *frame.Reader) {
	t.Helper()
	for _, b := range frame.AppendStream(nil, frame.AppendConnect(nil, &frame.Connect{Token: []byte("t"), Device: []byte("d")})) {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	var s frame.Server
	body, err := r.Next()
	if err == nil {
		err = s.Decode(body)
	}
	if err != nil || s.Kind != frame.ServerConnected || s.Connected.User != "ann" {
		t.Fatalf("answer to Connect: %v %q, %v", s.Kind, s.Connected.User, err)
	}
}

func beat(t *testing.T, c io.Writer, r *frame.Reader) {
	t.Helper()
	if _, err := c.Write([]byte{0, 0}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if body, err := r.Next(); err != nil || len(body) != 0 {
			t.Fatalf("answer to a heartbeat: %q, %v", body, err)
		}
	}
}

func samplePush(size int) []byte {
	p := &klink.Push{ID: "p1", Payload: klink.Payload{Kind: klink.DataBinary, Data: bytes.Repeat([]byte("x"), size)}}
	return frame.AppendStream(nil, frame.AppendPush(nil, p, "room:1"))
}

func wantPushes(t *testing.T, r *frame.Reader, n, size int) {
	t.Helper()
	var s frame.Server
	for i := range n {
		body, err := r.Next()
		if err == nil {
			err = s.Decode(body)
		}
		if err != nil || s.Kind != frame.ServerPush || len(s.Push.Body.Data) != size {
			t.Fatalf("push %d of %d: %v with %d bytes, %v", i, n, s.Kind, len(s.Push.Body.Data), err)
		}
	}
}

func (r *running) addr() string { return fmt.Sprintf("127.0.0.1:%d", r.srv.Port()) }

func TestServerServesAClient(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	c := dial(t, r.addr())
	in := frame.NewReader(c, 1<<20)
	login(t, c, in)
	beat(t, c, in)
	sub := frame.AppendSubscribe(nil, &frame.Subscribe{ID: 1, Tags: []frame.TagPosition{{Tag: []byte("room:1")}}})
	if _, err := c.Write(frame.AppendStream(nil, sub)); err != nil {
		t.Fatal(err)
	}
	var s frame.Server
	body, err := in.Next()
	if err == nil {
		err = s.Decode(body)
	}
	if err != nil || s.Kind != frame.ServerSubscribed {
		t.Fatalf("answer to Subscribe: %v, %v", s.Kind, err)
	}
	for _, vector := range []bool{false, true} {
		var reached int
		r.order(func() { reached = r.srv.Push(samplePush(100), 16, vector) })
		if reached != 1 {
			t.Errorf("reached %d, want 1", reached)
		}
		wantPushes(t, in, 16, 100)
	}
}

func TestServerFinishesWhatASlowReaderLeft(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	c := dial(t, r.addr())
	in := frame.NewReader(c, 1<<20)
	login(t, c, in)
	const n, size = 200, 60_000 // more than both sockets hold
	reached := make(chan int, 1)
	go r.order(func() { reached <- r.srv.Push(samplePush(size), n, true) })
	wantPushes(t, in, n, size)
	if got := <-reached; got != 1 {
		t.Errorf("reached %d, want 1", got)
	}
}

func TestServerForgetsThoseWhoLeave(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	var conns []net.Conn
	var readers []*frame.Reader
	for range 3 {
		c := dial(t, r.addr())
		in := frame.NewReader(c, 1<<20)
		login(t, c, in)
		conns, readers = append(conns, c), append(readers, in)
	}
	conns[0].Close()
	members := 3
	for end := time.Now().Add(patience); members != 2 && time.Now().Before(end); {
		r.order(func() { members = r.srv.Members() })
	}
	var reached int
	r.order(func() { reached = r.srv.Push(samplePush(10), 1, false) })
	if members != 2 || reached != 2 {
		t.Fatalf("%d members, %d reached, want 2", members, reached)
	}
	wantPushes(t, readers[1], 1, 10)
	wantPushes(t, readers[2], 1, 10)
}

// testTLS is the configurations of a server and a client that trusts it.
func testTLS(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13}
	return server, &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS13}
}

func TestServerServesTLS(t *testing.T) {
	t.Parallel()
	server, client := testTLS(t)
	r := serve(t, server)
	c := tls.Client(dial(t, r.addr()), client)
	in := frame.NewReader(c, 1<<20)
	login(t, c, in)
	beat(t, c, in)
	var reached int
	r.order(func() { reached = r.srv.Push(samplePush(100), 3, false) })
	if reached != 1 {
		t.Errorf("reached %d, want 1", reached)
	}
	wantPushes(t, in, 3, 100)
}
