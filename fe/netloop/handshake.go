package netloop

import (
	"container/list"
	"crypto/tls"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/crypto/tls13"
)

// handshake is one TLS handshake in flight. Its descriptor is lent by an I/O loop, which alone closes it.
type handshake struct {
	io        *loop
	slot, gen uint32
	fd        int32
	first     []byte // read before it came here
	remote    netip.Addr
	deadline  int64

	h     *tls13.Handshake
	out   []byte // not taken by the socket yet
	done  bool   // only out is left to be sent
	armed bool   // EPOLLOUT
	id    uint32 // in the loop's table, never 0
	at    *list.Element
	net   netip.Prefix
}

// hsLoop runs TLS handshakes, so that a signature never delays established connections. All fields but box, waker, signed and
// counters belong to its goroutine.
type hsLoop struct {
	srv    *Server
	tls    *tls13.Server
	ep     int
	wakeFD int
	waker  waker

	mu     sync.Mutex
	box    []*handshake
	signed []*tls13.Handshake
	halt   bool
	gone   bool

	byID    map[uint32]*handshake
	nextID  uint32
	order   list.List // by age, so also by deadline
	nets    map[netip.Prefix]int
	rbuf    []byte
	events  [maxEvents]unix.EpollEvent
	refused [NumRefusals]atomic.Uint64
}

func newHSLoop(s *Server, _ int, cfg *tls.Config) (*hsLoop, error) {
	srv, err := tls13.NewServer(cfg, s.cfg.Engine)
	if err != nil {
		return nil, err
	}
	ep, wfd, err := newPoll()
	if err != nil {
		return nil, err
	}
	l := &hsLoop{
		srv: s, tls: srv, ep: ep, wakeFD: wfd, byID: make(map[uint32]*handshake), nets: make(map[netip.Prefix]int),
		rbuf: make([]byte, 16<<10),
	}
	l.waker = waker{fd: wfd}
	srv.OnSigned(func(h *tls13.Handshake) {
		l.mu.Lock()
		l.signed = append(l.signed, h)
		l.mu.Unlock()
		l.waker.wake()
	})
	return l, nil
}

// post hands a handshake over; false: the loop has ended.
func (l *hsLoop) post(m *handshake) bool {
	l.mu.Lock()
	gone := l.gone || l.halt
	if !gone {
		l.box = append(l.box, m)
	}
	l.mu.Unlock()
	if !gone {
		l.waker.wake()
	}
	return !gone
}

func (l *hsLoop) stop() {
	l.mu.Lock()
	l.halt = true
	l.mu.Unlock()
	l.waker.wake()
}

func (l *hsLoop) run() error {
	defer l.finish()
	for {
		n, errno := l.waker.wait(l.ep, l.events[:], l.untilNext())
		if errno != 0 {
			return fmt.Errorf("handshake loop: epoll_wait: %w", errno)
		}
		for i := range l.events[:n] {
			l.event(&l.events[i])
		}
		l.mu.Lock()
		box, signed, halt := l.box, l.signed, l.halt
		l.box, l.signed = nil, nil
		l.mu.Unlock()
		for _, m := range box {
			l.begin(m)
		}
		for _, h := range signed {
			if m := l.byID[uint32(h.Owner)]; m != nil && m.h == h {
				st, err := h.Resume()
				l.progress(m, st, err)
			}
		}
		l.expire()
		if halt {
			return nil
		}
	}
}

// finish gives every connection back.
func (l *hsLoop) finish() {
	l.mu.Lock()
	l.gone = true
	box := l.box
	l.box = nil
	l.mu.Unlock()
	for _, m := range box {
		m.io.mail(func() { m.io.handshakeFailed(m.slot, m.gen, RefusedGone) })
	}
	for l.order.Len() > 0 {
		l.fail(l.order.Front().Value.(*handshake), RefusedGone)
	}
}

func (l *hsLoop) event(ev *unix.EpollEvent) {
	if ev.Pad == 0 && ev.Fd == 0 {
		l.waker.drain()
		return
	}
	m := l.byID[uint32(ev.Pad)]
	if m == nil {
		return
	}
	if ev.Events&unix.EPOLLOUT != 0 && !l.flush(m) {
		return
	}
	if m.done {
		if len(m.out) == 0 {
			l.handOver(m)
		} else if ev.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			l.fail(m, RefusedGone)
		}
		return
	}
	if ev.Events&^unix.EPOLLOUT != 0 {
		l.read(m)
	}
}

// begin takes a handshake in, within the bounds.
func (l *hsLoop) begin(m *handshake) {
	cfg := &l.srv.cfg
	m.net = netOf(m.remote, cfg.countLoopback)
	if m.net.IsValid() && l.nets[m.net] >= max(1, cfg.MaxHandshakesPerNet/len(l.srv.hs)) {
		l.refused[RefusedNet].Add(1)
		l.giveBack(m)
		return
	}
	if l.srv.handshakes.Add(1) > int64(cfg.MaxHandshakes) && !l.evict() {
		l.srv.handshakes.Add(-1)
		l.refused[RefusedHandshakes].Add(1)
		l.giveBack(m)
		return
	}
	l.nextID++
	if l.nextID == 0 {
		l.nextID = 1
	}
	m.id = l.nextID
	m.h = l.tls.NewHandshake()
	m.h.Owner = uint64(m.id)
	l.byID[m.id] = m
	m.at = l.order.PushBack(m)
	if m.net.IsValid() {
		l.nets[m.net]++
	}
	if err := sysCtl(l.ep, unix.EPOLL_CTL_ADD, m.fd, inEvents, 0, m.id); err != nil {
		l.fail(m, RefusedHandshake)
		return
	}
	first := m.first
	m.first = nil
	st, err := m.h.Feed(first)
	l.progress(m, st, err)
}

// evict ends the oldest handshake here in favour of a new one; one that waits for a signature is not to blame.
func (l *hsLoop) evict() bool {
	for e := l.order.Front(); e != nil; e = e.Next() {
		if m := e.Value.(*handshake); !m.h.Waiting() && !m.done {
			l.refused[RefusedHandshakes].Add(1)
			l.drop(m)
			l.giveBack(m)
			return true
		}
	}
	return false
}

func (l *hsLoop) read(m *handshake) {
	n, errno := sysRead(m.fd, l.rbuf)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return
	case errno != 0 || n == 0:
		l.fail(m, RefusedGone)
		return
	}
	m.io.n.bytesIn.Add(uint64(n))
	st, err := m.h.Feed(l.rbuf[:n])
	l.progress(m, st, err)
}

// progress sends what the handshake has to say and looks whether it has ended.
func (l *hsLoop) progress(m *handshake, st tls13.Status, err error) {
	m.out = append(m.out, m.h.Output()...)
	if err != nil {
		l.flush(m) // the alert, as far as the socket takes it
		if l.byID[m.id] == m {
			l.fail(m, RefusedHandshake)
		}
		return
	}
	m.done = st == tls13.Done
	if l.flush(m) && m.done && len(m.out) == 0 {
		l.handOver(m)
	}
}

// flush sends what waits. It reports false when the connection was lost.
func (l *hsLoop) flush(m *handshake) bool {
	for len(m.out) > 0 {
		n, errno := sysSend(m.fd, m.out)
		if errno == unix.EAGAIN || errno == unix.ENOBUFS {
			break
		}
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			l.fail(m, RefusedGone)
			return false
		}
		m.io.n.bytesOut.Add(uint64(n))
		m.out = m.out[:copy(m.out, m.out[n:])]
	}
	if want := len(m.out) > 0; want != m.armed {
		m.armed = want
		events := uint32(inEvents)
		if m.done {
			events = 0 // what the client sends now belongs to the I/O loop
		}
		if want {
			events |= unix.EPOLLOUT
		}
		if sysCtl(l.ep, unix.EPOLL_CTL_MOD, m.fd, events, 0, m.id) != nil {
			l.fail(m, RefusedHandshake)
			return false
		}
	}
	return true
}

// handOver moves descriptor and keys to the I/O loop. Nothing of the handshake can write afterwards.
func (l *hsLoop) handOver(m *handshake) {
	res := m.h.Result()
	if l.srv.cfg.Engine == tls13.EngineStdlib {
		conn, err := m.h.Conn()
		if err != nil {
			l.fail(m, RefusedHandshake)
			return
		}
		l.drop(m)
		m.io.mail(func() { m.io.handshakeDone(m.slot, m.gen, &res, nil, conn, nil) })
		return
	}
	rec := new(tls13.Record)
	left, err := m.h.Export(rec)
	if err != nil {
		l.fail(m, RefusedHandshake)
		return
	}
	l.drop(m)
	m.io.mail(func() {
		m.io.handshakeDone(m.slot, m.gen, &res, rec, nil, left)
		*rec = tls13.Record{} // it was moved; no second copy of the keys stays behind
	})
}

func (l *hsLoop) fail(m *handshake, r Refusal) {
	m.h.Abort()
	l.drop(m)
	m.io.mail(func() { m.io.handshakeFailed(m.slot, m.gen, r) })
}

// giveBack returns a connection that was refused here, where the refusal was counted.
func (l *hsLoop) giveBack(m *handshake) {
	if m.h != nil {
		m.h.Abort()
	}
	m.io.mail(func() {
		if c := m.io.conns.find(m.slot, m.gen); c != nil && c.state == stHandshake {
			m.io.kill(m.slot, c)
		}
	})
}

// drop takes the handshake out of this loop.
func (l *hsLoop) drop(m *handshake) {
	_ = sysCtl(l.ep, unix.EPOLL_CTL_DEL, m.fd, 0, 0, 0)
	delete(l.byID, m.id)
	l.order.Remove(m.at)
	l.srv.handshakes.Add(-1)
	if m.net.IsValid() {
		if l.nets[m.net]--; l.nets[m.net] <= 0 {
			delete(l.nets, m.net)
		}
	}
}

func (l *hsLoop) expire() {
	now := sinceMs(l.srv)
	for e := l.order.Front(); e != nil; e = l.order.Front() {
		m := e.Value.(*handshake)
		if m.deadline > now {
			return
		}
		l.fail(m, RefusedTimeout)
	}
}

func (l *hsLoop) untilNext() int {
	e := l.order.Front()
	if e == nil {
		return -1
	}
	return int(max(1, e.Value.(*handshake).deadline-sinceMs(l.srv)))
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
	p, _ := a.Prefix(bits) // the width fits the address
	return p
}
