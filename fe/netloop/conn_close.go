package netloop

import (
	"golang.org/x/sys/unix"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/wsframe"
)

// Close implements [link.Loop].
func (l *loop) Close(h klink.Handle, code klink.Disconnect, reason string) {
	c := l.conns.find(h.Slot(), h.Gen())
	if c == nil || c.state != stOpen {
		return
	}
	ws := uint16(code)
	if code == 0 {
		ws = wsframe.CodeNormal
	}
	l.end(h.Slot(), c, link.CloseLocal, ws, reason)
}

// end closes a connection in order: what is corked or waits, the WebSocket close frame, close_notify, FIN; then it waits for the
// client's FIN, so that the kernel does not answer unread input with a reset that destroys what the client has not read yet.
func (l *loop) end(slot uint32, c *conn, why link.CloseReason, code uint16, reason string) {
	if c.state == stFlush || c.state == stLinger || c.state == stDead {
		return
	}
	if l.corked == slot+1 {
		l.flushCork(slot, c)
		if c.state == stDead {
			return
		}
	}
	c.why = why
	c.state = stFlush
	if c.has(fWS) && !c.has(fWSClose) {
		c.flags |= fWSClose
		l.write(slot, c, wsframe.AppendClose(nil, code, reason))
	}
	if c.state == stFlush && c.has(fTLS) {
		l.closeNotify(slot, c)
	}
	if c.state != stFlush {
		return
	}
	l.closeBy.push(l.nowMs+l.srv.cfg.CloseGrace.Milliseconds(), l.handle(slot, c))
	if c.out == 0 {
		c.flags &^= fOut
		l.flushed(slot, c)
	}
}

// flushed sends the FIN and waits for the client's.
func (l *loop) flushed(slot uint32, c *conn) {
	if c.has(fNoRead) || unix.Shutdown(int(c.fd), unix.SHUT_WR) != nil {
		l.dieLater(slot, c, c.why)
		return
	}
	c.state = stLinger
	l.arm(slot, c)
}

// refuse ends a connection before it is open.
func (l *loop) refuse(slot uint32, c *conn, r Refusal) {
	l.n.refused[r].Add(1)
	l.kill(slot, c)
}

// lost ends a connection that the client or the network ended.
func (l *loop) lost(slot uint32, c *conn, why link.CloseReason) {
	if c.state == stFirst || c.state == stUpgrade {
		l.n.refused[RefusedGone].Add(1)
	}
	if c.state == stOpen {
		c.why = why
	}
	if why == link.ClosePeer && c.has(fTLS) && c.state == stOpen {
		l.closeNotify(slot, c) // best effort: the client may read it
	}
	l.kill(slot, c)
}

// dieLater is for failures inside a call of the handler: OnClose must not come from inside its own Send or Close.
func (l *loop) dieLater(slot uint32, c *conn, why link.CloseReason) {
	if c.state == stDead || c.state == stFree {
		return
	}
	if c.state == stOpen {
		c.why = why
	}
	c.state = stDead
	l.dead = append(l.dead, slot)
}

// reap tears down what died during the round.
func (l *loop) reap() {
	for len(l.dead) > 0 {
		slot := l.dead[len(l.dead)-1]
		l.dead = l.dead[:len(l.dead)-1]
		if c := l.conns.at(slot); c.state == stDead {
			l.kill(slot, c)
		}
	}
}

// kill frees everything of a connection at once and tells the handler. Only the loop closes a descriptor, and the slot gets a new generation, so
// that events and handles of the old one find nothing.
func (l *loop) kill(slot uint32, c *conn) {
	h := l.handle(slot, c)
	opened, why := c.has(fOpened), c.why
	if l.corked == slot+1 {
		l.cork = l.cork[:0]
	}
	if c.fd >= 0 {
		unix.Close(int(c.fd))
		l.n.conns.Add(-1)
	}
	if c.tls != 0 {
		r := l.recs.at(c.tls)
		r.Wipe(l.cache, uint64(h))
		l.recs.put(c.tls)
	}
	delete(l.retained, slot)
	l.n.outputBytes.Add(-int64(len(l.bufs.get(c.out))))
	for _, ref := range [...]bufRef{c.raw, c.in, c.msg, c.out} {
		l.bufs.drop(ref)
	}
	l.n.inputBytes.Store(l.bufs.used)
	l.dropPre(c)
	if opened {
		l.n.open[c.transport].Add(-1)
		l.n.closed[why].Add(1)
	}
	l.conns.put(slot, c)
	if opened {
		l.handler.OnClose(h, why)
	}
}
