package netloop

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
)

// readable reads once: a full buffer comes again (level-triggered), and no connection keeps the loop from the others.
func (l *loop) readable(slot uint32, c *conn) {
	n, errno := sysRead(c.fd, l.rbuf)
	l.n.reads.Add(1)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return
	case errno != 0:
		l.lost(slot, c, link.CloseReset)
		return
	case n == 0:
		l.eof(slot, c)
		return
	}
	l.n.bytesIn.Add(uint64(n))
	if c.state == stFlush || c.state == stLinger {
		return // what comes after our end is not looked at
	}
	l.corked = slot + 1
	l.input(slot, c, l.rbuf[:n])
	l.uncork(slot, c)
}

// input takes bytes as they came from the socket.
func (l *loop) input(slot uint32, c *conn, p []byte) {
	switch {
	case c.state == stFirst:
		l.first(slot, c, p)
	case c.has(fTLS):
		l.ciphertext(slot, c, p)
	default:
		l.plaintext(slot, c, p)
	}
}

// first decides by the first bytes what the connection speaks.
func (l *loop) first(slot uint32, c *conn, p []byte) {
	p = l.joined(c, p)
	cfg := &l.srv.cfg.Listeners[c.listener]
	if rest, done := l.proxy(slot, c, p, cfg); done {
		p = rest
	} else {
		return
	}
	switch {
	case len(p) == 0:
		l.keepFirst(slot, c, p)
	case p[0] == 0x16 && (len(p) > 1 && p[1] == 3 || !cfg.Insecure):
		if !cfg.TLS {
			l.refuse(slot, c, RefusedTLS)
			return
		}
		l.toHandshake(slot, c, p)
	case !cfg.Insecure:
		l.refuse(slot, c, RefusedPlain)
	case len(p) < 2 && (p[0] == 0x16 || p[0] == 'G'):
		l.keepFirst(slot, c, p)
	default:
		l.speak(slot, c, p, p[0] == 'G' && p[1] == 'E')
	}
}

// joined is what was kept of the first bytes together with p, which stands at the start of the read buffer and is moved up there.
func (l *loop) joined(c *conn, p []byte) []byte {
	if c.in == 0 {
		return p
	}
	kept := l.bufs.get(c.in) // at most headroom: see keepFirst
	n := copy(l.rbuf[len(kept):cap(l.rbuf)], p) + len(kept)
	copy(l.rbuf[:len(kept)], kept)
	l.bufs.drop(c.in)
	c.in = 0
	return l.rbuf[:n:n]
}

// keepFirst keeps bytes that are too few to decide.
func (l *loop) keepFirst(slot uint32, c *conn, p []byte) {
	if len(p) > headroom {
		l.refuse(slot, c, RefusedProxyHeader)
		return
	}
	if len(p) > 0 {
		c.in = l.bufs.put(p, len(p))
	}
}

// speak goes on with plaintext: a WebSocket upgrade, or klink frames at once.
func (l *loop) speak(slot uint32, c *conn, p []byte, upgrade bool) {
	if upgrade {
		c.state = stUpgrade
		l.openBy.push(l.nowMs+l.srv.cfg.UpgradeTimeout.Milliseconds(), l.handle(slot, c))
	} else {
		c.transport = klink.TransportTCP
		if c.has(fTLS) {
			c.transport = klink.TransportTLS
		}
		l.open(slot, c)
	}
	l.plaintext(slot, c, p)
}

// open announces the connection.
func (l *loop) open(slot uint32, c *conn) {
	in := link.Info{Transport: c.transport, Form: c.form()}
	if c.pre != 0 {
		p := &l.pre[c.pre-1]
		in.Remote, in.Resumed = p.remote, p.resumed
	}
	l.dropPre(c)
	c.state = stOpen
	c.flags |= fOpened
	l.n.open[c.transport].Add(1)
	l.n.opened[c.transport].Add(1)
	l.handler.OnOpen(l.handle(slot, c), in)
}

// plaintext takes bytes after TLS, if there is any: it completes what was kept before, handles whole frames, and keeps the rest.
func (l *loop) plaintext(slot uint32, c *conn, p []byte) {
	if c.in == 0 {
		n, need := l.frames(slot, c, p)
		if rest := p[n:]; len(rest) > 0 && c.wants() {
			l.keep(slot, c, &c.in, rest, need)
		}
		return
	}
	c.in = l.bufs.add(c.in, p)
	b := l.bufs.get(c.in)
	n, _ := l.frames(slot, c, b)
	if c.state == stFree || c.in == 0 {
		return
	}
	switch {
	case n == len(b) || !c.wants():
		l.bufs.drop(c.in)
		c.in = 0
	case n > 0:
		l.bufs.cut(c.in, n)
	}
	l.checkInput(slot, c)
}

// wants reports whether the connection still takes input.
func (c *conn) wants() bool { return c.state == stOpen || c.state == stUpgrade || c.state == stFirst }

// keep puts the rest of an input into a buffer of the size that the frame will need, if that is known.
func (l *loop) keep(slot uint32, c *conn, ref *bufRef, rest []byte, need int) {
	*ref = l.bufs.put(rest, min(max(need, len(rest)), 4096))
	l.checkInput(slot, c)
}

// checkInput holds the partial input of all connections under its bound.
func (l *loop) checkInput(slot uint32, c *conn) {
	l.n.inputBytes.Store(l.bufs.used)
	if l.bufs.used > l.srv.cfg.MaxInputBytes && c.wants() {
		l.n.refused[RefusedMemory].Add(1)
		l.end(slot, c, link.CloseError, 1013, "the server's memory for partial input is used up")
	}
}

// frames handles the whole frames at the start of p and returns how many bytes they took, and how many the next needs.
func (l *loop) frames(slot uint32, c *conn, p []byte) (n, need int) {
	for n < len(p) && c.wants() {
		var took int
		switch {
		case c.state == stUpgrade:
			took = l.upgradeRequest(slot, c, p[n:])
		case c.has(fWS):
			took, need = l.message(slot, c, p[n:])
		default:
			took, need = l.streamFrame(slot, c, p[n:])
		}
		if took == 0 {
			break
		}
		n += took
	}
	return n, need
}

func (l *loop) streamFrame(slot uint32, c *conn, p []byte) (took, need int) {
	size, hdr, err := frame.Length(p, l.srv.cfg.MaxFrame)
	switch {
	case size < 0:
		return 0, 0
	case err != nil:
		l.badFrame(slot, c, err)
		return 0, 0
	case len(p) < hdr+size:
		return 0, hdr + size
	}
	l.handler.OnMessage(l.handle(slot, c), p[hdr:hdr+size:hdr+size])
	return hdr + size, 0
}

// badFrame ends a stream that can't go on, and says why in a Disconnect.
func (l *loop) badFrame(slot uint32, c *conn, err error) {
	why, code := link.CloseProtocol, klink.DisconnectProtocol
	if _, ok := errors.AsType[*frame.TooLarge](err); ok {
		why, code = link.CloseTooLarge, klink.DisconnectTooLarge
	}
	body := frame.AppendDisconnect(nil, &frame.Disconnect{Code: uint32(code), Reason: err.Error()})
	l.write(slot, c, binary.AppendUvarint(nil, uint64(len(body))))
	l.write(slot, c, body)
	l.end(slot, c, why, uint16(code), err.Error())
}

// eof is the client's FIN.
func (l *loop) eof(slot uint32, c *conn) {
	switch {
	case c.state == stLinger || c.state == stFlush && c.out == 0:
		l.kill(slot, c)
	case c.state == stFlush:
		// It may still read what waits; without EPOLLIN the event does not come again and again.
		c.flags |= fNoRead
		l.arm(slot, c)
	default:
		l.lost(slot, c, link.ClosePeer)
	}
}
