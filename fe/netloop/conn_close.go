package netloop

import (
	"golang.org/x/sys/unix"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/wsframe"
)

// Close implements [link.Loop].
func (l *loop) Close(h klink.Handle, code klink.Disconnect, reason string) {
	c := l.findHandle(h)
	if c == nil || c.state != stOpen {
		return
	}
	ws := uint16(code)
	if code == 0 {
		ws = wsframe.CodeNormal
	}
	l.end(c, link.CloseLocal, ws, reason)
}

// end closes an open connection from our side: what is corked or waits is sent first.
func (l *loop) end(c *conn, why link.CloseReason, ws uint16, reason string) {
	if c.state != stOpen {
		return
	}
	l.close(c, why)
	if c.has(fWS) {
		l.emit(c, wsframe.AppendClose(nil, ws, reason))
	} else {
		c.flags |= fDeaf
	}
	l.finish(c)
}

// leave ends an open connection that the client has ended. The handler hears of it in this round, whatever still has to be sent.
func (l *loop) leave(c *conn, why link.CloseReason) {
	l.close(c, why)
	l.tell(c)
	l.interest(c)
	l.finish(c)
}

// close makes an open connection one that is ending, for a bounded time.
func (l *loop) close(c *conn, why link.CloseReason) {
	c.state, c.why = stFlush, why
	l.setDue(c, l.srv.cfg.CloseGrace)
}

// finish takes an ending connection as far as its output allows: what waits is sent; a WebSocket client may answer the close frame;
// then close_notify and FIN go out, and the client's FIN is awaited, as the kernel would answer unread input with a reset that destroys
// what the client has not read yet.
func (l *loop) finish(c *conn) {
	if c.state != stFlush || c.out != 0 || l.corked == c {
		return // writable and uncork come back
	}
	l.tell(c)
	if c.has(fWS) && !c.has(fPeerClose|fNoRead|fDeaf) {
		return
	}
	if c.has(fTLS) && !c.has(fNotify) {
		l.closeNotify(c)
		if c.out != 0 || c.state != stFlush {
			return
		}
	}
	if c.has(fNoRead) || unix.Shutdown(int(c.fd), unix.SHUT_WR) != nil {
		l.kill(c)
		return
	}
	c.state = stLinger
}

// expire ends what has taken too long.
func (l *loop) expire(c *conn) {
	switch c.state {
	case stFirst, stUpgrade:
		l.refuse(c, RefusedTimeout)
	case stFlush:
		if !c.has(fTell) {
			c.why = link.CloseTimeout // what was to be sent is not sent
		}
		if c.out == 0 && c.has(fTLS) && !c.has(fNotify) {
			l.closeNotify(c)
		}
		l.kill(c)
	case stLinger:
		l.kill(c)
	case stFree, stHandshake, stOpen, stDead:
	}
}

// refuse ends a connection before it is open.
func (l *loop) refuse(c *conn, r Refusal) {
	l.n.refused[r].Add(1)
	l.kill(c)
}

// lost ends a connection that the network or the client has broken.
func (l *loop) lost(c *conn) {
	switch c.state {
	case stFirst, stUpgrade:
		l.n.refused[RefusedGone].Add(1)
	case stOpen:
		c.why = link.CloseReset
	default:
	}
	l.kill(c)
}

// broken ends a connection that this host can't serve.
func (l *loop) broken(c *conn) {
	if c.state == stOpen {
		c.why = link.CloseError
	}
	l.kill(c)
}

// kill ends a connection without a further word. Its descriptor, buffers and slot are freed at the end of the round: until then the
// records that callers up the stack hold stay valid, and nobody else gets the slot.
func (l *loop) kill(c *conn) {
	if c.state == stDead || c.state == stFree {
		return
	}
	c.state = stDead
	if c.has(fOpened) {
		c.flags |= fTell
	}
	l.list(c)
}

// tell makes OnClose due.
func (l *loop) tell(c *conn) {
	if c.has(fOpened) && !c.has(fTell) {
		c.flags |= fTell
		l.list(c)
	}
}

func (l *loop) list(c *conn) {
	if !c.has(fListed) {
		c.flags |= fListed
		l.ended = append(l.ended, c.slot)
	}
}

// reap calls what OnClose is due and frees what is dead. OnClose never comes from inside another call of the handler or the loop.
func (l *loop) reap() {
	for i := 0; i < len(l.ended); i++ { // OnClose may close others
		c := l.conns.at(l.ended[i])
		c.flags &^= fListed
		if c.has(fTell) && !c.has(fTold) {
			c.flags |= fTold
			l.n.open[c.transport].Add(-1)
			l.n.closed[c.why].Add(1)
			l.handler.OnClose(l.handle(c), c.why)
		}
		if c.state == stDead {
			l.free(c)
		}
	}
	l.ended = l.ended[:0]
}

// free gives back everything that a dead connection has. Only the loop closes a descriptor, and the slot's next connection has another
// generation, so that events, timers and handles of this one find nothing.
func (l *loop) free(c *conn) {
	unix.Close(int(c.fd))
	l.srv.conns.Add(-1)
	l.n.conns.Add(-1)
	if c.tls != 0 {
		if l.srv.retains() {
			l.kept.put(c.tls)
		} else {
			l.recs.at(c.tls).Wipe(l.cache, uint64(l.handle(c)))
			l.recs.put(c.tls)
		}
	}
	l.ins.drop(c.raw)
	l.ins.drop(c.in)
	l.ins.drop(c.msg)
	l.outs.drop(c.out)
	l.pre.drop(c.pre)
	l.conns.put(c)
}
