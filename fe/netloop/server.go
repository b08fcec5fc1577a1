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

	"github.com/klinkio/klink/crypto/tls13"
)

// Server is the listeners and loops of one front end.
type Server struct {
	cfg   Config
	addrs []net.Addr
	loops []*loop
	hs    []*hsLoop

	origin     atomic.Pointer[func(origin, host string) bool]
	tickets    ticketKeys
	conns      atomic.Int64 // descriptors of clients
	handshakes atomic.Int64 // in flight
	started    atomic.Bool
	start      time.Time
}

// Listen binds all addresses. Run must follow, or Close.
func Listen(cfg Config) (*Server, error) {
	if err := cfg.prepare(); err != nil {
		return nil, fmt.Errorf("netloop: %w", err)
	}
	s := &Server{cfg: cfg, start: time.Now()}
	s.SetOrigin(cfg.Origin)
	if err := s.build(); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

func (s *Server) build() error {
	if s.cfg.TLS != nil {
		if err := s.addHandshakeLoops(); err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
	}
	for i := range s.cfg.Loops {
		l, err := newLoop(s, i)
		if err != nil {
			return fmt.Errorf("loop %d: %w", i, err)
		}
		s.loops = append(s.loops, l)
	}
	for i := range s.cfg.Listeners {
		if err := s.bind(s.cfg.Listeners[i].Addr); err != nil {
			return fmt.Errorf("listen on %s: %w", s.cfg.Listeners[i].Addr, err)
		}
	}
	return nil
}

func (s *Server) addHandshakeLoops() error {
	if s.cfg.Engine == tls13.EngineLoop {
		if err := tls13.SelfTest(); err != nil {
			return err
		}
	}
	base := s.cfg.TLS.Clone()
	base.NextProtos = []string{ALPN, alpnHTTP}
	for range s.cfg.HandshakeLoops {
		h, err := newHSLoop(s, base)
		if err != nil {
			return err
		}
		s.hs = append(s.hs, h)
	}
	return s.tickets.rotate(s.hs)
}

// bind makes one socket for each loop, all on the same port.
func (s *Server) bind(address string) error {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return err
	}
	if addr.IP == nil && !hasIPv6() {
		addr.IP = net.IPv4zero
	}
	if addr.Port != 0 {
		// SO_REUSEPORT would quietly share a port that another process of this user listens on. A socket without it is refused.
		probe, _, err := listen(addr, s.cfg.SendBuffer, false)
		if err != nil {
			return err
		}
		unix.Close(probe)
	}
	for _, l := range s.loops {
		fd, bound, err := listen(addr, s.cfg.SendBuffer, true)
		if err != nil {
			return err
		}
		if err := l.addListener(fd); err != nil {
			return err
		}
		addr = bound
	}
	s.addrs = append(s.addrs, addr)
	return nil
}

// Addrs are the bound addresses, in the order of the configured listeners.
func (s *Server) Addrs() []net.Addr { return s.addrs }

// Run serves until ctx ends; then all connections are closed, and it returns when the last is gone, which takes no longer than
// CloseGrace. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	if s.started.Swap(true) {
		return errors.New("netloop: the server has run already")
	}
	var io, hs sync.WaitGroup
	failed := make(chan error, len(s.loops)+len(s.hs)) // one for each, so that none waits
	for _, h := range s.hs {
		hs.Go(func() { failed <- h.run() })
	}
	for _, l := range s.loops {
		io.Go(func() { failed <- l.run() })
	}
	err := s.wait(ctx, failed)

	for _, l := range s.loops {
		l.post(l.shutdown)
	}
	for _, h := range s.hs {
		h.stop()
	}
	hs.Wait() // the last connections that they have are handed back before the I/O loops end
	for _, l := range s.loops {
		l.post(func() { l.ending = true })
	}
	io.Wait()
	s.release()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	return err
}

// wait returns when ctx ends or a loop fails, and renews ticket keys meanwhile.
func (s *Server) wait(ctx context.Context, failed <-chan error) error {
	t := time.NewTicker(ticketLife)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-t.C:
			if err := s.tickets.rotate(s.hs); err != nil {
				return fmt.Errorf("ticket keys: %w", err)
			}
		}
	}
}

// StopAccepting takes what is in the listen queues and closes the listeners. It returns when that is done; Run must be running. It must
// not be called on a loop.
func (s *Server) StopAccepting() {
	var wg sync.WaitGroup
	for _, l := range s.loops {
		wg.Add(1)
		if !l.post(func() { l.stopListening(); wg.Done() }) {
			wg.Done()
		}
	}
	wg.Wait()
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

// SetTicketKeys replaces the keys of TLS session tickets on every handshake loop: the first makes tickets, all open them. From then on the
// server does not make keys of its own any more.
func (s *Server) SetTicketKeys(keys [][32]byte) error { return s.tickets.set(s.hs, keys) }

// SetOrigin replaces the check of browser origins, see Config.
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
		out.Wakes += l.waker.writes.Load()
	}
	for _, h := range s.hs {
		h.addTo(&out)
	}
	out.Handshaking = s.handshakes.Load()
	return out
}

// Close frees the listeners of a server that does not run.
func (s *Server) Close() {
	if !s.started.Swap(true) {
		s.release()
	}
}

func (s *Server) release() {
	for _, l := range s.loops {
		l.release()
	}
	for _, h := range s.hs {
		h.waker.close()
	}
}

// retains says that crypto/tls protects records, and not the record layer of tls13.
func (s *Server) retains() bool { return s.cfg.Engine == tls13.EngineStdlib }

// clock is milliseconds since the server was made.
func (s *Server) clock() int64 { return time.Since(s.start).Milliseconds() }

func (s *Server) nanos() int64 { return time.Since(s.start).Nanoseconds() }
