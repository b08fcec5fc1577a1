package h1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
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
	BusyTimeout time.Duration // for the handler's answer, and again for the client to take it; then the connection is closed
	// Late fills the answer to a request whose own did not come in time. The handler's is ignored then, whenever it comes.
	// Nil: the connection is closed without an answer.
	Late func(route int, requestID string, a *Answer)
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

	running, ended bool // guarded by mu: Serve has begun; nothing is left of the server

	held   int  // bytes of partial input of all connections
	paused bool // not accepting until the next sweep

	stats counters
}

// conn is one connection. The loop owns it.
type conn struct {
	fd     int32
	in     []byte // of a request that is not complete
	out    []byte // not taken by the socket yet
	need   int    // that many bytes are a whole request, as far as is known
	events uint32 // that epoll tells of
	busy   bool   // an answer is on its way
	eof    bool   // the client sends nothing more
	closed bool
	since  time.Time // of the state it is in: idle, reading, busy
	req    Request
	ans    *Answer // of the request being served, or of the next one
}

// New makes a server that takes over the listener.
func New(ln *net.TCPListener, cfg Config) (*Server, error) {
	s := &Server{
		cfg: cfg, ln: ln, lnFD: -1, ep: -1, wakeFD: -1, conns: make(map[int32]*conn), rbuf: make([]byte, 64<<10),
		done: make(chan struct{}), fallback: newFallback(ln.Addr()),
	}
	if err := s.open(); err != nil {
		s.cleanup()
		return nil, err
	}
	return s, nil
}

func (s *Server) open() error {
	f, err := s.ln.File() // a second descriptor of the same socket; ln is closed at the end
	if err != nil {
		return fmt.Errorf("listener: %w", err)
	}
	defer f.Close()
	if s.lnFD, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return fmt.Errorf("listener: %w", err)
	}
	if err := unix.SetNonblock(s.lnFD, true); err != nil {
		return fmt.Errorf("listener: %w", err)
	}
	if s.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if s.wakeFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	for _, fd := range [...]int{s.lnFD, s.wakeFD} {
		if err := s.ctl(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	return nil
}

func (s *Server) ctl(op, fd int, events uint32) error {
	return unix.EpollCtl(s.ep, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// Fallback is the listener whose connections net/http has to serve. It outlives Serve; the server of net/http closes it.
func (s *Server) Fallback() net.Listener { return s.fallback }

// Serve runs the loop until Shutdown. It returns the error that ended it, nil after Shutdown. It is called once.
func (s *Server) Serve() error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return nil
	}
	s.running = true
	s.mu.Unlock()
	defer close(s.done)
	defer s.cleanup()
	events := make([]unix.EpollEvent, 128)
	swept := time.Now()
	for {
		wait := -1
		if len(s.conns) > 0 || s.paused {
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
		if c := s.conns[ev.Fd]; c != nil {
			s.ready(c, ev.Events)
		}
	}
}

func (s *Server) accept() {
	for range 64 {
		fd, _, err := unix.Accept4(s.lnFD, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
		case errors.Is(err, unix.EAGAIN):
			return
		case errors.Is(err, unix.ECONNABORTED), errors.Is(err, unix.EINTR):
			continue
		default: // out of descriptors or memory: the queue stays, and this must neither spin nor wait
			s.stats.acceptErrors.Add(1)
			s.paused = s.ctl(unix.EPOLL_CTL_MOD, s.lnFD, 0) == nil
			return
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // without it answers come later, nothing else
		c := &conn{fd: int32(fd), events: unix.EPOLLIN, since: time.Now()}
		c.ans = &Answer{c: c, s: s}
		if s.ctl(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN) != nil {
			s.stats.acceptErrors.Add(1)
			unix.Close(fd)
			continue
		}
		s.conns[c.fd] = c
		s.stats.open.Add(1)
	}
}

// sweep closes what has taken too long, and accepts again.
func (s *Server) sweep(now time.Time) {
	if s.paused && s.lnFD >= 0 {
		s.paused = s.ctl(unix.EPOLL_CTL_MOD, s.lnFD, unix.EPOLLIN) != nil
	}
	for _, c := range s.conns {
		limit, count := s.cfg.IdleTimeout, &s.stats.idle
		switch {
		case c.busy || len(c.out) > 0:
			limit, count = s.cfg.BusyTimeout, &s.stats.slow
		case len(c.in) > 0:
			limit, count = s.cfg.ReadTimeout, &s.stats.late
		}
		if now.Sub(c.since) > limit {
			count.Add(1)
			s.overdue(c)
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
		if c := a.c; !c.closed && a == c.ans {
			s.reply(c)
			s.proceed(c)
		}
	}
	return quit
}

// drained closes the listener and what has no request under way, and reports whether nothing is left.
func (s *Server) drained() bool {
	if s.lnFD >= 0 {
		unix.Close(s.lnFD)
		s.lnFD, s.paused = -1, false
	}
	s.mu.Lock()
	cut := s.cut
	s.mu.Unlock()
	for _, c := range s.conns {
		if cut || !c.busy && len(c.out)+len(c.in) == 0 {
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

// Shutdown stops accepting, lets requests that have begun be answered and ends Serve; when ctx ends first, the caller has to Close.
func (s *Server) Shutdown(ctx context.Context) error {
	if !s.stop(false) {
		return nil
	}
	for {
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

// Close ends Serve at once and cuts off what is being served. It also frees a server that never served.
func (s *Server) Close() error {
	if s.stop(true) {
		<-s.done
	}
	return nil
}

// stop tells the loop to end. It reports false when there is nothing to wait for.
func (s *Server) stop(cut bool) bool {
	s.mu.Lock()
	s.quit, s.cut = true, s.cut || cut
	never := !s.running && !s.ended
	s.ended = s.ended || never
	s.mu.Unlock()
	if never {
		s.cleanup()
		close(s.done)
		return false
	}
	s.ln.Close()
	s.wake()
	return true
}

func (s *Server) cleanup() {
	for _, c := range s.conns {
		s.close(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.ln.Close()
	for _, fd := range [...]*int{&s.lnFD, &s.ep, &s.wakeFD} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}
