package netloop

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crypto/tls13"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/limit"
	"github.com/klinkio/klink/proto/wsframe"
)

const (
	readSize  = 64 << 10
	corkSize  = 16 << 10 // one TLS record
	maxSeal   = 256 << 10
	maxEvents = 256
	sendYield = 128
)

// loop is one I/O loop. It implements [link.Loop]. All fields but mailbox, waker and counters belong to its goroutine.
type loop struct {
	srv     *Server
	index   int
	handler link.Handler
	waker   waker
	mail    mailbox
	n       counters

	lis       []int        // listening sockets by listener, -1: closed
	reserve   int          // a descriptor kept for when there is none, -1: used up
	pausedTil int64        // until when accepting rests, in ms; 0: it does not
	bucket    limit.Bucket // of AcceptRate

	conns  slab
	pre    preTable
	recs   recordSlab
	kept   retainedTable // connections of EngineStdlib
	cache  *tls13.Cache
	ins    inTable
	outs   outTable
	wheel  wheel
	ended  []uint32 // slots of connections that owe an OnClose or their end
	nextHS int

	nowMs    int64
	wait     int   // what OnRound answered
	sleepTil int64 // until when the goroutine sleeps, in ms; negative: for ever
	rounds   uint
	sends    int
	hot      hotCounters
	ending   bool // stop when the last connection is gone
	closed   bool // no new connections

	rbuf    []byte
	seal    []byte
	ctl     []byte // scratch for control frames
	cork    []byte // plaintext that leaves when the input of corked is consumed
	corked  *conn  // whose input is being handled, or nil
	feeding *conn  // whose retained connection is being fed
	feedFn  func([]byte)
	dueFn   func(uint64)
	upgrade wsframe.Upgrade
	events  [maxEvents]unix.EpollEvent
}

// mailbox is work for a loop from other goroutines; it is for rare things, as each costs a closure.
type mailbox struct {
	mu    sync.Mutex
	tasks []func()
	spare []func()
	gone  bool
}

func newLoop(s *Server, i int) (*loop, error) {
	l := &loop{
		srv: s, index: i, reserve: -1, cache: tls13.NewCache(max(0, s.cfg.AEADCache)),
		rbuf: make([]byte, readSize), cork: make([]byte, 0, corkSize),
	}
	l.feedFn, l.dueFn = l.feed, l.due
	if s.cfg.AcceptRate > 0 {
		n := float64(s.cfg.Loops)
		l.bucket = limit.NewBucket(s.cfg.AcceptRate/n, max(1, s.cfg.AcceptBurst/n))
	}
	if err := l.waker.open(); err != nil {
		return nil, err
	}
	l.holdReserve()
	l.handler = s.cfg.NewHandler(l)
	return l, nil
}

// Index implements [link.Loop].
func (l *loop) Index() int { return l.index }

// NowMs implements [link.Loop].
func (l *loop) NowMs() int64 { return l.nowMs }

// Wake implements [link.Loop].
func (l *loop) Wake() { l.waker.wake() }

// WakeHere implements [link.Loop].
func (l *loop) WakeHere() {
	if !l.waker.borrow() {
		l.waker.wake()
		return
	}
	l.nowMs = l.srv.clock()
	l.runMail()
	l.reap()
	l.wait = l.handler.OnRound(l.nowMs)
	ms := l.untilNext()
	late := ms >= 0 && (l.sleepTil < 0 || l.nowMs+int64(ms) < l.sleepTil)
	l.waker.giveBack()
	if late {
		l.waker.wake() // its goroutine sleeps longer than it may now
	}
}

// post runs f on the loop. It reports false when the loop has ended: then f does not run.
func (l *loop) post(f func()) bool {
	l.mail.mu.Lock()
	gone := l.mail.gone
	if !gone {
		l.mail.tasks = append(l.mail.tasks, f)
	}
	l.mail.mu.Unlock()
	if !gone {
		l.waker.wake()
	}
	return !gone
}

func (l *loop) runMail() {
	l.mail.mu.Lock()
	tasks := l.mail.tasks
	l.mail.tasks = l.mail.spare[:0]
	l.mail.mu.Unlock()
	for i, f := range tasks {
		tasks[i] = nil
		f()
	}
	l.mail.spare = tasks
}

func (l *loop) run() error {
	defer l.endAll()
	if n := len(l.srv.cfg.CPUs); n > 0 {
		if err := pin(l.srv.cfg.CPUs[l.index%n]); err != nil {
			return fmt.Errorf("loop %d: %w", l.index, err)
		}
	}
	l.waker.own.Lock()
	for !l.ending || l.conns.live() > 0 {
		if err := l.round(); err != nil {
			return fmt.Errorf("loop %d: %w", l.index, err)
		}
	}
	return nil
}

// round waits for events and handles them; then comes what is due, and last the handler's own work.
func (l *loop) round() error {
	ms := l.untilNext()
	if l.rounds++; ms != 0 || l.rounds%64 == 0 {
		l.publish()
	}
	if l.sleepTil = -1; ms >= 0 {
		l.sleepTil = l.nowMs + int64(ms)
	}
	n, errno := l.waker.wait(l.events[:], ms)
	if errno != 0 {
		return fmt.Errorf("epoll_wait: %w", errno)
	}
	l.hot.wakeups++
	l.nowMs = l.srv.clock()
	for i := range l.events[:n] {
		l.event(&l.events[i])
	}
	l.runMail()
	l.wheel.advance(l.nowMs, l.dueFn)
	if l.pausedTil != 0 && l.nowMs >= l.pausedTil {
		l.resumeAccepting()
	}
	l.reap()
	l.wait = l.handler.OnRound(l.nowMs)
	return nil
}

// untilNext is how long the loop may sleep, in ms; negative: for ever.
func (l *loop) untilNext() int {
	ms := l.wait
	if len(l.ended) > 0 || l.ending && l.conns.live() == 0 {
		return 0
	}
	if w := l.wheel.wait(l.nowMs); w >= 0 && (ms < 0 || w < ms) {
		ms = w
	}
	if l.pausedTil != 0 {
		if w := int(max(0, l.pausedTil-l.nowMs)); ms < 0 || w < ms {
			ms = w
		}
	}
	return ms
}

func (l *loop) event(ev *unix.EpollEvent) {
	slot, gen := uint32(ev.Fd), uint32(ev.Pad)
	if gen == 0 {
		if slot > 0 {
			l.accept(int(slot - 1))
		}
		return // 0 is the eventfd, which has done its work
	}
	c := l.conns.find(slot, gen)
	if c == nil || c.state == stHandshake {
		l.n.stale.Add(1)
		return
	}
	if ev.Events&unix.EPOLLOUT != 0 && c.out != 0 && c.state != stDead {
		l.writable(c)
	}
	if ev.Events&^unix.EPOLLOUT != 0 && c.state != stDead {
		l.readable(c)
	}
}

// setDue gives the connection its deadline, in place of the one it had; negative: none.
func (l *loop) setDue(c *conn, after time.Duration) {
	if after < 0 {
		c.due = 0
		return
	}
	at := l.nowMs + after.Milliseconds()
	c.due = max(1, uint32(at))
	l.wheel.add(at, c.key())
}

// due looks at a connection that was put into the wheel some time ago.
func (l *loop) due(key uint64) {
	c := l.conns.find(uint32(key>>32), uint32(key))
	if c == nil || c.due == 0 || c.state == stDead {
		return
	}
	if left := int32(c.due - uint32(l.nowMs)); left > 0 {
		l.wheel.add(l.nowMs+int64(left), key)
		return
	}
	l.expire(c)
}

// findHandle is the connection of a handle of this loop, or nil.
func (l *loop) findHandle(h klink.Handle) *conn {
	if h.Loop() != l.index {
		return nil
	}
	return l.conns.find(h.Slot(), h.Gen())
}

func (l *loop) handle(c *conn) klink.Handle {
	return klink.MakeHandle(uint8(l.index), c.slot, c.gen)
}

// shutdown closes the listeners and every connection.
func (l *loop) shutdown() {
	l.stopListening()
	l.closed = true
	for slot := range l.conns.used {
		c := l.conns.at(slot)
		switch c.state {
		case stFirst, stUpgrade:
			l.refuse(c, RefusedShutdown)
		case stOpen:
			l.end(c, link.CloseShutdown, uint16(klink.DisconnectShutdown), "the server stops")
		case stFree, stHandshake, stFlush, stLinger, stDead:
		}
	}
}

// endAll runs what came too late, so that nobody waits for it in vain, and ends what a loop that has failed still has.
func (l *loop) endAll() {
	l.mail.mu.Lock()
	l.mail.gone = true
	late := l.mail.tasks
	l.mail.tasks = nil
	l.mail.mu.Unlock()
	for _, f := range late {
		f()
	}
	for slot := range l.conns.used {
		if c := l.conns.at(slot); c.state != stHandshake { // that descriptor is lent
			l.broken(c)
		}
	}
	l.reap()
	l.publish()
}

// publish makes the loop's own counters visible.
func (l *loop) publish() {
	l.hot.publish(&l.n)
	l.n.inputBytes.Store(l.ins.used)
	l.n.outputBytes.Store(l.outs.bytes)
	if l.recs.used > 0 {
		st := l.cache.Stats()
		l.n.cacheHits.Store(st.Hits)
		l.n.cacheMisses.Store(st.Misses)
		l.n.cacheEvictions.Store(st.Evictions)
		l.n.cacheEntries.Store(int64(st.Entries))
	}
}

// yield lets other goroutines of this processor run after many system calls that did not.
func (l *loop) yield() {
	if l.sends++; l.sends >= sendYield {
		l.sends = 0
		runtime.Gosched()
	}
}

func pin(cpu int) error {
	runtime.LockOSThread() // for the loop's life: the affinity belongs to the thread
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to core %d: %w", cpu, err)
	}
	return nil
}
