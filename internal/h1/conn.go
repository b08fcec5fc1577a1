package h1

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of what is kept.
const (
	maxAhead = maxHead + maxBody // of a connection's input behind a request that is not answered: then nothing is read
	maxHeld  = 32 << 20          // of all partial input: beyond it net/http gets what is not complete, which reads no body before it knows the key
	keepOut  = 4 << 10           // capacity that a connection keeps for output
	keepBody = 64 << 10          // and for an answer's body
)

// ready does what the socket is ready for.
func (s *Server) ready(c *conn, events uint32) {
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 { // nobody is there to read an answer
		s.close(c)
		return
	}
	if events&unix.EPOLLOUT != 0 {
		s.flush(c)
		s.proceed(c)
	}
	if events&unix.EPOLLIN != 0 && !c.closed {
		s.read(c)
	}
}

// waits reports whether an answer has to go first: one is on its way, or the client has not taken the last one. So what a connection
// can make the server keep is one answer.
func (c *conn) waits() bool { return c.busy || len(c.out) > 0 }

func (s *Server) read(c *conn) {
	n, err := unix.Read(int(c.fd), s.rbuf)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return
	case err == nil && n == 0 && c.waits(): // it has closed its side only, perhaps
		c.eof = true
		s.watch(c)
		return
	case err != nil || n <= 0:
		s.close(c)
		return
	}
	in, kept := s.rbuf[:n], false
	if len(c.in) > 0 || c.waits() {
		s.keep(c, append(c.in, in...))
		in, kept = c.in, true
	} else {
		c.since = time.Now()
	}
	if c.waits() {
		s.watch(c)
		return
	}
	s.requests(c, in, kept)
}

// proceed goes on with what was read meanwhile, when no answer is due.
func (s *Server) proceed(c *conn) {
	if c.closed || c.waits() {
		return
	}
	if len(c.in) > 0 {
		s.requests(c, c.in, true)
	}
	if c.closed || c.waits() {
		return
	}
	if c.eof {
		s.close(c)
		return
	}
	s.watch(c)
}

// requests serves the whole requests at the start of in and keeps the rest. kept: in is c.in.
func (s *Server) requests(c *conn, in []byte, kept bool) {
	for len(in) >= max(c.need, 1) && !c.closed && !c.waits() {
		v, n := parse(in, s.cfg.Lines, &c.req)
		if v == short {
			c.need = n
			break
		}
		if v == foreign || !s.serve(c) {
			s.handOver(c, in)
			return
		}
		in, c.need = in[n:], 0
	}
	switch {
	case c.closed:
		return
	case len(in) == 0:
		s.keep(c, nil) // an idle connection holds no buffer
		return
	case kept:
		s.keep(c, in)
	default:
		s.keep(c, append([]byte(nil), in...))
	}
	if s.held > maxHeld && !c.waits() {
		s.stats.crowded.Add(1)
		s.handOver(c, c.in)
	}
}

// keep makes b the connection's input.
func (s *Server) keep(c *conn, b []byte) {
	s.held += len(b) - len(c.in)
	c.in = b
}

// serve asks the handler. An answer that is there when it returns is written at once; a later one wakes the loop.
func (s *Server) serve(c *conn) bool {
	c.ans.state.Store(serving)
	c.busy, c.since = true, time.Now()
	if !s.cfg.Handler(&c.req, c.ans) {
		c.busy = false
		return false
	}
	s.stats.served.Add(1)
	if c.ans.state.Swap(returned) == answered {
		s.reply(c)
	}
	return true
}

// overdue ends a connection that has taken too long. Whose answer has not come is told so first; the handler may still write to its Answer, so
// that one is left alone.
func (s *Server) overdue(c *conn) {
	if !c.busy || s.cfg.Late == nil {
		s.close(c)
		return
	}
	route, id := c.req.Route, c.ans.RequestID
	c.ans = &Answer{c: c, s: s}
	s.cfg.Late(route, id, c.ans)
	s.keep(c, nil)
	c.eof = true // nothing more is read, and the connection ends when this is written
	s.reply(c)
	s.proceed(c)
}

// reply writes the answer that the handler has made.
func (s *Server) reply(c *conn) {
	c.busy, c.since = false, time.Now()
	c.out = s.appendHead(c.out, c.ans)
	c.out = append(c.out, c.ans.Body...)
	if cap(c.ans.Body) > keepBody {
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
	} else if c.out = c.out[:0]; cap(c.out) > keepOut {
		c.out = nil
	}
	s.watch(c)
}

// watch tells epoll what the connection waits for.
func (s *Server) watch(c *conn) {
	var events uint32
	if !c.eof && (!c.waits() || len(c.in) < maxAhead) {
		events |= unix.EPOLLIN
	}
	if len(c.out) > 0 {
		events |= unix.EPOLLOUT
	}
	if c.closed || events == c.events {
		return
	}
	if c.events = events; s.ctl(unix.EPOLL_CTL_MOD, int(c.fd), events) != nil {
		s.close(c)
	}
}

// handOver gives the connection to net/http, which begins with the bytes that were read.
func (s *Server) handOver(c *conn, in []byte) {
	prefix := append([]byte(nil), in...)
	_ = s.ctl(unix.EPOLL_CTL_DEL, int(c.fd), 0)
	s.forget(c)
	s.stats.handed.Add(1) // before net/http can answer: who has its answer finds it counted
	if !s.fallback.put(c.fd, prefix) {
		s.stats.lost.Add(1)
	}
}

func (s *Server) close(c *conn) {
	if !c.closed {
		s.forget(c)
		unix.Close(int(c.fd))
	}
}

func (s *Server) forget(c *conn) {
	c.closed = true
	s.keep(c, nil)
	delete(s.conns, c.fd)
	s.stats.open.Add(-1)
}
