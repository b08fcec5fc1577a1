package h1

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// still is a server whose loop does not run, with one connection: the test does the loop's work step by step.
func still(t *testing.T, h Handler) (s *Server, c *conn, peer int) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if s, err = New(ln.(*net.TCPListener), Config{Lines: lines, Handler: h}); err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	c = &conn{fd: int32(fds[0]), events: unix.EPOLLIN, since: time.Now()}
	c.ans = &Answer{c: c, s: s}
	if err := s.ctl(unix.EPOLL_CTL_ADD, fds[0], unix.EPOLLIN); err != nil {
		t.Fatal(err)
	}
	s.conns[c.fd] = c
	s.stats.open.Add(1)
	t.Cleanup(func() {
		s.Close()
		s.fallback.Close()
		unix.Close(fds[1])
	})
	return s, c, fds[1]
}

func echo(r *Request, a *Answer) bool {
	a.Status, a.Type, a.Body = 200, "text/plain", append(a.Body[:0], r.Body...)
	a.Send()
	return true
}

// Whoever sends requests and reads no answers makes the server keep one answer and little input.
func TestUnreadAnswersAreBounded(t *testing.T) {
	s, c, peer := still(t, echo)
	in := []byte(request("/echo", strings.Repeat("z", maxBody)))
	sent := 0
	for range 2000 {
		n, err := unix.Write(peer, in[sent%len(in):])
		if err == nil {
			sent += n
		}
		if c.events&unix.EPOLLIN == 0 {
			break
		}
		s.read(c)
		if len(c.out) > len(in)+maxHead || len(c.in) > maxAhead+len(s.rbuf) || s.held != len(c.in) {
			t.Fatalf("%d bytes of output and %d of input are kept, %d counted", len(c.out), len(c.in), s.held)
		}
	}
	if c.events&unix.EPOLLIN != 0 || c.closed {
		t.Fatalf("after %d bytes it still reads", sent)
	}
	// It goes on when the client reads.
	buf, got := make([]byte, 1<<20), 0
	for range 10_000 {
		n, err := unix.Read(peer, buf)
		if err != nil && len(c.out) == 0 {
			break
		}
		got += max(n, 0)
		s.ready(c, unix.EPOLLOUT)
		s.ready(c, c.events&unix.EPOLLIN)
	}
	if served := int(s.stats.served.Load()); served != sent/len(in) || got < served*maxBody {
		t.Errorf("%d of %d requests are served, %d bytes came back", served, sent/len(in), got)
	}
}

// Bytes that come one by one are neither copied nor parsed again and again.
func TestDribbleIsCheap(t *testing.T) {
	s, c, peer := still(t, echo)
	feed := func(b string) {
		if _, err := unix.Write(peer, []byte(b)); err != nil {
			t.Fatal(err)
		}
		s.read(c)
	}
	const size = 40_000
	head, _, _ := strings.Cut(request("/echo", strings.Repeat("x", size)), "xxx")
	feed(head)
	if c.need != len(head)+size {
		t.Fatalf("%d bytes are needed, want %d", c.need, len(head)+size)
	}
	x := []byte{'x'}
	if n := testing.AllocsPerRun(10_000, func() {
		if _, err := unix.Write(peer, x); err != nil {
			t.Fatal(err)
		}
		s.read(c)
	}); n != 0 {
		t.Errorf("%v allocations a byte", n)
	}
	feed(strings.Repeat("x", size-len(c.in)+len(head)))
	if s.stats.served.Load() != 1 || s.held != 0 || c.in != nil {
		t.Errorf("%d served, %d bytes held", s.stats.served.Load(), s.held)
	}
}

// Beyond the bound of all partial input net/http gets what is not complete.
func TestPartialInputIsBounded(t *testing.T) {
	s, c, peer := still(t, echo)
	s.held = maxHeld
	if _, err := io.WriteString(fdWriter(peer), "POST /ec"); err != nil {
		t.Fatal(err)
	}
	s.read(c)
	if st := s.Stats(); !c.closed || s.held != maxHeld || st.Crowded != 1 || st.Handed != 1 || st.Open != 0 {
		t.Errorf("closed %v, %d held, %+v", c.closed, s.held-maxHeld, st)
	}
}

type fdWriter int

func (w fdWriter) Write(b []byte) (int, error) { return unix.Write(int(w), b) }

func TestCloseFreesAServerThatNeverServed(t *testing.T) {
	before := descriptors(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(ln.(*net.TCPListener), Config{Lines: lines, Handler: echo})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Serve(); err != nil {
		t.Error(err)
	}
	if n := descriptors(t); n > before {
		t.Errorf("%d descriptors before, %d after", before, n)
	}
}

// Much input behind a request that takes its time is neither lost nor a reason to close.
func TestLongPipelineBehindALateAnswer(t *testing.T) {
	s := start(t, nil)
	c, r := dial(t, s)
	body := strings.Repeat("p", 30_000)
	const n = 20
	go func() {
		io.WriteString(c, request("/late", "first"))
		for range n {
			io.WriteString(c, request("/echo", body))
		}
	}()
	(<-s.late).Send()
	if _, got := answer(t, r); got != "first" {
		t.Fatalf("got %q", got)
	}
	for range n {
		if _, got := answer(t, r); got != body {
			t.Fatal("the answer is not what was sent")
		}
	}
}

// A client that has closed its own side still gets its answers, then the connection ends.
func TestHalfClosedClientGetsItsAnswers(t *testing.T) {
	s := start(t, nil)
	c, r := dial(t, s)
	io.WriteString(c, request("/late", "1")+request("/echo", "2"))
	a := <-s.late
	c.(*net.TCPConn).CloseWrite()
	a.Send()
	for _, want := range []string{"1", "2"} {
		if _, got := answer(t, r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("then %v, want the end", err)
	}
}

// A client that is gone frees its connection before the answer comes, which then goes nowhere.
func TestAnswerAfterTheClientHasLeft(t *testing.T) {
	s := start(t, nil)
	c, _ := dial(t, s)
	io.WriteString(c, request("/late", "1"))
	a := <-s.late
	c.(*net.TCPConn).SetLinger(0) // a reset
	c.Close()
	other, r := dial(t, s)
	for s.Stats().Open != 1 { // the loop has seen both
		io.WriteString(other, request("/echo", "x"))
		answer(t, r)
	}
	a.Body = append(a.Body[:0], "nobody"...)
	a.Send()
	io.WriteString(other, request("/echo", "y"))
	if _, got := answer(t, r); got != "y" {
		t.Errorf("got %q", got)
	}
}

func TestTimeoutsAreCounted(t *testing.T) {
	s := start(t, func(c *Config) { c.IdleTimeout, c.ReadTimeout, c.BusyTimeout = 0, 0, 0 })
	for _, in := range []string{"", "POST /ec", request("/late", "x")} {
		c, r := dial(t, s)
		io.WriteString(c, in)
		_, _ = r.ReadByte() // its end
	}
	if st := s.Stats(); st.Idle+st.Late+st.Slow != 3 || st.Slow != 1 || st.Open != 0 {
		t.Errorf("%+v", st)
	}
}

// A handler that takes too long is answered for, and whatever it says later goes nowhere.
func TestLateHandlerIsAnsweredFor(t *testing.T) {
	s := start(t, func(c *Config) {
		c.BusyTimeout = 0
		c.Late = func(route int, id string, a *Answer) {
			a.Status, a.Type, a.RequestID, a.Body = 504, "text/plain", id, append(a.Body[:0], lines[route]...)
		}
	})
	c, r := dial(t, s)
	io.WriteString(c, request("/late", "1", "X-Request-Id: id1")+request("/echo", "2"))
	a := <-s.late
	a.Status, a.Body = 500, append(a.Body[:0], "while the loop answers"...) // a handler is not told
	res, body := answer(t, r)
	a.Send()
	if res.StatusCode != 504 || body != lines[1] || res.Header.Get("X-Request-Id") != "id1" {
		t.Errorf("%d %q", res.StatusCode, body)
	}
	if b, err := io.ReadAll(r); err != nil || len(b) > 0 {
		t.Errorf("then %q, %v", b, err)
	}
}
