package netloop

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/crypto/tls13"
	"github.com/klinkio/klink/fe/link"
)

// toHandshake lends the descriptor to a handshake loop, with the bytes that were read. It stays this loop's to close.
func (l *loop) toHandshake(slot uint32, c *conn, p []byte) {
	if l.stopping {
		l.kill(slot, c)
		return
	}
	if err := sysCtl(l.ep, unix.EPOLL_CTL_DEL, c.fd, 0, 0, 0); err != nil {
		l.lost(slot, c, link.CloseError)
		return
	}
	c.state = stHandshake
	m := &handshake{
		io: l, slot: slot, gen: c.gen, fd: c.fd, first: append([]byte(nil), p...),
		deadline: l.nowMs + l.srv.cfg.HandshakeTimeout.Milliseconds(),
	}
	if c.pre != 0 {
		m.remote = l.pre[c.pre-1].remote.Addr()
	}
	hs := l.srv.hs[l.nextHS%len(l.srv.hs)]
	l.nextHS++
	if !hs.post(m) {
		l.kill(slot, c)
	}
}

// handshakeFailed takes a connection back whose handshake did not succeed.
func (l *loop) handshakeFailed(slot, gen uint32, r Refusal) {
	if c := l.conns.find(slot, gen); c != nil && c.state == stHandshake {
		l.refuse(slot, c, r)
	}
}

// handshakeDone takes a connection back together with its keys. rec is copied and must be zeroed by the caller; retained is set
// with the other engine. left is ciphertext that came behind the client's Finished.
func (l *loop) handshakeDone(slot, gen uint32, res *tls13.Result, rec *tls13.Record, retained *tls13.Retained, left []byte) {
	c := l.conns.find(slot, gen)
	if c == nil || c.state != stHandshake {
		l.n.stale.Add(1)
		return
	}
	c.flags |= fTLS
	if retained != nil {
		l.retained[slot] = retained
	} else {
		c.tls = l.recs.take()
		*l.recs.at(c.tls) = *rec
	}
	if c.pre != 0 {
		l.pre[c.pre-1].resumed = res.Resumed
	}
	if res.Resumed {
		l.n.resumed.Add(1)
	}
	if l.stopping {
		l.kill(slot, c)
		return
	}
	if err := sysCtl(l.ep, unix.EPOLL_CTL_ADD, c.fd, inEvents, int32(slot), c.gen); err != nil {
		l.refuse(slot, c, RefusedHandshake)
		return
	}
	l.corked = slot + 1
	if res.ALPN == ALPN {
		l.speak(slot, c, nil, false)
	} else {
		c.state = stUpgrade // http/1.1, or a client without ALPN: its first bytes tell, see decrypted
		l.openBy.push(l.nowMs+l.srv.cfg.UpgradeTimeout.Milliseconds(), l.handle(slot, c))
		if res.ALPN == "" {
			c.flags |= fUndecided
		}
	}
	if len(left) > 0 || retained != nil {
		l.ciphertext(slot, c, left)
	}
	l.uncork(slot, c)
}

// ciphertext takes bytes of a connection that is under TLS.
func (l *loop) ciphertext(slot uint32, c *conn, p []byte) {
	if c.tls == 0 {
		l.retainedInput(slot, c, p)
		return
	}
	if c.raw == 0 {
		n := l.records(slot, c, p)
		if rest := p[n:]; len(rest) > 0 && c.wants() {
			total, _, _ := tls13.RecordLen(rest)
			l.keep(slot, c, &c.raw, rest, total)
		}
		return
	}
	c.raw = l.bufs.add(c.raw, p)
	b := l.bufs.get(c.raw)
	n := l.records(slot, c, b)
	if c.state == stFree || c.raw == 0 {
		return
	}
	if n == len(b) || !c.wants() {
		l.bufs.drop(c.raw)
		c.raw = 0
	} else if n > 0 {
		l.bufs.cut(c.raw, n)
	}
	l.checkInput(slot, c)
}

// records opens the whole records at the start of p, in place, and returns how many bytes they took.
func (l *loop) records(slot uint32, c *conn, p []byte) (n int) {
	key := uint64(l.handle(slot, c))
	for c.wants() {
		total, ok, err := tls13.RecordLen(p[n:])
		if err != nil {
			l.recordFailed(slot, c, err)
			return n
		}
		if !ok || len(p)-n < total {
			return n
		}
		r := l.recs.at(c.tls)
		ev, plain, err := r.Open(l.cache, key, p[n:n+total:n+total])
		n += total
		switch {
		case err != nil:
			l.recordFailed(slot, c, err)
			return n
		case ev == tls13.EventData:
			l.decrypted(slot, c, plain)
		case ev == tls13.EventCloseNotify:
			l.peerDone(slot, c)
			return n
		case ev == tls13.EventAlert:
			l.dieLater(slot, c, link.CloseReset)
			return n
		}
	}
	return n
}

// decrypted takes plaintext. A client that named no protocol is known by its first bytes.
func (l *loop) decrypted(slot uint32, c *conn, plain []byte) {
	if c.has(fUndecided) && len(plain) > 0 {
		c.flags &^= fUndecided
		if plain[0] != 'G' || (len(plain) > 1 && plain[1] != 'E') {
			l.speak(slot, c, plain, false)
			return
		}
	}
	l.plaintext(slot, c, plain)
}

func (l *loop) retainedInput(slot uint32, c *conn, p []byte) {
	r := l.retained[slot]
	closed, err := r.Feed(p, func(plain []byte) {
		if c.wants() {
			l.decrypted(slot, c, plain)
		}
	})
	switch {
	case c.state == stFree || c.state == stDead:
	case err != nil:
		l.recordFailed(slot, c, err)
	case closed:
		l.peerDone(slot, c)
	}
}

// peerDone is the client's close_notify.
func (l *loop) peerDone(slot uint32, c *conn) {
	if c.state == stOpen {
		l.end(slot, c, link.ClosePeer, 1000, "")
		return
	}
	l.n.refused[RefusedGone].Add(1)
	l.end(slot, c, link.ClosePeer, 0, "")
}

// recordFailed tells the client what was wrong with its record, in an alert, and ends.
func (l *loop) recordFailed(slot uint32, c *conn, err error) {
	alert := tls13.AlertInternalError
	if e, ok := errors.AsType[*tls13.Error](err); ok {
		alert = e.Alert
	}
	if l.corked == slot+1 {
		l.flushCork(slot, c)
	}
	if c.state == stDead {
		return
	}
	c.why, c.state = link.CloseProtocol, stFlush
	l.seal = l.seal[:0]
	if c.tls != 0 {
		if b, err := l.recs.at(c.tls).AppendAlert(l.cache, uint64(l.handle(slot, c)), l.seal, alert); err == nil {
			l.seal = b
		}
	} else {
		l.seal = l.retained[slot].AppendPending(l.seal)
	}
	l.finishTLS(slot, c)
}

// closeNotify ends our direction of the TLS connection; what it appends goes behind everything that waits.
func (l *loop) closeNotify(slot uint32, c *conn) {
	l.seal = l.seal[:0]
	var err error
	if c.tls != 0 {
		l.seal, err = l.recs.at(c.tls).AppendCloseNotify(l.cache, uint64(l.handle(slot, c)), l.seal)
	} else {
		l.seal, err = l.retained[slot].AppendCloseNotify(l.seal)
	}
	if err == nil && len(l.seal) > 0 {
		l.push(slot, c, l.seal, true)
	}
}

// finishTLS sends the last record of a connection and goes on to its FIN.
func (l *loop) finishTLS(slot uint32, c *conn) {
	if len(l.seal) > 0 {
		l.push(slot, c, l.seal, true)
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

// sealed protects plaintext into the loop's scratch buffer.
func (l *loop) sealed(slot uint32, c *conn, plain []byte) ([]byte, error) {
	var err error
	l.seal = l.seal[:0]
	if c.tls != 0 {
		l.seal, err = l.recs.at(c.tls).AppendSeal(l.cache, uint64(l.handle(slot, c)), l.seal, plain)
	} else {
		l.seal, err = l.retained[slot].AppendSeal(l.seal, plain)
	}
	return l.seal, err
}

// sealFailed ends a connection that can't be written to: its key is used up, or its write direction is closed.
func (l *loop) sealFailed(slot uint32, c *conn) { l.dieLater(slot, c, link.CloseError) }

// sendPending answers a KeyUpdate of the client when nothing else is about to be sent.
func (l *loop) sendPending(slot uint32, c *conn) {
	l.seal = l.seal[:0]
	if c.tls != 0 {
		r := l.recs.at(c.tls)
		if !r.Pending() {
			return
		}
		b, err := r.AppendPending(l.cache, uint64(l.handle(slot, c)), l.seal)
		if err != nil {
			l.sealFailed(slot, c)
			return
		}
		l.seal = b
	} else {
		r := l.retained[slot]
		if r == nil || !r.Pending() {
			return
		}
		l.seal = r.AppendPending(l.seal)
	}
	if len(l.seal) > 0 {
		l.push(slot, c, l.seal, true)
	}
}
