package netloop

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/crypto/tls13"
)

// handshake is one TLS handshake in flight. Its descriptor is lent by an I/O loop, which alone closes it.
type handshake struct {
	io        *loop
	slot, gen uint32 // of the connection there
	fd        int32
	first     []byte // read before it came here
	remote    netip.Addr
	due       int64 // ms

	id     uint32 // in byID, never 0
	h      *tls13.Handshake
	out    []byte // what the socket has not taken yet
	done   bool   // only out is left to be sent
	events uint32 // armed
	net    netip.Prefix
	older  *handshake // in hsLoop.stalled
	newer  *handshake
	listed bool
}

// hsLoop runs TLS handshakes, so that a signature never delays established connections. All fields but mailbox, waker and counters belong
// to its goroutine, which must not be locked to a thread (see tls13).
type hsLoop struct {
	srv   *Server
	tls   *tls13.Server
	waker waker

	mu     sync.Mutex
	posted []*handshake
	signed []uint32
	halt   bool
	gone   bool

	byID    map[uint32]*handshake
	nextID  uint32
	nets    map[netip.Prefix]int
	stalled handshakeList // those that wait for their client
	wheel   wheel
	nowMs   int64
	rbuf    []byte
	events  [maxEvents]unix.EpollEvent

	bytesIn, bytesOut atomic.Uint64
	refused           [NumRefusals]atomic.Uint64
}

func newHSLoop(s *Server, cfg *tls.Config) (*hsLoop, error) {
	srv, err := tls13.NewServer(cfg, s.cfg.Engine)
	if err != nil {
		return nil, err
	}
	l := &hsLoop{
		srv: s, tls: srv, byID: make(map[uint32]*handshake), nets: make(map[netip.Prefix]int), rbuf: make([]byte, 16<<10),
	}
	srv.OnSigned(func(h *tls13.Handshake) {
		l.mu.Lock()
		l.signed = append(l.signed, uint32(h.Owner))
		l.mu.Unlock()
		l.waker.wake()
	})
	return l, l.waker.open()
}

// post hands a handshake over. False: the loop has ended, or is so far behind that this one would only wait.
func (l *hsLoop) post(m *handshake) (r Refusal, ok bool) {
	l.mu.Lock()
	switch {
	case l.gone:
		r = RefusedShutdown
	case len(l.posted) >= max(1, l.srv.cfg.MaxHandshakes/len(l.srv.hs)):
		r = RefusedHandshakes
	default:
		l.posted = append(l.posted, m)
		ok = true
	}
	l.mu.Unlock()
	if ok {
		l.waker.wake()
	}
	return r, ok
}

func (l *hsLoop) stop() {
	l.mu.Lock()
	l.halt = true
	l.mu.Unlock()
	l.waker.wake()
}

func (l *hsLoop) run() error {
	defer l.finish()
	l.waker.own.Lock()
	for {
		n, errno := l.waker.wait(l.events[:], l.wheel.wait(l.nowMs))
		if errno != 0 {
			return fmt.Errorf("handshake loop: epoll_wait: %w", errno)
		}
		l.nowMs = l.srv.clock()
		for i := range l.events[:n] {
			l.event(&l.events[i])
		}
		l.mu.Lock()
		posted, signed, halt := l.posted, l.signed, l.halt
		l.posted, l.signed = nil, nil
		l.mu.Unlock()
		for _, m := range posted {
			l.begin(m)
		}
		for _, id := range signed {
			if m := l.byID[id]; m != nil {
				l.step(m, m.h.Resume)
			}
		}
		l.wheel.advance(l.nowMs, l.expire)
		if halt {
			return nil
		}
	}
}

// finish gives every connection back.
func (l *hsLoop) finish() {
	l.mu.Lock()
	l.gone = true
	posted := l.posted
	l.posted = nil
	l.mu.Unlock()
	for _, m := range posted {
		l.giveBack(m, RefusedShutdown, false)
	}
	for _, m := range l.byID {
		l.fail(m, RefusedShutdown)
	}
}

func (l *hsLoop) event(ev *unix.EpollEvent) {
	m := l.byID[uint32(ev.Pad)]
	if m == nil {
		return // the eventfd, or one that has ended in this round
	}
	if ev.Events&unix.EPOLLOUT != 0 {
		l.push(m)
		return
	}
	n, errno := sysRead(m.fd, l.rbuf)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
	case errno != 0 || n == 0 || m.done || m.h.Waiting(): // the latter two did not ask for input: an error woke them
		l.fail(m, RefusedGone)
	default:
		l.bytesIn.Add(uint64(n))
		l.step(m, func() (tls13.Status, error) { return m.h.Feed(l.rbuf[:n]) })
	}
}

// begin takes a handshake in, within the bounds.
func (l *hsLoop) begin(m *handshake) {
	if m.due <= l.nowMs { // it was posted long ago, and a signature for it would be wasted
		l.giveBack(m, RefusedTimeout, false)
		return
	}
	if r, ok := l.admit(m); !ok {
		l.giveBack(m, r, false)
		return
	}
	l.nextID++
	if l.nextID == 0 || l.byID[l.nextID] != nil {
		l.nextID = l.freeID()
	}
	m.id = l.nextID
	l.byID[m.id] = m
	m.h = l.tls.NewHandshake()
	m.h.Owner = uint64(m.id)
	l.wheel.add(m.due, uint64(m.id))
	first := m.first
	m.first = nil
	l.step(m, func() (tls13.Status, error) { return m.h.Feed(first) })
}

// freeID is the next id after a wrap, when old ones may still be in use.
func (l *hsLoop) freeID() uint32 {
	id := l.nextID
	for id == 0 || l.byID[id] != nil {
		id++
	}
	return id
}

// step runs the handshake on with what f gives it, sends what it has to say, and looks whether it has ended.
func (l *hsLoop) step(m *handshake, f func() (tls13.Status, error)) {
	st, err := f()
	out := m.h.Output()
	m.out = append(m.out, out...)
	switch {
	case err != nil:
		l.refuse(m)
		return
	case st == tls13.Done:
		m.done = true
		l.stalled.remove(m)
	case st == tls13.Waiting: // for us, not for the client
		l.stalled.remove(m)
	case !m.listed || len(out) > 0: // new, or it has come a step further
		l.stalled.remove(m)
		l.stalled.add(m)
	}
	l.push(m)
	runtime.Gosched() // a signature is long: let I/O loops in that wait for this processor
}

// push sends what waits, arms what is needed next, and hands the connection over when all is done.
func (l *hsLoop) push(m *handshake) {
	if !l.send(m) {
		l.fail(m, RefusedGone)
		return
	}
	if m.done && len(m.out) == 0 {
		l.handOver(m)
		return
	}
	var events uint32
	switch {
	case len(m.out) > 0:
		events = unix.EPOLLOUT
	case !m.h.Waiting():
		events = unix.EPOLLIN
	}
	if !l.arm(m, events) {
		l.fail(m, RefusedHandshake)
	}
}

// send reports false when the connection is lost.
func (l *hsLoop) send(m *handshake) bool {
	for len(m.out) > 0 {
		n, errno := sysSend(m.fd, m.out)
		switch errno {
		case 0:
			l.bytesOut.Add(uint64(n))
			m.out = m.out[n:]
		case unix.EINTR:
		case unix.EAGAIN, unix.ENOBUFS:
			return true
		default:
			return false
		}
	}
	m.out = nil
	return true
}

// arm puts the descriptor among the loop's events, or changes which are wanted; with none only errors are told.
func (l *hsLoop) arm(m *handshake, events uint32) bool {
	const armed = 1 << 30 // marks that the descriptor is there
	op := unix.EPOLL_CTL_MOD
	switch {
	case m.events == events|armed:
		return true
	case m.events == 0:
		op = unix.EPOLL_CTL_ADD
	}
	m.events = events | armed
	return sysCtl(l.waker.ep, op, m.fd, events, 0, m.id) == nil
}

// handOver moves descriptor and keys to the I/O loop. Nothing of the handshake can write afterwards.
func (l *hsLoop) handOver(m *handshake) {
	h := &handover{slot: m.slot, gen: m.gen, res: m.h.Result()}
	var err error
	if l.srv.retains() {
		h.retained, err = m.h.Conn()
	} else {
		h.left, err = m.h.Export(&h.rec)
	}
	if err != nil {
		l.fail(m, RefusedHandshake)
		return
	}
	l.drop(m)
	if !m.io.post(func() { m.io.receive(h) }) {
		h.rec.Wipe(nil, 0)
		unix.Close(int(m.fd)) // its owner is gone
	}
}

// refuse ends a handshake that has failed. Its alert is in out.
func (l *hsLoop) refuse(m *handshake) {
	parting := len(m.out) > 0 && l.send(m) && len(m.out) == 0
	l.drop(m)
	l.giveBack(m, RefusedHandshake, parting)
}

// fail ends a handshake without a word.
func (l *hsLoop) fail(m *handshake, r Refusal) {
	m.h.Abort()
	l.drop(m)
	l.giveBack(m, r, false)
}

// giveBack counts the refusal and returns the connection to its loop.
func (l *hsLoop) giveBack(m *handshake, r Refusal, parting bool) {
	l.refused[r].Add(1)
	if !m.io.post(func() { m.io.takeBack(m.slot, m.gen, parting) }) {
		unix.Close(int(m.fd)) // its owner is gone
	}
}

// drop takes the handshake out of this loop.
func (l *hsLoop) drop(m *handshake) {
	if m.events != 0 {
		_ = sysCtl(l.waker.ep, unix.EPOLL_CTL_DEL, m.fd, 0, 0, 0)
	}
	delete(l.byID, m.id)
	l.stalled.remove(m)
	l.discharge(m)
}

func (l *hsLoop) expire(key uint64) {
	m := l.byID[uint32(key)]
	switch {
	case m == nil:
	case m.due > l.nowMs:
		l.wheel.add(m.due, key)
	default:
		l.fail(m, RefusedTimeout)
	}
}

func (l *hsLoop) addTo(s *Stats) {
	s.BytesIn += l.bytesIn.Load()
	s.BytesOut += l.bytesOut.Load()
	s.Wakes += l.waker.writes.Load()
	for i := range l.refused {
		s.Refused[i] += l.refused[i].Load()
	}
	st := l.tls.Stats()
	s.TLS.Started += st.Started
	s.TLS.Done += st.Done
	s.TLS.Resumed += st.Resumed
	s.TLS.Active += st.Active
	for i := range st.Failed {
		s.TLS.Failed[i] += st.Failed[i]
	}
}
