package h1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

var lines = []string{"POST /echo HTTP/1.1\r\n", "POST /late HTTP/1.1\r\n"}

type server struct {
	*Server
	addr string
	late chan *Answer
	rest *http.Server
}

// start serves /echo here at once, /late when the test says so, and everything by net/http, which says so in a header.
func start(t *testing.T, change func(*Config)) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: ln.Addr().String(), late: make(chan *Answer, 100)}
	cfg := Config{
		Lines: lines, IdleTimeout: time.Minute, ReadTimeout: time.Minute, BusyTimeout: time.Minute,
		Handler: func(r *Request, a *Answer) bool {
			if string(r.Authorization) != "Bearer k" {
				return false
			}
			a.Status, a.Type, a.RequestID, a.Body = 200, "text/plain", string(r.RequestID), append(a.Body[:0], r.Body...)
			if r.Route == 1 {
				s.late <- a
				return true
			}
			a.Send()
			return true
		},
	}
	if change != nil {
		change(&cfg)
	}
	if s.Server, err = New(ln.(*net.TCPListener), cfg); err != nil {
		t.Fatal(err)
	}
	s.rest = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("By", "net/http")
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, b)
	})}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	wg.Go(func() {
		if err := s.rest.Serve(s.Fallback()); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("net/http: %v", err)
		}
	})
	t.Cleanup(func() {
		s.Close()
		s.rest.Close()
		wg.Wait()
	})
	return s
}

func dial(t *testing.T, s *server) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { c.Close() })
	return c, bufio.NewReader(c)
}

func answer(t *testing.T, r *bufio.Reader) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

func request(path, body string, headers ...string) string {
	var h strings.Builder
	for _, x := range headers {
		h.WriteString(x + "\r\n")
	}
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n%sContent-Length: %d\r\n\r\n%s", path, h.String(), len(body), body)
}

func TestServesItsOwnAndHandsOverTheRest(t *testing.T) {
	tests := []struct {
		name, in string
		foreign  bool
		want     string
	}{
		{"own", request("/echo", "hi"), false, "hi"},
		{"empty body", request("/echo", ""), false, ""},
		{"headers in any case, unknown ones", "POST /echo HTTP/1.1\r\nhOST: x\r\nX-Any: y\r\nauthorization:Bearer k\r\ncontent-LENGTH: 2\r\nConnection: Keep-Alive\r\n\r\nhi", false, "hi"},
		{"another route", request("/other", "hi"), true, "POST /other hi"},
		{"longer path", request("/echo2", "hi"), true, "POST /echo2 hi"},
		{"query", request("/echo?x", "hi"), true, "POST /echo hi"},
		{"GET", "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n", true, "GET /echo "},
		{"refused by the handler", strings.Replace(request("/echo", "hi"), "Bearer k", "Bearer z", 1), true, "POST /echo hi"},
		{"chunked", "POST /echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", true, "POST /echo hi"},
		{"origin", request("/echo", "hi", "Origin: http://x"), true, "POST /echo hi"},
		{"idempotency key", request("/echo", "hi", "Idempotency-Key: 1"), true, "POST /echo hi"},
		{"connection close", request("/echo", "hi", "Connection: close"), true, "POST /echo hi"},
		{"large body", request("/echo", strings.Repeat("x", maxBody+1)), true, "POST /echo " + strings.Repeat("x", maxBody+1)},
		{"expect", request("/echo", "hi", "Expect: 100-continue"), true, ""},
		{"no length", "POST /echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n\r\n", true, "POST /echo "},
		{"long head", request("/echo", "hi", "X: "+strings.Repeat("y", maxHead)), true, "POST /echo hi"},
		{"header twice", request("/echo", "hi", "X-Request-Id: a", "X-Request-Id: b"), true, "POST /echo hi"},
	}
	for _, tc := range tests {
		for _, step := range []int{1 << 20, 1, 7} {
			if step == 1 && len(tc.in) > 10_000 {
				continue
			}
			t.Run(fmt.Sprintf("%s by %d", tc.name, step), func(t *testing.T) {
				s := start(t, nil)
				c, r := dial(t, s)
				for in := tc.in; in != ""; {
					n := min(step, len(in))
					if _, err := io.WriteString(c, in[:n]); err != nil {
						t.Fatal(err)
					}
					in = in[n:]
				}
				res, body := answer(t, r)
				for res.StatusCode == 100 {
					res, body = answer(t, r)
				}
				if foreign := res.Header.Get("By") != ""; foreign != tc.foreign || res.StatusCode != 200 || (tc.want != "" && body != tc.want) {
					t.Errorf("net/http: %v, status %d, body %.60q; want %v, %.60q", foreign, res.StatusCode, body, tc.foreign, tc.want)
				}
			})
		}
	}
}

// Malformed requests get net/http's answer.
func TestErrorsComeFromNetHTTP(t *testing.T) {
	s := start(t, nil)
	for in, want := range map[string]int{
		"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n":                        400,
		"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx":  400,
		"POST /echo HTTP/1.1\r\nHost: x\r\n bad\r\n\r\n":                                      400,
		"POST /echo HTTP/1.1\r\nContent-Length: 0\r\n\r\n":                                    400,
		"POST /echo HTTP/1.1\r\nHost: x\r\nbad name: 1\r\nContent-Length: 0\r\n\r\n":          400,
		"\x16\x03\x01\x00\x05hello\r\n\r\n":                                                   400,
		"POST /echo HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("y", 2<<20) + "\r\n\r\n\r\n": 431,
	} {
		c, r := dial(t, s)
		go io.WriteString(c, in) // net/http may close before it has read all
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != want {
			t.Errorf("%.60q: %v %v, want %d", in, res, err, want)
		}
	}
}

func TestPipelineAndLateAnswersKeepTheirOrder(t *testing.T) {
	s := start(t, nil)
	c, r := dial(t, s)
	io.WriteString(c, request("/echo", "1")+request("/late", "2")+request("/echo", "3")+request("/late", "4")+request("/other", "5"))
	for _, want := range []string{"1", "2", "3", "4", "POST /other 5"} {
		if want == "2" || want == "4" {
			go func() { (<-s.late).Send() }()
		}
		if _, body := answer(t, r); body != want {
			t.Fatalf("got %q, want %q", body, want)
		}
	}
}

func TestLateAnswersFromManyGoroutines(t *testing.T) {
	s := start(t, nil)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			c, r := dial(t, s)
			for k := range 50 {
				want := fmt.Sprint(i, " ", k)
				io.WriteString(c, request("/late", want))
				go func() { (<-s.late).Send() }()
				res, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if b, _ := io.ReadAll(res.Body); string(b) != want {
					t.Errorf("got %q, want %q", b, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A client that does not read gets its answers when it does.
func TestSlowReader(t *testing.T) {
	s := start(t, nil)
	c, r := dial(t, s)
	body := strings.Repeat("z", maxBody)
	const n = 200
	go func() {
		for range n {
			if _, err := io.WriteString(c, request("/echo", body)); err != nil {
				return
			}
		}
	}()
	for range n {
		if _, got := answer(t, r); got != body {
			t.Fatal("the answer is not what was sent")
		}
	}
}

func TestShutdownWaitsForAnswers(t *testing.T) {
	s := start(t, nil)
	c, r := dial(t, s)
	idle, idleR := dial(t, s)
	io.WriteString(idle, request("/echo", "x"))
	answer(t, idleR)
	io.WriteString(c, request("/late", "in time"))
	a := <-s.late
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	if _, err := idleR.ReadByte(); err != io.EOF {
		t.Errorf("an idle connection: %v, want its end", err)
	}
	select {
	case <-done:
		t.Fatal("it did not wait")
	default:
	}
	a.Send()
	if _, body := answer(t, r); body != "in time" {
		t.Errorf("got %q", body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.addr); err == nil {
		t.Error("it still accepts")
	}
}

func TestTimeoutsAndDescriptors(t *testing.T) {
	before := descriptors(t)
	s := start(t, func(c *Config) { c.IdleTimeout, c.ReadTimeout, c.BusyTimeout = 0, 0, 0 })
	for _, in := range []string{"", "POST /ec", request("/late", "x")} {
		c, r := dial(t, s)
		io.WriteString(c, in)
		if _, err := r.ReadByte(); err == nil {
			t.Errorf("%q: a connection that takes too long is not closed", in)
		}
		c.Close()
	}
	(<-s.late).Send() // after its connection: nothing happens
	s.Close()
	s.rest.Close()
	for range 1000 {
		if n := descriptors(t); n <= before+1 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d descriptors before, %d after", before, descriptors(t))
}

func descriptors(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

// Whatever is parsed as whole is what net/http reads from the same bytes.
func FuzzParse(f *testing.F) {
	f.Add(request("/echo", "hi"))
	f.Add(request("/echo", "hi", "X-Request-Id: a", "Content-Type: application/json"))
	f.Add("POST /echo HTTP/1.1\r\n\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		var r Request
		v, n := parse([]byte(in), lines, &r)
		if v != whole {
			return
		}
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(in[:n])))
		if err != nil {
			t.Fatalf("net/http refuses it: %v", err)
		}
		body, err := io.ReadAll(req.Body)
		if err != nil || string(body) != string(r.Body) || req.Host != string(r.Host) || req.Header.Get("Authorization") != string(r.Authorization) ||
			req.Header.Get("Content-Type") != string(r.ContentType) || req.Method != "POST" || req.URL.Path != strings.Fields(lines[r.Route])[1] {
			t.Fatalf("net/http reads %+v %q", req, body)
		}
	})
}
