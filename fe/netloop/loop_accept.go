package netloop

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

const (
	maxAccepts = 64  // of one listener in one round
	acceptRest = 100 // ms that accepting pauses when the host has no descriptor or memory
)

// accept takes what waits at a listener, up to a bound for the round; the level-triggered event comes again for the rest.
func (l *loop) accept(i int) {
	fd := l.lis[i]
	if fd < 0 || l.pausedTil != 0 {
		return
	}
	for range maxAccepts {
		if !l.acceptOne(i, fd) {
			return
		}
	}
}

// acceptOne reports whether there may be more.
func (l *loop) acceptOne(i, fd int) bool {
	nfd, remote, errno := sysAccept(fd)
	switch errno {
	case 0:
	case unix.EAGAIN:
		return false
	case unix.EINTR, unix.ECONNABORTED, unix.EPROTO, unix.EPERM, unix.ENETDOWN, unix.ENOPROTOOPT, unix.EHOSTDOWN, unix.ENONET,
		unix.EHOSTUNREACH, unix.EOPNOTSUPP, unix.ENETUNREACH:
		l.n.acceptErrors.Add(1) // of that one connection: accept(2) passes errors of the network on
		return true
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
		l.turnAway(fd)
		fallthrough
	default: // the queue stays as it is, and asking again at once would spin
		l.n.acceptErrors.Add(1)
		l.pauseAccepting()
		return false
	}
	l.n.accepted.Add(1)
	switch {
	case l.srv.cfg.AcceptRate > 0 && !l.bucket.Take(l.srv.nanos(), 1):
		l.n.refused[RefusedRate].Add(1)
		sysReset(nfd)
	case l.srv.conns.Add(1) > int64(l.srv.cfg.MaxConns):
		l.srv.conns.Add(-1)
		l.n.refused[RefusedConns].Add(1)
		sysReset(nfd)
	default:
		l.adopt(i, nfd, remote)
	}
	return true
}

func (l *loop) adopt(i int, fd int32, remote netip.AddrPort) {
	c := l.conns.take()
	if c == nil {
		l.srv.conns.Add(-1)
		l.n.refused[RefusedConns].Add(1)
		sysReset(fd)
		return
	}
	c.fd, c.listener, c.state = fd, uint8(i), stFirst
	c.pre = l.pre.take(remote)
	l.n.conns.Add(1)
	if err := sysCtl(l.waker.ep, unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN, int32(c.slot), c.gen); err != nil {
		l.n.acceptErrors.Add(1)
		l.kill(c)
		return
	}
	l.setDue(c, l.srv.cfg.HandshakeTimeout)
}

// turnAway uses the reserve to tell some clients that there is no room, who would wait in the queue otherwise.
func (l *loop) turnAway(fd int) {
	for range maxAccepts {
		if l.reserve < 0 {
			break
		}
		unix.Close(l.reserve)
		nfd, _, errno := sysAccept(fd)
		if errno == 0 {
			l.n.refused[RefusedDescriptors].Add(1)
			sysReset(nfd)
		}
		l.holdReserve()
		if errno != 0 {
			break
		}
	}
}

// holdReserve keeps one descriptor for turnAway, if there is one to be had.
func (l *loop) holdReserve() {
	l.reserve = -1
	if fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC); err == nil {
		l.reserve = fd
	}
}

func (l *loop) pauseAccepting() {
	if l.pausedTil == 0 {
		l.listen(0)
	}
	l.pausedTil = l.nowMs + acceptRest
}

func (l *loop) resumeAccepting() {
	l.pausedTil = 0
	if l.reserve < 0 {
		l.holdReserve()
	}
	l.listen(unix.EPOLLIN)
}

// listen says which events of the listeners are wanted.
func (l *loop) listen(events uint32) {
	for i, fd := range l.lis {
		if fd < 0 {
			continue
		}
		if err := sysCtl(l.waker.ep, unix.EPOLL_CTL_MOD, int32(fd), events, int32(i+1), 0); err != nil {
			l.n.acceptErrors.Add(1)
		}
	}
}

// addListener takes a listening socket over.
func (l *loop) addListener(fd int) error {
	l.lis = append(l.lis, fd)
	return sysCtl(l.waker.ep, unix.EPOLL_CTL_ADD, int32(fd), unix.EPOLLIN, int32(len(l.lis)), 0)
}

// stopListening empties the listen queues and closes the listeners: closing one with connections in its queue would reset them.
func (l *loop) stopListening() {
	for i, fd := range l.lis {
		if fd < 0 {
			continue
		}
		for n := 0; n < listenQueue && l.acceptOne(i, fd); n++ {
		}
		unix.Close(fd)
		l.lis[i] = -1
	}
	l.pausedTil = 0
}

// release frees what a loop holds apart from connections.
func (l *loop) release() {
	for i, fd := range l.lis {
		if fd >= 0 {
			unix.Close(fd)
			l.lis[i] = -1
		}
	}
	if l.reserve >= 0 {
		unix.Close(l.reserve)
		l.reserve = -1
	}
	l.waker.close()
}
