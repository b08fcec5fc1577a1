package floor

import (
	"crypto/tls"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/proto/frame"
)

const (
	readSize   = 64 << 10
	maxEvents  = 256
	sendBuffer = 32 << 10 // as klink's default
	listenQ    = 4096
)

// Server is the floor. Make it by Listen; all methods but Port belong to one goroutine.
type Server struct {
	ep, lis int
	port    int
	answer  []byte // to a Connect, with its length
	joined  []byte // to a Subscribe
	conns   []*conn
	members []member
	rbuf    []byte
	seal    []byte
	iov     []unix.Iovec
	events  [maxEvents]unix.EpollEvent
	hello   *handshakes // nil: plain
	control func() error
}

type conn struct {
	fd      int
	in, out *Record // nil: plain
	part    []byte  // of a record
	stream  Stream
	at      int // place in members, -1: not logged in
}

// member is what a push needs of a connection.
type member struct {
	fd  int
	out *Record
	c   *conn
}

// Options is what a Server is made of.
type Options struct {
	Answer  []byte       // body of the frame that answers a Connect
	Joined  []byte       // and a Subscribe
	TLS     *tls.Config  // nil: plain TCP
	Control int          // a descriptor to watch besides
	Ready   func() error // called when Control can be read; an error ends Run
}

// Listen binds a port of 127.0.0.1.
func Listen(o *Options) (*Server, error) {
	s := &Server{answer: frame.AppendStream(nil, o.Answer), joined: frame.AppendStream(nil, o.Joined), rbuf: make([]byte, readSize), control: o.Ready}
	var err error
	if s.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if s.lis, s.port, err = listenLoopback(); err != nil {
		return nil, err
	}
	if err := s.watch(s.lis, tagListener); err != nil {
		return nil, err
	}
	if o.Ready != nil {
		if err := s.watch(o.Control, tagControl); err != nil {
			return nil, err
		}
	}
	if o.TLS != nil {
		if s.hello, err = newHandshakes(o.TLS); err != nil {
			return nil, err
		}
		err = s.watch(s.hello.wake, tagHandshakes)
	}
	return s, err
}

func listenLoopback() (fd, port int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, 0, err
	}
	for _, o := range [][3]int{{unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer}, {unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}} {
		if err := unix.SetsockoptInt(fd, o[0], o[1], o[2]); err != nil {
			return -1, 0, err
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return -1, 0, err
	}
	if err := unix.Listen(fd, listenQ); err != nil {
		return -1, 0, err
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return -1, 0, err
	}
	return fd, sa.(*unix.SockaddrInet4).Port, nil
}

// What the Pad of an event says; the descriptor is in Fd.
const (
	tagConn = iota
	tagListener
	tagControl
	tagHandshakes
)

func (s *Server) watch(fd int, tag int32) error {
	return unix.EpollCtl(s.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd), Pad: tag})
}

// Port is where the server listens.
func (s *Server) Port() int { return s.port }

// Members counts the connections that have logged in.
func (s *Server) Members() int { return len(s.members) }

// Run serves until the control function returns an error, which it returns.
func (s *Server) Run() error {
	for {
		n, err := unix.EpollWait(s.ep, s.events[:], -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for events: %w", err)
		}
		for i := range s.events[:n] {
			ev := &s.events[i]
			switch ev.Pad {
			case tagConn:
				s.read(int(ev.Fd))
			case tagListener:
				s.accept()
			case tagHandshakes:
				s.adoptSecure()
			case tagControl:
				if err := s.control(); err != nil {
					return err
				}
			}
		}
	}
}

func (s *Server) accept() {
	for range 64 {
		fd, _, e := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(s.lis), 0, 0, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0, 0)
		if e != 0 {
			return
		}
		if s.hello != nil {
			s.hello.start(int(fd))
			continue
		}
		s.adopt(&conn{fd: int(fd), at: -1})
	}
}

// adoptSecure takes the connections whose handshakes are done.
func (s *Server) adoptSecure() {
	for _, c := range s.hello.take() {
		s.adopt(c)
	}
}

func (s *Server) adopt(c *conn) {
	for len(s.conns) <= c.fd {
		s.conns = append(s.conns, nil)
	}
	s.conns[c.fd] = c
	if s.watch(c.fd, tagConn) != nil {
		s.drop(c)
	}
}

func (s *Server) drop(c *conn) {
	if c.at >= 0 {
		last := s.members[len(s.members)-1]
		s.members[c.at], last.c.at = last, c.at
		s.members = s.members[:len(s.members)-1]
	}
	s.conns[c.fd] = nil
	unix.Close(c.fd)
}

func (s *Server) read(fd int) {
	c := s.conns[fd]
	if c == nil {
		return
	}
	n, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&s.rbuf[0])), uintptr(len(s.rbuf)))
	switch {
	case e == unix.EAGAIN || e == unix.EINTR:
	case e != 0 || n == 0:
		s.drop(c)
	case c.in != nil:
		s.records(c, s.rbuf[:n])
	default:
		s.frames(c, s.rbuf[:n])
	}
}

// records opens what arrived; what is not a whole record is kept.
func (s *Server) records(c *conn, b []byte) {
	if len(c.part) > 0 {
		c.part = append(c.part, b...)
		b = c.part
	}
	for {
		n := RecordLen(b)
		if n == 0 || n > len(b) {
			break
		}
		kind, plain, err := c.in.Open(b[:n])
		if err != nil || kind == RecordAlert {
			s.drop(c)
			return
		}
		b = b[n:]
		if kind == RecordData {
			s.frames(c, plain)
		}
	}
	if len(b) == 0 {
		c.part = nil
		return
	}
	c.part = append([]byte(nil), b...)
}

func (s *Server) frames(c *conn, b []byte) {
	for len(b) > 0 {
		var kind uint8
		var done bool
		if kind, done, b = c.stream.Next(b); !done {
			return
		}
		switch kind {
		case KindBeat:
			s.send(c.fd, c.out, pong)
		case KindConnect:
			if c.at < 0 {
				c.at = len(s.members)
				s.members = append(s.members, member{fd: c.fd, out: c.out, c: c})
			}
			s.send(c.fd, c.out, s.answer)
		case KindSubscribe:
			s.send(c.fd, c.out, s.joined)
		}
	}
}

var pong = []byte{0}
