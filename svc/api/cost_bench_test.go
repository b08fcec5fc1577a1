package api_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/svc/presence"
	"github.com/klinkio/klink/svc/push"
)

// quietFront takes every push at once and keeps nothing.
type quietFront struct{ *front }

func (quietFront) Start(d *klink.Delivery, done func(klink.Report)) error {
	done(klink.Report{FEs: 1, Matched: len(d.Sessions), Enqueued: len(d.Sessions)})
	return nil
}

// rawClient sends prepared requests over one connection, so that its own cost is small beside the server's.
type rawClient struct {
	conn net.Conn
	in   *bufio.Reader
}

func (w *world) dial(b *testing.B) *rawClient {
	b.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return &rawClient{conn, bufio.NewReader(conn)}
}

func (c *rawClient) do(b *testing.B, req []byte) {
	if _, err := c.conn.Write(req); err != nil {
		b.Fatal(err)
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil || res.StatusCode != 200 {
		b.Fatal(res, err)
	}
	if _, err := c.in.Discard(int(res.ContentLength)); err != nil {
		b.Fatal(err)
	}
}

func request(path, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer all\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHTTP measures the CPU of both ends of one request over loopback; "net/http" is the same exchange with a handler that only
// reads the body and answers, which is what the API can't be cheaper than.
func BenchmarkHTTP(b *testing.B) {
	w := newWorld(b)
	w.login("ann", "a1")
	w.serve([]push.FrontEnd{quietFront{w.fe}}, []presence.FrontEnd{w.fe})
	one := `{"to":{"users":["ann"]},"data":{"sent":1764547200123456,"text":"` + strings.Repeat("x", 80) + `"}}`
	api := w.url
	bare := newBare(b)
	for _, bc := range []struct {
		name, url, path, body string
		n                     int
	}{
		{"net/http", bare, "/v1/push", one, 1},
		{"push one user", api, "/v1/push", one, 1},
		{"batch of 100", api, "/v1/push/batch", `{"items":[` + strings.Repeat(one+",", 99) + one + `]}`, 100},
		{"presence of one user", api, "/v1/presence/query", `{"users":["ann"]}`, 1},
	} {
		b.Run(bc.name, func(b *testing.B) {
			w.url = bc.url
			c := w.dial(b)
			req := request(bc.path, bc.body)
			c.do(b, req)
			b.ReportAllocs()
			start := cpu(b)
			for b.Loop() {
				c.do(b, req)
			}
			b.ReportMetric(float64(cpu(b)-start)/float64(b.N*bc.n)/1e3, "cpu-us/item")
		})
	}
}

func newBare(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var buf [4096]byte
		for {
			if _, err := r.Body.Read(buf[:]); err != nil {
				break
			}
		}
		_, _ = w.Write([]byte(`{"push":"01","matched":1,"enqueued":1,"queued":0,"offline":0,"dropped":{},"front_ends":1}`))
	})}
	go func() { _ = srv.Serve(l) }()
	b.Cleanup(func() { _ = srv.Close() })
	return "http://" + l.Addr().String()
}
