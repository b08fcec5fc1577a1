package netloop

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/crypto/tls13"
	"github.com/klinkio/klink/fe/link"
)

const (
	recordHeader = 5
	alpnHTTP     = "http/1.1"
)

// maxUnread bounds what a retained connection may owe to a client that does not read.
const maxUnread = 64 << 10

// handover is the end of a handshake, on its way back to the I/O loop.
type handover struct {
	slot, gen uint32
	res       tls13.Result
	rec       tls13.Record    // of EngineLoop: moved out and wiped on arrival
	retained  *tls13.Retained // of EngineStdlib
	left      []byte          // ciphertext that came behind the client's Finished
}

// toHandshake lends the descriptor to a handshake loop, with the bytes that were read. It stays this loop's to close.
func (l *loop) toHandshake(c *conn, p []byte) {
	if l.closed {
		l.refuse(c, RefusedShutdown)
		return
	}
	if err := sysCtl(l.waker.ep, unix.EPOLL_CTL_DEL, c.fd, 0, 0, 0); err != nil {
		l.broken(c)
		return
	}
	c.state = stHandshake
	m := &handshake{
		io: l, slot: c.slot, gen: c.gen, fd: c.fd, first: append([]byte(nil), p...),
		due: l.nowMs + int64(int32(c.due-uint32(l.nowMs))), remote: l.pre.at(c.pre).remote.Addr(),
	}
	l.setDue(c, -1) // the handshake loop has the deadline now
	hs := l.srv.hs[l.nextHS%len(l.srv.hs)]
	l.nextHS++
	if r, ok := hs.post(m); !ok {
		l.refuse(c, r)
	}
}

// takeBack is the arrival of a connection whose handshake did not succeed; it was counted. With parting there is something in the
// socket that the client should read.
func (l *loop) takeBack(slot, gen uint32, parting bool) {
	c := l.conns.find(slot, gen)
	if c == nil || c.state != stHandshake {
		l.n.stale.Add(1)
		return
	}
	if !parting || l.adoptAgain(c) != nil {
		l.kill(c)
		return
	}
	l.part(c)
}

// adoptAgain puts a descriptor that was lent back among the loop's events.
func (l *loop) adoptAgain(c *conn) error {
	c.state = stFirst
	return sysCtl(l.waker.ep, unix.EPOLL_CTL_ADD, c.fd, unix.EPOLLIN, int32(c.slot), c.gen)
}

// receive is the arrival of a connection with its keys. The record in m is moved out; no other copy of the keys stays behind.
func (l *loop) receive(m *handover) {
	defer func() { m.rec = tls13.Record{} }()
	c := l.conns.find(m.slot, m.gen)
	if c == nil || c.state != stHandshake {
		l.n.stale.Add(1)
		return
	}
	c.flags |= fTLS
	if m.retained != nil {
		c.tls = l.kept.take(m.retained)
	} else {
		c.tls = l.recs.take()
		*l.recs.at(c.tls) = m.rec
	}
	if m.res.Resumed {
		l.pre.at(c.pre).resumed = true
		l.n.resumed.Add(1)
	}
	if l.closed {
		l.refuse(c, RefusedShutdown)
		return
	}
	if err := l.adoptAgain(c); err != nil {
		l.broken(c)
		return
	}
	l.setCork(c)
	switch m.res.ALPN {
	case ALPN:
		l.openStream(c)
	case alpnHTTP:
		l.awaitRequest(c)
	default: // the first bytes tell
		l.setDue(c, l.srv.cfg.UpgradeTimeout)
	}
	if len(m.left) > 0 || m.retained != nil {
		l.ciphertext(c, m.left)
	}
	l.uncork(c)
}

// ciphertext takes bytes of a connection that is under TLS: it opens whole records where they are and keeps the rest.
func (l *loop) ciphertext(c *conn, p []byte) {
	if l.srv.retains() {
		l.retainedInput(c, p)
		return
	}
	for len(p) > 0 && c.state != stDead && c.state != stLinger && !c.has(fDeaf) {
		if c.raw != 0 {
			p = l.recordJoin(c, p)
			continue
		}
		total, ok, err := tls13.RecordLen(p)
		switch {
		case err != nil:
			l.badRecord(c, err)
			return
		case !ok || total > len(p):
			l.keep(c, &c.raw, p)
			return
		}
		l.record(c, p[:total:total])
		p = p[total:]
	}
}

// recordJoin completes the record of which a part was kept, with no more of p than it needs.
func (l *loop) recordJoin(c *conn, p []byte) (rest []byte) {
	kept := l.ins.get(c.raw)
	need := recordHeader
	if total, ok, _ := tls13.RecordLen(kept); ok {
		need = total
	}
	n := min(need-len(kept), len(p))
	if !l.keep(c, &c.raw, p[:n]) {
		return nil
	}
	kept = l.ins.get(c.raw)
	total, ok, err := tls13.RecordLen(kept)
	switch {
	case err != nil:
		l.badRecord(c, err)
		return nil
	case ok && len(kept) == total:
		l.record(c, kept)
		l.ins.drop(c.raw)
		c.raw = 0
	}
	return p[n:]
}

// record opens one record, in place, and handles what is in it.
func (l *loop) record(c *conn, rec []byte) {
	ev, plain, err := l.recs.at(c.tls).Open(l.cache, uint64(l.handle(c)), rec)
	switch {
	case err != nil:
		l.badRecord(c, err)
	case ev == tls13.EventData:
		l.feedTo(c, plain)
	case ev == tls13.EventCloseNotify:
		l.peerDone(c, c.peerEnd())
	case ev == tls13.EventAlert:
		l.peerDone(c, link.CloseReset)
	default: // a KeyUpdate is answered when the input is consumed
	}
}

// feed is feedTo for the connection that is being fed.
func (l *loop) feed(plain []byte) { l.feedTo(l.feeding, plain) }

func (l *loop) retainedInput(c *conn, p []byte) {
	l.feeding = c
	closed, err := l.kept.at(c.tls).Feed(p, l.feedFn)
	l.feeding = nil
	switch {
	case err != nil:
		l.badRecord(c, err)
	case closed:
		l.peerDone(c, c.peerEnd())
	}
}

// peerDone is the client's close_notify, or its alert. Its FIN is still to come.
func (l *loop) peerDone(c *conn, why link.CloseReason) {
	c.flags |= fDeaf
	switch c.state {
	case stOpen:
		l.leave(c, why)
	case stFlush:
		l.finish(c)
	case stFirst, stUpgrade:
		l.n.refused[RefusedGone].Add(1)
		l.part(c)
	default:
	}
}

// badRecord tells the client in an alert what was wrong with its record, behind all that was sent, and ends.
func (l *loop) badRecord(c *conn, err error) {
	if c.state == stDead || c.has(fNotify) {
		return
	}
	if l.corked == c {
		l.flushCork(c)
	}
	alert, why := tls13.AlertInternalError, link.CloseProtocol
	if e, ok := errors.AsType[*tls13.Error](err); ok {
		alert = e.Alert
		if e.Reason == tls13.ReasonPeerAlert {
			why = link.CloseReset
		}
	}
	c.flags |= fDeaf
	l.lastRecord(c, alert)
	switch c.state {
	case stOpen:
		l.leave(c, why)
	case stFirst, stUpgrade:
		l.n.refused[RefusedRecord].Add(1)
		l.part(c)
	case stFlush:
		l.finish(c)
	default:
	}
}

// closeNotify ends our direction of TLS.
func (l *loop) closeNotify(c *conn) { l.lastRecord(c, tls13.AlertCloseNotify) }

// lastRecord seals an alert: nothing can follow it.
func (l *loop) lastRecord(c *conn, alert tls13.Alert) {
	if c.state == stDead || c.has(fNotify) {
		return
	}
	c.flags |= fNotify
	var err error
	switch {
	case !l.srv.retains():
		l.seal, err = l.recs.at(c.tls).AppendAlert(l.cache, uint64(l.handle(c)), l.seal[:0], alert)
	case alert == tls13.AlertCloseNotify:
		l.seal, err = l.kept.at(c.tls).AppendCloseNotify(l.seal[:0])
	default: // crypto/tls has written its alert already
		l.seal = l.kept.at(c.tls).AppendPending(l.seal[:0])
	}
	if err == nil {
		l.sendSealed(c)
	}
}

// sendSealed sends what is in the scratch buffer, behind what waits.
func (l *loop) sendSealed(c *conn) {
	if c.out != 0 {
		l.outs.add(c.out, l.seal)
		return
	}
	l.transmit(c, l.seal, false)
}

// protect seals plaintext into the scratch buffer. False: it can't be, and the connection ends.
func (l *loop) protect(c *conn, plain []byte) bool {
	var err error
	if cap(l.seal) > maxSeal {
		l.seal = nil
	}
	if l.srv.retains() {
		l.seal, err = l.kept.at(c.tls).AppendSeal(l.seal[:0], plain)
	} else {
		l.seal, err = l.recs.at(c.tls).AppendSeal(l.cache, uint64(l.handle(c)), l.seal[:0], plain)
	}
	if err != nil {
		l.broken(c)
		return false
	}
	return true
}

// answerUpdate answers the client's KeyUpdates when nothing else is about to be sent that would carry the answer.
func (l *loop) answerUpdate(c *conn) {
	if c.state == stDead || c.state == stLinger || c.has(fNotify) {
		return
	}
	if l.srv.retains() {
		if r := l.kept.at(c.tls); r.Pending() {
			l.seal = r.AppendPending(l.seal[:0])
			if l.sendSealed(c); l.outs.size(c.out) > maxUnread {
				l.broken(c) // it asks for keys and does not read: crypto/tls writes an answer to each
			}
		}
		return
	}
	r := l.recs.at(c.tls)
	if !r.Pending() || c.out != 0 {
		return // AppendSeal or writable will
	}
	var err error
	if l.seal, err = r.AppendPending(l.cache, uint64(l.handle(c)), l.seal[:0]); err != nil {
		l.broken(c)
		return
	}
	l.transmit(c, l.seal, false)
}
