package netloop

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Server is the listeners and loops of one front end.
type Server struct {
	cfg   Config
	addrs []net.Addr
	loops []*loop
	hs    []*hsLoop

	origin     atomic.Pointer[func(origin, host string) bool]
	handshakes atomic.Int64 // in flight, over all loops
	start      time.Time
}

// Listen binds all addresses. Run must follow, or Close.
func Listen(cfg Config) (*Server, error) {
	if err := cfg.prepare(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, start: time.Now()}
	s.SetOrigin(cfg.Origin)
	for i := range cfg.Loops {
		l, err := newLoop(s, i)
		if err != nil {
			s.close()
			return nil, err
		}
		s.loops = append(s.loops, l)
	}
	if cfg.TLS != nil {
		if err := s.addHandshakeLoops(); err != nil {
			s.close()
			return nil, err
		}
	}
	for i := range cfg.Listeners {
		if err := s.bind(i); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) addHandshakeLoops() error {
	base := s.cfg.TLS.Clone()
	if len(base.NextProtos) == 0 {
		base.NextProtos = []string{ALPN, "http/1.1"}
	}
	for i := range s.cfg.HandshakeLoops {
		h, err := newHSLoop(s, i, base)
		if err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		s.hs = append(s.hs, h)
	}
	return nil
}

// bind makes one socket for each loop, all on the same port.
func (s *Server) bind(i int) error {
	cfg := &s.cfg.Listeners[i]
	addr, err := net.ResolveTCPAddr("tcp", cfg.Addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", cfg.Addr, err)
	}
	if addr.Port != 0 {
		// SO_REUSEPORT would share a port that another process of this user listens on.
		probe, err := net.ListenTCP("tcp", addr)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", cfg.Addr, err)
		}
		probe.Close()
	}
	for _, l := range s.loops {
		fd, bound, err := listen(addr, s.cfg.SendBuffer)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", cfg.Addr, err)
		}
		l.listeners = append(l.listeners, fd)
		addr = bound
	}
	s.addrs = append(s.addrs, addr)
	return nil
}

// Addrs are the bound addresses, in the order of the configured listeners.
func (s *Server) Addrs() []net.Addr { return s.addrs }

// Run serves until ctx ends, or a loop fails; then all connections are closed, and it returns when the last is gone. It may be called
// once.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var io, hs sync.WaitGroup
	errs := make(chan error, len(s.loops)+len(s.hs))
	watch := func(run func() error) {
		if err := run(); err != nil {
			errs <- err
			cancel() // without one of its loops a server would lose the connections that the kernel gives to it
		}
	}
	for _, h := range s.hs {
		hs.Go(func() { watch(h.run) })
	}
	for _, l := range s.loops {
		io.Go(func() { watch(l.run) })
	}
	<-ctx.Done()
	for _, h := range s.hs {
		h.stop()
	}
	for _, l := range s.loops {
		l.mail(l.shutdown)
	}
	hs.Wait() // their last connections are handed back before the I/O loops end
	for _, l := range s.loops {
		l.mail(func() { l.ending = true })
	}
	io.Wait()
	s.close()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// StopAccepting takes what is in the listen queues and closes the listeners. It returns when that is done. Run must be running.
func (s *Server) StopAccepting() {
	var wg sync.WaitGroup
	for _, l := range s.loops {
		wg.Add(1)
		if !l.mail(func() { l.stopListening(); wg.Done() }) {
			wg.Done()
		}
	}
	wg.Wait()
}

// SetTicketKeys replaces the keys of TLS session tickets on every handshake loop: the first makes tickets, all open them.
func (s *Server) SetTicketKeys(keys [][32]byte) error {
	for _, h := range s.hs {
		if err := h.tls.SetTicketKeys(keys); err != nil {
			return err
		}
	}
	return nil
}

// SetCertificates replaces the certificates for new handshakes.
func (s *Server) SetCertificates(certs []tls.Certificate) error {
	for _, h := range s.hs {
		if err := h.tls.SetCertificates(certs); err != nil {
			return err
		}
	}
	return nil
}

// SetOrigin replaces the check of browser origins; nil accepts only the origin whose host is the Host header's.
func (s *Server) SetOrigin(f func(origin, host string) bool) {
	if f == nil {
		f = sameHost
	}
	s.origin.Store(&f)
}

// Stats reads all counters.
func (s *Server) Stats() Stats {
	var out Stats
	for _, l := range s.loops {
		l.n.addTo(&out)
	}
	for _, h := range s.hs {
		st := h.tls.Stats()
		out.TLS.Started += st.Started
		out.TLS.Done += st.Done
		out.TLS.Resumed += st.Resumed
		out.TLS.Active += st.Active
		for i := range st.Failed {
			out.TLS.Failed[i] += st.Failed[i]
		}
		for i := range h.refused {
			out.Refused[i] += h.refused[i].Load()
		}
	}
	out.Handshaking = s.handshakes.Load()
	return out
}

func (s *Server) close() {
	for _, l := range s.loops {
		for _, fd := range l.listeners {
			if fd >= 0 {
				unix.Close(fd)
			}
		}
		unix.Close(l.ep)
		unix.Close(l.wakeFD)
	}
	for _, h := range s.hs {
		unix.Close(h.ep)
		unix.Close(h.wakeFD)
	}
}

// Close frees the listeners of a server that was never run.
func (s *Server) Close() { s.close() }

func newPoll() (ep, wakeFD int, err error) {
	if ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return -1, -1, fmt.Errorf("epoll: %w", err)
	}
	if wakeFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		unix.Close(ep)
		return -1, -1, fmt.Errorf("eventfd: %w", err)
	}
	if err = sysCtl(ep, unix.EPOLL_CTL_ADD, int32(wakeFD), unix.EPOLLIN, 0, 0); err != nil {
		unix.Close(ep)
		unix.Close(wakeFD)
		return -1, -1, fmt.Errorf("epoll: %w", err)
	}
	return ep, wakeFD, nil
}
