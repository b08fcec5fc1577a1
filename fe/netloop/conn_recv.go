package netloop

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
	"github.com/klinkio/klink/proto/wsframe"
)

// firstRead bounds what is read of a connection before it is known what it speaks: a copy of that goes to a handshake loop.
const firstRead = 4 << 10

// readable reads once: what does not fit comes again (level-triggered), and no connection keeps the loop from the others.
func (l *loop) readable(c *conn) {
	if c.has(fNoRead) { // nothing was armed: the connection is broken
		l.kill(c)
		return
	}
	buf := l.rbuf
	if c.state == stFirst {
		buf = buf[:firstRead]
	}
	n, errno := sysRead(c.fd, buf)
	l.hot.reads++
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
	case errno != 0:
		l.lost(c)
	case n == 0:
		l.eof(c)
	case c.state == stLinger || c.has(fDeaf):
		l.hot.bytesIn += uint64(n)
	default:
		l.hot.bytesIn += uint64(n)
		l.setCork(c)
		if c.has(fTLS) {
			l.ciphertext(c, l.rbuf[:n])
		} else {
			l.feedTo(c, l.rbuf[:n])
		}
		l.uncork(c)
	}
}

// eof is the client's FIN.
func (l *loop) eof(c *conn) {
	c.flags |= fNoRead
	switch c.state {
	case stOpen:
		l.leave(c, c.peerEnd())
	case stFlush:
		l.interest(c)
		l.finish(c)
	case stFirst, stUpgrade:
		l.refuse(c, RefusedGone)
	default:
		l.kill(c)
	}
}

// peerEnd is what it means that the client ends an open connection now: in the middle of something it has not meant to.
func (c *conn) peerEnd() link.CloseReason {
	if c.in != 0 || c.raw != 0 || c.ws.InMessage() {
		return link.CloseReset
	}
	return link.ClosePeer
}

// feedTo takes plaintext that arrived: from the socket, or out of TLS.
func (l *loop) feedTo(c *conn, p []byte) {
	if c.in != 0 && (c.state == stFirst || c.state == stUpgrade) {
		// What is needed of these is short and comes once: it is put together and looked at again.
		if !l.keep(c, &c.in, p) {
			return
		}
		b := l.ins.detach(c.in)
		c.in = 0
		l.consume(c, b)
		l.ins.release(b)
		return
	}
	l.consume(c, p)
}

func (l *loop) consume(c *conn, p []byte) {
	for len(p) > 0 {
		switch c.state {
		case stFirst:
			p = l.first(c, p)
		case stUpgrade:
			p = l.request(c, p)
		case stOpen:
			if c.has(fWS) {
				p = l.wsInput(c, p)
			} else {
				p = l.streamInput(c, p)
			}
		case stFlush:
			if !c.has(fWS) || c.has(fDeaf|fPeerClose) {
				return
			}
			p = l.wsInput(c, p) // looks for the close frame
		default:
			return
		}
	}
}

// keep adds a copy of p to the connection's partial input. False: it would be too much of all connections together, and this one ends.
func (l *loop) keep(c *conn, ref *inRef, p []byte) bool {
	if l.ins.used+l.ins.growth(*ref, len(p)) > l.srv.cfg.MaxInputBytes {
		l.n.refused[RefusedMemory].Add(1)
		if c.state == stOpen {
			c.flags |= fDeaf
			l.end(c, link.CloseError, uint16(klink.DisconnectOverloaded), "no memory for partial input")
		} else {
			l.kill(c)
		}
		return false
	}
	*ref = l.ins.add(*ref, p)
	return true
}

// first decides by the first bytes what the connection speaks, and returns what comes behind what it took.
func (l *loop) first(c *conn, p []byte) (rest []byte) {
	cfg := &l.srv.cfg.Listeners[c.listener]
	switch kind := prefaceOf(p, c.has(fTLS)); kind {
	case prefaceShort:
		l.keep(c, &c.in, p)
		return nil
	case prefaceProxy:
		return l.proxy(c, p, cfg)
	case prefaceProxyText:
		l.refuse(c, RefusedProxyHeader)
		return nil
	case prefaceTLS:
		if !cfg.TLS {
			l.refuse(c, RefusedTLS)
			return nil
		}
		l.toHandshake(c, p)
		return nil
	default:
		if !c.has(fTLS) && !cfg.Insecure {
			l.refuse(c, RefusedPlain)
			return nil
		}
		if kind == prefaceHTTP {
			l.awaitRequest(c)
		} else {
			l.openStream(c)
		}
		return p
	}
}

// awaitRequest waits for the WebSocket upgrade.
func (l *loop) awaitRequest(c *conn) {
	c.state = stUpgrade
	l.setDue(c, l.srv.cfg.UpgradeTimeout)
}

func (l *loop) openStream(c *conn) {
	c.transport = klink.TransportTCP
	if c.has(fTLS) {
		c.transport = klink.TransportTLS
	}
	l.open(c)
}

// open announces the connection.
func (l *loop) open(c *conn) {
	pre := l.pre.at(c.pre)
	in := link.Info{Transport: c.transport, Form: c.form(), Remote: pre.remote, Resumed: pre.resumed}
	l.pre.drop(c.pre)
	c.pre = 0
	c.state = stOpen
	c.flags |= fOpened
	l.setDue(c, -1)
	l.n.open[c.transport].Add(1)
	l.n.opened[c.transport].Add(1)
	l.handler.OnOpen(l.handle(c), in)
}

// streamInput handles the frames in p, and returns what is left when the connection has ended.
func (l *loop) streamInput(c *conn, p []byte) (rest []byte) {
	h, limit := l.handle(c), l.srv.cfg.MaxFrame
	for len(p) > 0 && c.state == stOpen {
		if c.in != 0 {
			p = l.streamJoin(c, p)
			continue
		}
		size, hdr, err := frame.Length(p, limit)
		switch {
		case err != nil:
			l.badStream(c, err)
			return nil
		case size < 0 || hdr+size > len(p):
			l.keep(c, &c.in, p)
			return nil
		}
		end := hdr + size
		l.handler.OnMessage(h, p[hdr:end:end])
		p = p[end:]
	}
	return p
}

// streamJoin completes the frame of which a part was kept, with no more of p than it needs.
func (l *loop) streamJoin(c *conn, p []byte) (rest []byte) {
	limit := l.srv.cfg.MaxFrame
	kept := l.ins.get(c.in)
	size, hdr, err := frame.Length(kept, limit) // no error: it was looked at before
	need := 1                                   // of the length
	if size >= 0 {
		need = hdr + size - len(kept)
	}
	n := min(need, len(p))
	if !l.keep(c, &c.in, p[:n]) {
		return nil
	}
	kept = l.ins.get(c.in)
	if size < 0 {
		size, hdr, err = frame.Length(kept, limit)
	}
	switch {
	case err != nil:
		l.badStream(c, err)
		return nil
	case size >= 0 && len(kept) == hdr+size:
		l.handler.OnMessage(l.handle(c), kept[hdr:len(kept):len(kept)])
		l.ins.drop(c.in)
		c.in = 0
	}
	return p[n:]
}

// badStream ends a stream that can't go on.
func (l *loop) badStream(c *conn, err error) {
	if _, ok := errors.AsType[*frame.TooLarge](err); ok {
		l.fail(c, link.CloseTooLarge, wsframe.CodeTooBig, klink.DisconnectTooLarge, err.Error())
		return
	}
	l.fail(c, link.CloseProtocol, wsframe.CodeProtocol, klink.DisconnectProtocol, err.Error())
}

// fail ends a connection whose client broke a rule of framing. The Disconnect tells what the client should do about it, the code of
// the close frame what RFC 6455 demands.
func (l *loop) fail(c *conn, why link.CloseReason, ws uint16, code klink.Disconnect, reason string) {
	body := frame.AppendDisconnect(nil, &frame.Disconnect{Code: uint32(code), Reason: reason, Retry: code.Info().Retry})
	l.emit(c, link.AppendForm(nil, c.form(), body))
	c.flags |= fDeaf
	l.end(c, why, ws, reason)
}
