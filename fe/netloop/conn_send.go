package netloop

import (
	"golang.org/x/sys/unix"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
)

// Send implements [link.Loop].
func (l *loop) Send(h klink.Handle, f *link.Frame) link.Result {
	slot := h.Slot()
	c := l.conns.find(slot, h.Gen())
	if c == nil {
		l.n.stale.Add(1)
		return link.Refused
	}
	if c.state != stOpen || c.flags&fOut != 0 {
		return link.Refused
	}
	b := f.Bytes(c.form())
	if l.corked == slot+1 {
		if len(l.cork)+len(b) <= corkSize {
			l.cork = append(l.cork, b...)
			return link.Accepted
		}
		if l.flushCork(slot, c); c.flags&fOut != 0 || c.state != stOpen {
			return link.Refused
		}
	}
	return l.write(slot, c, b)
}

// PendingBytes implements [link.Loop].
func (l *loop) PendingBytes(h klink.Handle) int {
	if c := l.conns.find(h.Slot(), h.Gen()); c != nil {
		return len(l.bufs.get(c.out))
	}
	return 0
}

// write sends plaintext, sealed where there is TLS. It must not be called while output waits, except to append to it.
func (l *loop) write(slot uint32, c *conn, b []byte) link.Result {
	if len(b) == 0 {
		return link.Accepted
	}
	if c.has(fTLS) {
		sealed, err := l.sealed(slot, c, b)
		if err != nil {
			l.sealFailed(slot, c)
			return link.Refused
		}
		return l.push(slot, c, sealed, true)
	}
	return l.push(slot, c, b, false)
}

// push gives bytes to the socket. What it does not take is kept; with whole (bytes that must not be made again) also when it took nothing.
func (l *loop) push(slot uint32, c *conn, b []byte, whole bool) link.Result {
	if c.out != 0 {
		l.keepOut(c, b)
		return link.Queued
	}
	n, errno := sysSend(c.fd, b)
	l.n.writes.Add(1)
	l.yield()
	switch {
	case errno == 0 && n == len(b):
		l.n.bytesOut.Add(uint64(n))
		return link.Accepted
	case errno == 0:
		l.n.bytesOut.Add(uint64(n))
	case errno == unix.EAGAIN || errno == unix.ENOBUFS || errno == unix.EINTR:
		n = 0
	default:
		l.dieLater(slot, c, link.CloseReset)
		return link.Refused
	}
	l.n.blocked.Add(1)
	c.flags |= fOut
	res := link.Refused
	if n > 0 || whole || l.corked == slot+1 || c.state != stOpen {
		l.keepOut(c, b[n:])
		res = link.Queued
	}
	l.arm(slot, c)
	return res
}

func (l *loop) keepOut(c *conn, b []byte) {
	c.out = l.bufs.add(c.out, b)
	l.n.outputBytes.Add(int64(len(b)))
}

// arm tells epoll what the connection waits for.
func (l *loop) arm(slot uint32, c *conn) {
	events := uint32(inEvents)
	if c.has(fNoRead) {
		events = 0
	}
	if c.has(fOut) {
		events |= unix.EPOLLOUT
	}
	if err := sysCtl(l.ep, unix.EPOLL_CTL_MOD, c.fd, events, int32(slot), c.gen); err != nil {
		l.dieLater(slot, c, link.CloseError)
	}
}

// writable sends what waits, and then lets the handler go on.
func (l *loop) writable(slot uint32, c *conn) {
	if c.out != 0 {
		b := l.bufs.get(c.out)
		n, errno := sysSend(c.fd, b)
		l.n.writes.Add(1)
		if errno == unix.EAGAIN || errno == unix.ENOBUFS || errno == unix.EINTR {
			return
		}
		if errno != 0 {
			l.lost(slot, c, link.CloseReset)
			return
		}
		l.n.bytesOut.Add(uint64(n))
		l.n.outputBytes.Add(-int64(n))
		if n < len(b) {
			l.bufs.cut(c.out, n)
			return
		}
		l.bufs.drop(c.out)
		c.out = 0
	}
	c.flags &^= fOut
	if c.state == stFlush {
		l.flushed(slot, c)
		return
	}
	l.arm(slot, c)
	if c.state == stOpen {
		l.handler.OnWritable(l.handle(slot, c))
	}
}

// flushCork sends what was corked while the connection's input was handled.
func (l *loop) flushCork(slot uint32, c *conn) {
	if len(l.cork) == 0 {
		return
	}
	b := l.cork
	l.cork = l.cork[:0]
	if c.state != stDead && c.state != stFree {
		l.write(slot, c, b)
	}
}

// uncork ends the handling of a connection's input.
func (l *loop) uncork(slot uint32, c *conn) {
	l.flushCork(slot, c)
	l.corked = 0
	if c.state == stOpen && c.has(fTLS) && c.out == 0 {
		l.sendPending(slot, c)
	}
}
