package netloop

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// waker is the epoll descriptor of a loop and what wakes it from other goroutines, with a system call only when it sleeps. The goroutine of
// the loop locks own before its first wait.
type waker struct {
	ep      int
	pending atomic.Bool // somebody called wake since the last wait
	asleep  atomic.Bool

	// own is held by whoever runs the loop: its goroutine, but while it sleeps; then borrow may take it.
	own    sync.Mutex
	writes atomic.Uint64

	mu     sync.Mutex // an eventfd must not be closed, and its number reused, between the look at asleep and the write
	event  int
	closed bool
}

func (w *waker) open() error {
	var err error
	if w.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if w.event, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		unix.Close(w.ep)
		return fmt.Errorf("eventfd: %w", err)
	}
	// Edge-triggered: each write is an event of its own, and nobody has to read the counter.
	if err = sysCtl(w.ep, unix.EPOLL_CTL_ADD, int32(w.event), unix.EPOLLIN|unix.EPOLLET, 0, 0); err != nil {
		unix.Close(w.ep)
		unix.Close(w.event)
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

func (w *waker) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		unix.Close(w.ep)
		unix.Close(w.event)
	}
}

// wake ends the present wait, or keeps the next from sleeping. Either this sees asleep, or wait sees pending.
func (w *waker) wake() {
	if w.pending.Swap(true) || !w.asleep.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.writes.Add(1)
	one := [8]byte{1}
	_, _ = unix.Write(w.event, one[:]) // fails only when the counter is full, and then it is readable
}

// borrow takes the loop from its sleeping goroutine; the caller runs it and gives it back by giveBack. False: it is awake, or lent already.
func (w *waker) borrow() bool { return w.asleep.Load() && w.own.TryLock() }

func (w *waker) giveBack() { w.own.Unlock() }

// wait is epoll_wait for at most ms (negative: for ever), unless wake was called since the last wait.
func (w *waker) wait(events []unix.EpollEvent, ms int) (n int, err syscall.Errno) {
	if ms != 0 {
		w.asleep.Store(true)
		if w.pending.Load() {
			ms = 0
		}
	}
	if ms == 0 {
		n, err = sysPoll(w.ep, events)
	} else {
		var e error
		w.own.Unlock()
		n, e = unix.EpollWait(w.ep, events, ms)
		w.own.Lock()
		err, _ = e.(syscall.Errno)
	}
	w.asleep.Store(false)
	w.pending.Store(false)
	if err == unix.EINTR {
		return 0, 0
	}
	return max(n, 0), err
}
