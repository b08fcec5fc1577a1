package h1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Handler serves a request, now or later, by a. It reports false when the request is not for it: then net/http gets the connection, and a
// must not be used. It must not block.
type Handler func(r *Request, a *Answer) bool

// Config is what a server is made of.
type Config struct {
	Lines       []string // request lines with their CRLF, for example "POST /v1/push HTTP/1.1\r\n"
	Handler     Handler
	IdleTimeout time.Duration // of a connection without a request
	ReadTimeout time.Duration // from a request's first byte to its last
	BusyTimeout time.Duration // for the handler's answer; then the connection is closed
}

// Server is one epoll loop.
type Server struct {
	cfg      Config
	ln       *net.TCPListener
	lnFD     int
	ep       int
	wakeFD   int
	fallback *fallback

	mu      sync.Mutex
	answers []*Answer
	quit    bool
	cut     bool // do not wait for what is being served

	conns map[int32]*conn // by descriptor
	date  []byte          // Date header of this second
	dated int64
	rbuf  []byte
	done  chan struct{}

	served, handed atomic.Uint64
}

// conn is one connection. The loop owns it.
type conn struct {
	fd     int32
	in     []byte // of a request that is not complete
	out    []byte // not taken by the socket yet
	armed  bool   // epoll tells when it is writable
	busy   bool   // an answer is on its way
	closed bool
	since  time.Time // of the state it is in: idle, reading, busy
	req    Request
	ans    Answer
}

// New makes a server that takes over the listener.
func New(ln *net.TCPListener, cfg Config) (*Server, error) {
	f, err := ln.File() // a second descriptor of the same socket; ln is closed at the end
	if err != nil {
		return nil, fmt.Errorf("listener: %w", err)
	}
	defer f.Close()
	s := &Server{cfg: cfg, ln: ln, conns: make(map[int32]*conn), rbuf: make([]byte, 64<<10), done: make(chan struct{}), fallback: newFallback(ln.Addr())}
	if s.lnFD, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("listener: %w", err)
	}
	if err := unix.SetNonblock(s.lnFD, true); err != nil {
		return nil, fmt.Errorf("listener: %w", err)
	}
	if s.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	if s.wakeFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	for _, fd := range [...]int{s.lnFD, s.wakeFD} {
		if err := s.ctl(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
			return nil, fmt.Errorf("epoll: %w", err)
		}
	}
	return s, nil
}

func (s *Server) ctl(op, fd int, events uint32) error {
	return unix.EpollCtl(s.ep, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// Fallback is the listener whose connections net/http has to serve. It outlives Serve; the server of net/http closes it.
func (s *Server) Fallback() net.Listener { return s.fallback }

// Counts are the requests served here, and the connections given to net/http.
func (s *Server) Counts() (served, handed uint64) { return s.served.Load(), s.handed.Load() }

// Serve runs the loop until Shutdown. It returns the error that ended it, nil after Shutdown.
func (s *Server) Serve() error {
	defer close(s.done)
	defer s.cleanup()
	events := make([]unix.EpollEvent, 128)
	swept := time.Now()
	for {
		wait := -1
		if len(s.conns) > 0 {
			wait = 1000
		}
		n, err := unix.EpollWait(s.ep, events, wait)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		for i := range events[:max(n, 0)] {
			s.event(&events[i])
		}
		if s.takeAnswers() && s.drained() {
			return nil
		}
		if now := time.Now(); now.Sub(swept) >= time.Second {
			s.sweep(now)
			swept = now
		}
	}
}

func (s *Server) event(ev *unix.EpollEvent) {
	switch ev.Fd {
	case int32(s.lnFD):
		s.accept()
	case int32(s.wakeFD):
		var b [8]byte
		_, _ = unix.Read(s.wakeFD, b[:])
	default:
		c := s.conns[ev.Fd]
		if c == nil {
			return
		}
		if ev.Events&unix.EPOLLOUT != 0 {
			s.flush(c)
		}
		if ev.Events&^unix.EPOLLOUT != 0 && !c.closed {
			s.read(c)
		}
	}
}

func (s *Server) accept() {
	for range 64 {
		fd, _, err := unix.Accept4(s.lnFD, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			if !errors.Is(err, unix.EAGAIN) {
				time.Sleep(time.Millisecond) // out of descriptors: the queue stays, and this must not spin
			}
			return
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // without it answers come later, nothing else
		c := &conn{fd: int32(fd), since: time.Now()}
		c.ans.c, c.ans.s = c, s
		if s.ctl(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN) != nil {
			unix.Close(fd)
			continue
		}
		s.conns[c.fd] = c
	}
}

func (s *Server) read(c *conn) {
	n, err := unix.Read(int(c.fd), s.rbuf)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return
	case err != nil || n <= 0:
		s.close(c)
		return
	}
	if c.busy { // pipelined: it waits for the answer before
		if c.in = append(c.in, s.rbuf[:n]...); len(c.in) > maxHead+maxBody {
			s.close(c)
		}
		return
	}
	in := s.rbuf[:n]
	if len(c.in) > 0 {
		c.in = append(c.in, in...)
		in = c.in
	} else {
		c.since = time.Now()
	}
	s.requests(c, in)
}

// requests serves the whole requests at the start of in and keeps the rest.
func (s *Server) requests(c *conn, in []byte) {
	for len(in) > 0 && !c.busy && !c.closed {
		v, n := parse(in, s.cfg.Lines, &c.req)
		if v == short {
			break
		}
		if v == foreign || !s.serve(c) {
			s.handOver(c, in)
			return
		}
		in = in[n:]
	}
	if c.closed {
		return
	}
	if len(in) == 0 {
		c.in = nil // an idle connection holds no buffer
		return
	}
	c.in = append(c.in[:0:0], in...)
}

// serve asks the handler. An answer that is there when it returns is written at once; a later one wakes the loop.
func (s *Server) serve(c *conn) bool {
	c.ans.state.Store(serving)
	c.busy, c.since = true, time.Now()
	if !s.cfg.Handler(&c.req, &c.ans) {
		c.busy = false
		return false
	}
	s.served.Add(1)
	if c.ans.state.Swap(returned) == answered {
		s.reply(c)
	}
	return true
}

// reply writes the answer that the handler has made.
func (s *Server) reply(c *conn) {
	c.busy, c.since = false, time.Now()
	c.out = s.appendHead(c.out, &c.ans)
	c.out = append(c.out, c.ans.Body...)
	if cap(c.ans.Body) > 64<<10 {
		c.ans.Body = nil
	}
	s.flush(c)
}

// flush sends what waits; what the socket does not take goes when it is writable.
func (s *Server) flush(c *conn) {
	if len(c.out) == 0 {
		return
	}
	n, err := unix.Write(int(c.fd), c.out)
	switch {
	case errors.Is(err, unix.EAGAIN):
		n = 0
	case err != nil:
		s.close(c)
		return
	}
	if n < len(c.out) {
		c.out = c.out[:copy(c.out, c.out[n:])]
		s.arm(c, true)
		return
	}
	s.arm(c, false)
	if cap(c.out) > 4096 {
		c.out = nil
	}
	c.out = c.out[:0]
}

// arm tells epoll whether output waits.
func (s *Server) arm(c *conn, out bool) {
	if c.armed == out {
		return
	}
	c.armed = out
	events := uint32(unix.EPOLLIN)
	if out {
		events |= unix.EPOLLOUT
	}
	if s.ctl(unix.EPOLL_CTL_MOD, int(c.fd), events) != nil {
		s.close(c)
	}
}

// handOver gives the connection to net/http, which begins with the bytes that were read.
func (s *Server) handOver(c *conn, in []byte) {
	if len(c.out) > 0 { // an answer of ours must go first: as good as never, and the client may try again
		s.close(c)
		return
	}
	prefix := append([]byte(nil), in...)
	_ = s.ctl(unix.EPOLL_CTL_DEL, int(c.fd), 0)
	delete(s.conns, c.fd)
	c.closed = true
	s.handed.Add(1)
	s.fallback.put(c.fd, prefix)
}

func (s *Server) close(c *conn) {
	if c.closed {
		return
	}
	c.closed = true
	delete(s.conns, c.fd)
	unix.Close(int(c.fd))
}

// sweep closes what has taken too long.
func (s *Server) sweep(now time.Time) {
	for _, c := range s.conns {
		limit := s.cfg.IdleTimeout
		switch {
		case c.busy || len(c.out) > 0:
			limit = s.cfg.BusyTimeout
		case len(c.in) > 0:
			limit = s.cfg.ReadTimeout
		}
		if now.Sub(c.since) > limit {
			s.close(c)
		}
	}
}

// takeAnswers writes the answers that came from elsewhere. It reports whether the server is to end.
func (s *Server) takeAnswers() (quit bool) {
	s.mu.Lock()
	answers := s.answers
	s.answers, quit = nil, s.quit
	s.mu.Unlock()
	for _, a := range answers {
		if c := a.c; !c.closed {
			s.reply(c)
			if in := c.in; len(in) > 0 && !c.closed && !c.busy {
				c.in = nil
				s.requests(c, in)
			}
		}
	}
	return quit
}

// drained closes the listener and what is idle, and reports whether nothing is left.
func (s *Server) drained() bool {
	if s.lnFD >= 0 {
		unix.Close(s.lnFD)
		s.lnFD = -1
	}
	s.mu.Lock()
	cut := s.cut
	s.mu.Unlock()
	for _, c := range s.conns {
		if cut || !c.busy && len(c.out) == 0 {
			s.close(c)
		}
	}
	return len(s.conns) == 0
}

func (s *Server) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeLocked()
}

func (s *Server) wakeLocked() {
	if s.wakeFD >= 0 { // closed by cleanup, under the same lock
		one := [8]byte{1}
		_, _ = unix.Write(s.wakeFD, one[:]) // full means that it is signalled already
	}
}

// Shutdown stops accepting, lets requests that are being served be answered and ends Serve; when ctx ends first, what is left is closed.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.quit = true
	s.mu.Unlock()
	s.ln.Close()
	s.wake()
	for { // Serve has to be running
		select {
		case <-s.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
			s.wake() // a connection may have become idle
		}
	}
}

// Close ends Serve at once and cuts off what is being served.
func (s *Server) Close() error {
	s.mu.Lock()
	s.quit, s.cut = true, true
	s.mu.Unlock()
	s.wake()
	<-s.done
	return nil
}

func (s *Server) cleanup() {
	for _, c := range s.conns {
		s.close(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lnFD >= 0 {
		unix.Close(s.lnFD)
	}
	unix.Close(s.ep)
	unix.Close(s.wakeFD)
	s.wakeFD = -1
}
