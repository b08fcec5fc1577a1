package netloop

import (
	"golang.org/x/sys/unix"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
)

// Send implements [link.Loop]. A connection that is not blocked takes every frame: of what the kernel does not take the rest waits here,
// and of shared bytes that is no copy.
func (l *loop) Send(h klink.Handle, f *link.Frame) link.Result {
	c := l.findHandle(h)
	if c == nil {
		l.n.stale.Add(1)
		return link.Refused
	}
	if c.state != stOpen || c.out != 0 {
		return link.Refused
	}
	b := f.Bytes(c.form())
	if l.corked == c {
		if len(l.cork)+len(b) > corkSize {
			if l.flushCork(c); c.out != 0 || c.state != stOpen {
				return link.Refused
			}
		}
		if len(b) <= corkSize {
			l.cork = append(l.cork, b...)
			return link.Accepted
		}
	}
	l.write(c, b, true)
	switch {
	case c.state != stOpen:
		return link.Refused
	case c.out != 0:
		return link.Queued
	}
	return link.Accepted
}

// PendingBytes implements [link.Loop].
func (l *loop) PendingBytes(h klink.Handle) int {
	c := l.findHandle(h)
	if c == nil || c.has(fTold) {
		return 0
	}
	return l.outs.size(c.out)
}

// emit sends bytes of the transport's own, behind everything that was sent before.
func (l *loop) emit(c *conn, b []byte) {
	switch {
	case c.state == stDead || c.has(fNotify):
	case c.out != 0:
		if c.has(fTLS) {
			if !l.protect(c, b) {
				return
			}
			b = l.seal
		}
		l.outs.add(c.out, b)
	case l.corked == c:
		if len(l.cork)+len(b) > corkSize {
			l.flushCork(c)
			l.emitRest(c, b)
			return
		}
		l.cork = append(l.cork, b...)
	default:
		l.write(c, b, false)
	}
}

// emitRest is emit after the cork was flushed.
func (l *loop) emitRest(c *conn, b []byte) {
	if c.state == stDead {
		return
	}
	if c.out != 0 || len(b) <= corkSize {
		l.emit(c, b)
		return
	}
	l.write(c, b, false)
}

// write gives plaintext to the socket, sealed where there is TLS. Nothing may wait. The bytes of a record are sealed once and sent to
// their end.
func (l *loop) write(c *conn, b []byte, shared bool) {
	if c.has(fTLS) {
		if !l.protect(c, b) {
			return
		}
		b, shared = l.seal, false
	}
	l.transmit(c, b, shared)
}

// transmit gives bytes to the socket and keeps what it does not take.
func (l *loop) transmit(c *conn, b []byte, shared bool) {
	if len(b) == 0 {
		return
	}
	n, errno := sysSend(c.fd, b)
	l.hot.writes++
	l.yield()
	switch errno {
	case 0:
		l.hot.bytesOut += uint64(n)
	case unix.EAGAIN, unix.ENOBUFS, unix.EINTR:
		n = 0
	default:
		l.lost(c)
		return
	}
	if n < len(b) {
		l.hot.blocked++
		if l.outs.bytes+int64(len(b)-n) > l.srv.cfg.MaxOutputBytes {
			l.n.refused[RefusedOutput].Add(1)
			l.broken(c)
			return
		}
		c.out = l.outs.hold(b[n:], shared)
		l.interest(c)
	}
}

// interest tells epoll what the connection waits for, if that has changed.
func (l *loop) interest(c *conn) {
	if c.state == stDead || c.state == stHandshake {
		return
	}
	flags, events := c.flags&^(fOut|fMute), uint32(0)
	if c.out != 0 {
		flags |= fOut
		events |= unix.EPOLLOUT
	}
	if c.has(fNoRead) {
		flags |= fMute
	} else {
		events |= unix.EPOLLIN
	}
	if flags == c.flags {
		return
	}
	c.flags = flags
	if err := sysCtl(l.waker.ep, unix.EPOLL_CTL_MOD, c.fd, events, int32(c.slot), c.gen); err != nil {
		l.broken(c)
	}
}

// writable sends what waits, and then lets the handler go on.
func (l *loop) writable(c *conn) {
	for c.out != 0 && c.state != stDead {
		if !l.drain(c) {
			return
		}
	}
	switch c.state {
	case stOpen:
		l.handler.OnWritable(l.handle(c))
	case stFlush:
		l.finish(c)
	default:
	}
	l.interest(c)
}

// drain sends the next bytes of a blocked connection. False: the kernel takes no more now.
func (l *loop) drain(c *conn) bool {
	b := l.outs.next(c.out)
	if len(b) == 0 {
		pong, ok := l.outs.pong(c.out)
		l.outs.drop(c.out)
		c.out = 0
		if ok && !c.has(fNotify) {
			l.sendPong(c, pong[:])
		}
		if c.out == 0 && c.has(fTLS) {
			l.answerUpdate(c)
		}
		return true
	}
	n, errno := sysSend(c.fd, b)
	l.hot.writes++
	l.yield()
	switch errno {
	case 0:
		l.hot.bytesOut += uint64(n)
		l.outs.sent(c.out, n)
		return n == len(b)
	case unix.EAGAIN, unix.ENOBUFS, unix.EINTR:
	default:
		l.lost(c)
	}
	return false
}

// setCork begins to collect what is sent to a connection while its input is handled.
func (l *loop) setCork(c *conn) { l.corked, l.cork = c, l.cork[:0] }

// flushCork sends what was collected so far.
func (l *loop) flushCork(c *conn) {
	if len(l.cork) == 0 {
		return
	}
	b := l.cork
	l.cork = l.cork[:0]
	if c.state != stDead {
		l.write(c, b, false)
	}
}

// uncork ends that, and the connection too if its end has come meanwhile.
func (l *loop) uncork(c *conn) {
	l.corked = nil
	l.flushCork(c)
	if c.has(fTLS) {
		l.answerUpdate(c)
	}
	l.finish(c)
}
