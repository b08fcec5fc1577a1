package loadtest

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/loadtest/floor"
)

const (
	dialsPerSource = 3000
	dialers        = 8  // that do TLS handshakes
	dialTimeout    = 10 // s
)

// dialled is a connection as a dialer hands it over.
type dialled struct {
	c   *session
	err error
}

// dial begins the next session.
func (w *swarm) dial() {
	c := &session{n: int32(len(w.all)), fd: -1}
	w.all = append(w.all, c)
	w.dialing++
	if w.dials != nil {
		w.dials <- int(c.n) // never full: it holds a window
		return
	}
	fd, err := w.connect(int(c.n))
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	c.fd = int32(fd)
	w.adopt(dialled{c, err})
}

// connect makes a connected, blocking socket from the source address of the session.
func (w *swarm) connect(n int) (int, error) {
	to, err := netip.ParseAddrPort(w.spec.Addr)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	source := (w.spec.First + n) / dialsPerSource
	from := &unix.SockaddrInet4{Addr: [4]byte{127, 0, byte(1 + source/250), byte(1 + source%250)}}
	for _, step := range []func() error{
		func() error { return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) },
		func() error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) },
		func() error {
			return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: dialTimeout})
		},
		func() error {
			return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: dialTimeout})
		},
		func() error { return unix.Bind(fd, from) },
		func() error {
			return connected(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
		},
	} {
		if err := step(); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("dial %s: %w", w.spec.Addr, err)
		}
	}
	return fd, nil
}

// connected connects a blocking socket. A signal interrupts the call but not the connection.
func connected(fd int, to unix.Sockaddr) error {
	err := unix.Connect(fd, to)
	if err != unix.EINTR {
		return err
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	for err == unix.EINTR {
		_, err = unix.Poll(fds, dialTimeout*1000)
	}
	if err != nil {
		return err
	}
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	if err == nil {
		_, err = unix.Getpeername(fd) // fails where poll gave up
	}
	return err
}

// adopt takes a connection that is ready for its first words.
func (w *swarm) adopt(d dialled) {
	c := d.c
	if d.err != nil {
		w.dialing--
		w.n.Lost++
		w.n.LastErr = d.err.Error()
		return
	}
	for len(w.byFD) <= int(c.fd) {
		w.byFD = append(w.byFD, nil)
	}
	w.byFD[c.fd] = c
	if err := w.watch(int(c.fd), unix.EPOLLIN, tagSession); err != nil {
		w.lose(c, err)
		return
	}
	if w.webSocket() {
		w.upgrade(c)
		return
	}
	c.phase = phaseLogin
	w.login(c)
}

// startDialers makes the goroutines that do TLS handshakes. They end with the process.
func (w *swarm) startDialers() error {
	var err error
	if w.tls, err = clientTLS(w.spec.CA); err != nil {
		return err
	}
	w.tls.NextProtos = []string{alpn}
	if w.webSocket() {
		w.tls.NextProtos = []string{"http/1.1"}
	}
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	w.dials = make(chan int, w.spec.Window)
	for range dialers {
		go w.dialer()
	}
	return w.watch(w.wake, unix.EPOLLIN, tagDialers)
}

func (w *swarm) dialer() {
	for n := range w.dials {
		c := &session{n: int32(n)}
		err := w.secure(c)
		w.mu.Lock()
		w.done = append(w.done, dialled{c, err})
		w.mu.Unlock()
		one := [8]byte{1}
		_, _ = unix.Write(w.wake, one[:]) // it can't be full: that takes 2^64-1 connections
	}
}

func (w *swarm) secure(c *session) error {
	fd, err := w.connect(int(c.n))
	if err != nil {
		return err
	}
	c.fd = int32(fd)
	if c.in, c.out, _, err = floor.Handshake(fd, w.tls, true); err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		unix.Close(fd)
	}
	return err
}

func (w *swarm) adoptDialled() {
	var n [8]byte
	_, _ = unix.Read(w.wake, n[:]) // an empty counter means that another call took them
	w.mu.Lock()
	done := w.done
	w.done = nil
	w.mu.Unlock()
	for _, d := range done {
		w.all[d.c.n] = d.c
		w.adopt(d)
	}
}
