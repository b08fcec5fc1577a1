package netloop

import (
	"fmt"
	"net/netip"
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
	readSize   = 64 << 10
	headroom   = 2 << 10 // of the read buffer, for first bytes that were kept
	corkSize   = 16 << 10
	maxEvents  = 256
	maxAccepts = 64 // of one listener in one round
	sendYield  = 128
	acceptRest = 100 // ms that accepting pauses when the host has no descriptor or memory
	inEvents   = unix.EPOLLIN | unix.EPOLLRDHUP
)

// loop is one I/O loop. It implements [link.Loop]. All fields but box, waker and counters belong to its goroutine.
type loop struct {
	srv     *Server
	index   int
	ep      int
	wakeFD  int
	waker   waker
	handler link.Handler
	n       counters

	mu   sync.Mutex
	box  []func()
	gone bool // the goroutine has ended: nothing runs any more

	listeners []int // -1: closed
	paused    int64 // until when accepting rests, ms; 0: it does not
	bucket    limit.Bucket

	conns     slab
	recs      recordSlab
	cache     *tls13.Cache
	retained  map[uint32]*tls13.Retained
	bufs      bufTable
	pre       []preOpen
	preFree   []uint32
	openBy    deadlines // connections that must become ready
	closeBy   deadlines // connections that are ending
	dead      []uint32
	nowMs     int64
	sends     int
	rbuf      []byte
	seal      []byte
	cork      []byte
	corked    uint32 // slot+1 whose input is being handled
	upgrade   wsframe.Upgrade
	nextHS    int
	stopping  bool
	ending    bool
	events    [maxEvents]unix.EpollEvent
	taskSpare []func()
}

func newLoop(s *Server, i int) (*loop, error) {
	ep, wfd, err := newPoll()
	if err != nil {
		return nil, err
	}
	l := &loop{
		srv: s, index: i, ep: ep, wakeFD: wfd, cache: tls13.NewCache(max(0, s.cfg.AEADCache)), retained: make(map[uint32]*tls13.Retained),
		rbuf: make([]byte, readSize, readSize+headroom), seal: make([]byte, 0, 2*corkSize), cork: make([]byte, 0, 2*corkSize),
	}
	l.waker = waker{fd: wfd, writes: &l.n.wakes}
	if s.cfg.AcceptRate > 0 {
		n := float64(s.cfg.Loops)
		l.bucket = limit.NewBucket(s.cfg.AcceptRate/n, max(1, s.cfg.AcceptBurst/n))
	}
	l.handler = s.cfg.NewHandler(l)
	return l, nil
}

// Index implements [link.Loop].
func (l *loop) Index() int { return l.index }

// NowMs implements [link.Loop].
func (l *loop) NowMs() int64 { return l.nowMs }

// Wake implements [link.Loop].
func (l *loop) Wake() { l.waker.wake() }

// mail runs f on the loop. It reports false when the loop has ended: then f does not run.
func (l *loop) mail(f func()) bool {
	l.mu.Lock()
	gone := l.gone
	if !gone {
		l.box = append(l.box, f)
	}
	l.mu.Unlock()
	if !gone {
		l.waker.wake()
	}
	return !gone
}

func (l *loop) clock() int64 { return sinceMs(l.srv) }

// sinceMs is the clock of all loops: milliseconds since the server was made.
func sinceMs(s *Server) int64 { return time.Since(s.start).Milliseconds() }

func (l *loop) run() error {
	if n := len(l.srv.cfg.CPUs); n > 0 {
		if err := pin(l.srv.cfg.CPUs[l.index%n]); err != nil {
			return fmt.Errorf("loop %d: %w", l.index, err)
		}
	}
	for i, fd := range l.listeners {
		if err := sysCtl(l.ep, unix.EPOLL_CTL_ADD, int32(fd), unix.EPOLLIN, int32(i+1), 0); err != nil {
			return fmt.Errorf("loop %d: epoll: %w", l.index, err)
		}
	}
	defer l.finish()
	wait := 0
	for {
		n, errno := l.waker.wait(l.ep, l.events[:], wait)
		if errno != 0 {
			return fmt.Errorf("loop %d: epoll_wait: %w", l.index, errno)
		}
		l.n.wakeups.Add(1)
		l.nowMs = l.clock()
		for i := range l.events[:n] {
			l.event(&l.events[i])
		}
		l.runMail()
		l.expire()
		wait = l.handler.OnRound(l.nowMs)
		l.reap()
		if l.ending && l.n.conns.Load() == 0 {
			return nil
		}
		wait = l.untilNext(wait)
	}
}

func (l *loop) event(ev *unix.EpollEvent) {
	gen := uint32(ev.Pad)
	if gen == 0 {
		if ev.Fd == 0 {
			l.waker.drain()
		} else {
			l.accept(int(ev.Fd) - 1)
		}
		return
	}
	slot := uint32(ev.Fd)
	c := l.conns.find(slot, gen)
	if c == nil || c.state == stDead {
		l.n.stale.Add(1)
		return
	}
	if ev.Events&unix.EPOLLOUT != 0 {
		l.writable(slot, c)
	}
	if ev.Events&^unix.EPOLLOUT != 0 && c.gen == gen && c.state != stDead && c.state != stFree {
		l.readable(slot, c)
	}
}

func (l *loop) runMail() {
	l.mu.Lock()
	tasks := l.box
	l.box = l.taskSpare[:0]
	l.mu.Unlock()
	for i, f := range tasks {
		tasks[i] = nil
		f()
	}
	l.taskSpare = tasks
}

// untilNext is how long the loop may sleep: what the handler says, and the deadlines here.
func (l *loop) untilNext(wait int) int {
	if len(l.dead) > 0 {
		return 0
	}
	for _, at := range [...]int64{l.openBy.next(), l.closeBy.next(), l.paused} {
		if at > 0 {
			if d := int(max(1, at-l.nowMs)); wait < 0 || d < wait {
				wait = d
			}
		}
	}
	return wait
}

// expire ends what has taken too long and lets a pause of accepting end.
func (l *loop) expire() {
	for {
		h, ok := l.openBy.pop(l.nowMs)
		if !ok {
			break
		}
		if c := l.conns.find(h.Slot(), h.Gen()); c != nil && (c.state == stFirst || c.state == stUpgrade) {
			l.refuse(h.Slot(), c, RefusedTimeout)
		}
	}
	for {
		h, ok := l.closeBy.pop(l.nowMs)
		if !ok {
			break
		}
		if c := l.conns.find(h.Slot(), h.Gen()); c != nil && (c.state == stFlush || c.state == stLinger) {
			l.kill(h.Slot(), c)
		}
	}
	if l.paused != 0 && l.nowMs >= l.paused {
		l.resumeAccepting()
	}
}

// shutdown closes the listeners and every connection.
func (l *loop) shutdown() {
	l.stopping = true
	l.stopListening()
	for slot := range l.conns.used {
		c := l.conns.at(slot)
		switch c.state {
		case stFirst, stUpgrade:
			l.kill(slot, c)
		case stOpen:
			l.end(slot, c, link.CloseShutdown, uint16(klink.DisconnectShutdown), "the server stops")
		case stFree, stHandshake, stFlush, stLinger, stDead:
		}
	}
}

// finish marks the end of the goroutine; mail that came too late is dropped.
func (l *loop) finish() {
	l.mu.Lock()
	l.gone = true
	late := l.box
	l.box = nil
	l.mu.Unlock()
	for _, f := range late {
		f() // hand-overs must close their descriptors, waiters must be released
	}
	l.reap()
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

func (l *loop) handle(slot uint32, c *conn) klink.Handle {
	return klink.MakeHandle(uint8(l.index), slot, c.gen)
}

func (l *loop) takePre(remote netip.AddrPort) uint32 {
	if n := len(l.preFree); n > 0 {
		i := l.preFree[n-1]
		l.preFree = l.preFree[:n-1]
		l.pre[i] = preOpen{remote: remote}
		return i + 1
	}
	l.pre = append(l.pre, preOpen{remote: remote})
	return uint32(len(l.pre))
}

func (l *loop) dropPre(c *conn) {
	if c.pre != 0 {
		l.preFree = append(l.preFree, c.pre-1)
		c.pre = 0
	}
}
