package netloop

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// accept takes what waits at a listener, up to a bound for the round; the level-triggered event comes again for the rest.
func (l *loop) accept(i int) {
	fd := l.listeners[i]
	if fd < 0 {
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
	case unix.EINTR, unix.ECONNABORTED, unix.EPROTO:
		return true
	default:
		// EMFILE, ENFILE, ENOBUFS, ENOMEM: the queue stays as it is, and asking again at once would spin.
		l.n.acceptErrors.Add(1)
		l.pauseAccepting()
		return false
	}
	l.n.accepted.Add(1)
	switch {
	case l.srv.cfg.AcceptRate > 0 && !l.bucket.Take(time.Now().UnixNano(), 1):
		l.n.refused[RefusedRate].Add(1)
		unix.Close(int(nfd))
	case int(l.n.conns.Load()) >= l.maxConns():
		l.n.refused[RefusedConns].Add(1)
		unix.Close(int(nfd))
	default:
		l.adopt(i, nfd, remote)
	}
	return true
}

// maxConns is the loop's share of the bound; SO_REUSEPORT spreads connections evenly but not exactly, so loops may lend room to each other.
func (l *loop) maxConns() int {
	total := int64(0)
	for _, o := range l.srv.loops {
		total += o.n.conns.Load()
	}
	return int(int64(l.srv.cfg.MaxConns) - total + l.n.conns.Load())
}

func (l *loop) adopt(i int, fd int32, remote netip.AddrPort) {
	slot, c := l.conns.take()
	c.fd, c.listener, c.state = fd, uint8(i), stFirst
	c.pre = l.takePre(remote)
	l.n.conns.Add(1)
	if err := sysCtl(l.ep, unix.EPOLL_CTL_ADD, fd, inEvents, int32(slot), c.gen); err != nil {
		l.n.acceptErrors.Add(1)
		l.kill(slot, c)
		return
	}
	l.openBy.push(l.nowMs+l.srv.cfg.HandshakeTimeout.Milliseconds(), l.handle(slot, c))
}

func (l *loop) pauseAccepting() {
	if l.paused == 0 {
		for _, fd := range l.listeners {
			if fd >= 0 {
				_ = sysCtl(l.ep, unix.EPOLL_CTL_DEL, int32(fd), 0, 0, 0)
			}
		}
	}
	l.paused = l.nowMs + acceptRest
}

func (l *loop) resumeAccepting() {
	l.paused = 0
	for i, fd := range l.listeners {
		if fd >= 0 {
			if err := sysCtl(l.ep, unix.EPOLL_CTL_ADD, int32(fd), unix.EPOLLIN, int32(i+1), 0); err != nil {
				l.n.acceptErrors.Add(1)
				l.paused = l.nowMs + acceptRest
			}
		}
	}
}

// stopListening empties the listen queues and closes the listeners: closing one with connections in its queue would reset them.
func (l *loop) stopListening() {
	for i, fd := range l.listeners {
		if fd < 0 {
			continue
		}
		for n := 0; n < 4096 && l.acceptOne(i, fd); n++ {
		}
		unix.Close(fd)
		l.listeners[i] = -1
	}
	l.paused = 0
}
