package floor

import (
	"crypto/tls"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// handshakeWorkers is how many handshakes run at once; each blocks a thread while it waits for its client.
const handshakeWorkers = 16

// handshakes runs the handshakes of a Server on goroutines of their own.
type handshakes struct {
	cfg    *tls.Config
	wake   int // eventfd
	queue  chan int
	failed atomic.Int64

	mu   sync.Mutex
	done []*conn
}

func newHandshakes(cfg *tls.Config) (*handshakes, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	// The queue holds what may wait at a listener: the loop must not block on it.
	h := &handshakes{cfg: cfg, wake: wake, queue: make(chan int, 4*listenQ)}
	for range handshakeWorkers {
		go h.work() // ends with the process, as the server does
	}
	return h, nil
}

func (h *handshakes) start(fd int) {
	select {
	case h.queue <- fd:
	default:
		h.failed.Add(1)
		unix.Close(fd)
	}
}

func (h *handshakes) work() {
	for fd := range h.queue {
		c, err := h.one(fd)
		if err != nil {
			h.failed.Add(1)
			unix.Close(fd)
			continue
		}
		h.mu.Lock()
		h.done = append(h.done, c)
		h.mu.Unlock()
		one := [8]byte{1}
		_, _ = unix.Write(h.wake, one[:]) // it can't be full: that takes 2^64-1 connections
	}
}

func (h *handshakes) one(fd int) (*conn, error) {
	if err := unix.SetNonblock(fd, false); err != nil {
		return nil, err
	}
	limit := unix.Timeval{Sec: 5}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return nil, err
	}
	in, out, _, err := Handshake(fd, h.cfg, false)
	if err != nil {
		return nil, err
	}
	return &conn{fd: fd, in: in, out: out, at: -1}, unix.SetNonblock(fd, true)
}

// take returns the connections that are ready.
func (h *handshakes) take() []*conn {
	var n [8]byte
	_, _ = unix.Read(h.wake, n[:]) // an empty counter means that another call took them
	h.mu.Lock()
	defer h.mu.Unlock()
	done := h.done
	h.done = nil
	return done
}
