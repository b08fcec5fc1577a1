package netloop

import "net/netip"

// admit holds a new handshake against the bounds and counts it. One in flight costs about 23 KB, so there is a bound for all and one
// for each network; when all are taken, the one that has waited longest for its client makes room. Those that wait for a signature are
// not to blame and keep their place.
func (l *hsLoop) admit(m *handshake) (Refusal, bool) {
	cfg := &l.srv.cfg
	m.net = netOf(m.remote, cfg.countLoopback)
	if m.net.IsValid() && l.nets[m.net] >= max(1, cfg.MaxHandshakesPerNet/len(l.srv.hs)) {
		return RefusedNet, false
	}
	if l.srv.handshakes.Add(1) > int64(cfg.MaxHandshakes) {
		old := l.stalled.oldest
		if old == nil {
			l.srv.handshakes.Add(-1)
			return RefusedHandshakes, false
		}
		l.fail(old, RefusedHandshakes)
	}
	if m.net.IsValid() {
		l.nets[m.net]++
	}
	return 0, true
}

// discharge is the end of what admit has counted.
func (l *hsLoop) discharge(m *handshake) {
	l.srv.handshakes.Add(-1)
	if !m.net.IsValid() {
		return
	}
	if l.nets[m.net]--; l.nets[m.net] <= 0 {
		delete(l.nets, m.net)
	}
}

// netOf is the network that a client's handshakes are counted for: /24, /56 of IPv6. Loopback, where balancers and tests live, is none.
func netOf(a netip.Addr, countLoopback bool) netip.Prefix {
	if !a.IsValid() || a.IsLoopback() && !countLoopback {
		return netip.Prefix{}
	}
	bits := 24
	if a.Is6() {
		bits = 56
	}
	p, _ := a.WithZone("").Prefix(bits) // the width fits the address
	return p
}

// handshakeList is handshakes by the time of their last step.
type handshakeList struct {
	oldest, newest *handshake
}

func (q *handshakeList) add(m *handshake) {
	m.listed, m.older = true, q.newest
	if q.newest != nil {
		q.newest.newer = m
	} else {
		q.oldest = m
	}
	q.newest = m
}

// remove takes m out, if it is in.
func (q *handshakeList) remove(m *handshake) {
	if !m.listed {
		return
	}
	if m.older != nil {
		m.older.newer = m.newer
	} else {
		q.oldest = m.newer
	}
	if m.newer != nil {
		m.newer.older = m.older
	} else {
		q.newest = m.older
	}
	m.older, m.newer, m.listed = nil, nil, false
}
