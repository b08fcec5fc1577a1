package netloop

import (
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// waker wakes a loop from other goroutines, with a system call only when the loop sleeps.
type waker struct {
	fd      int
	pending atomic.Bool
	asleep  atomic.Bool
	writes  *atomic.Uint64
}

func (w *waker) wake() {
	w.pending.Store(true)
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		if w.writes != nil {
			w.writes.Add(1)
		}
		one := [8]byte{1}
		_, _ = unix.Write(w.fd, one[:]) // full means that it is signalled already
	}
}

// wait is epoll_wait for at most ms (negative: for ever), unless somebody has called wake since the last wait.
func (w *waker) wait(ep int, events []unix.EpollEvent, ms int) (n int, err syscall.Errno) {
	if ms != 0 {
		w.asleep.Store(true)
		if w.pending.Load() {
			ms = 0
		}
	}
	if ms == 0 {
		n, err = sysPoll(ep, events)
	} else {
		var e error
		n, e = unix.EpollWait(ep, events, ms)
		err, _ = e.(syscall.Errno)
	}
	w.asleep.Store(false)
	w.pending.Store(false)
	if err == syscall.EINTR {
		return 0, 0
	}
	return max(n, 0), err
}

func (w *waker) drain() {
	var b [8]byte
	_, _ = unix.Read(w.fd, b[:])
}
