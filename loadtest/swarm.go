package loadtest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/loadtest/floor"
)

// MaxSessions is how many sessions one swarm, and one server, can hold: a process may open 20,000 descriptors in many places.
const MaxSessions = 18_000

const (
	swarmRead = 256 << 10
	tickMs    = 100 // between two looks at deadlines
)

// swarm is many client sessions on one event loop. All fields but those of dials belong to its goroutine.
type swarm struct {
	spec   *spec
	out    *lines
	orders orderReader
	key    auth.SigningKey
	issued time.Time

	ep     int
	all    []*session // by number, from spec.First
	byFD   []*session
	rbuf   []byte
	wbuf   []byte
	seal   []byte
	events [256]unix.EpollEvent

	dialing int // dials and logins that are not finished
	open    int
	asked   *order // that is not answered yet
	due     time.Time
	next    int // session that gets the next heartbeat
	beating int // heartbeats without an answer
	awaited uint64
	n       answer // the counts
	tls     *tls.Config
	dials   chan int // to the TLS dialers
	wake    int
	mu      sync.Mutex
	done    []dialled
}

// phase is how far a session is.
type phase uint8

const (
	phaseUpgrade   phase = iota // waits for the end of the answer to its upgrade
	phaseLogin                  // waits for Connected
	phaseSubscribe              // waits for Subscribed
	phaseLive
	phaseLost
)

// session is one client.
type session struct {
	fd      int32
	n       int32 // its number
	phase   phase
	beating bool
	crlf    uint8 // of the end of the upgrade's answer
	in, out *floor.Record
	part    []byte // of a record
	stream  floor.Stream
	ws      messages
}

// runSwarm serves orders until they end.
func runSwarm(s *spec, l *lines, in *os.File) error {
	w := &swarm{spec: s, out: l, rbuf: make([]byte, swarmRead), issued: time.Now()}
	w.orders = orderReader{in: in, do: w.order}
	if s.Max > MaxSessions {
		return fmt.Errorf("%d sessions are too many for one swarm", s.Max)
	}
	var err error
	if w.key, err = signer(s.Alg, s.Key); err != nil {
		return err
	}
	if w.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if err := w.watch(int(in.Fd()), unix.EPOLLIN, tagOrders); err != nil {
		return err
	}
	if s.Transport == "tls" || s.Transport == "wss" {
		if err := w.startDialers(); err != nil {
			return err
		}
	}
	if err := w.out.write(&answer{}); err != nil {
		return err
	}
	if err := w.run(); !errors.Is(err, errEnd) {
		return err
	}
	return nil
}

func clientTLS(ca string) (*tls.Config, error) {
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", ca)
	}
	return &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}}, nil
}

// What the Pad of an event says.
const (
	tagSession = iota
	tagOrders
	tagDialers
)

func (w *swarm) watch(fd int, events uint32, tag int32) error {
	return unix.EpollCtl(w.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd), Pad: tag})
}

func (w *swarm) run() error {
	for {
		wait := -1
		if w.asked != nil {
			wait = tickMs
		}
		n, err := unix.EpollWait(w.ep, w.events[:], wait)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for events: %w", err)
		}
		for i := range w.events[:max(n, 0)] {
			ev := &w.events[i]
			switch ev.Pad {
			case tagSession:
				w.read(int(ev.Fd))
			case tagOrders:
				if err := w.orders.ready(); err != nil {
					return err
				}
			case tagDialers:
				w.adoptDialled()
			}
		}
		if err := w.proceed(); err != nil {
			return err
		}
	}
}

// order begins an order. One is worked on at a time.
func (w *swarm) order(o *order) error {
	switch o.Op {
	case opConnect:
		if o.N > w.spec.Max {
			return w.reply(fmt.Sprintf("%d sessions are more than the %d that this swarm was made for", o.N, w.spec.Max))
		}
		w.n.LastErr = ""
	case opBeat:
		w.next, w.beating = 0, 0
	case opAwait:
		w.awaited += uint64(o.N)
	default:
		return w.reply(unknownOrder(o).Error())
	}
	w.asked = o
	w.due = time.Now().Add(time.Duration(o.TimeoutMs) * time.Millisecond)
	return nil
}

// proceed works on the order that was given, and answers it when it is done.
func (w *swarm) proceed() error {
	if w.asked == nil {
		return nil
	}
	done := false
	switch o := w.asked; o.Op {
	case opConnect:
		for w.dialing < w.spec.Window && len(w.all) < o.N {
			w.dial()
		}
		done = w.open >= o.N || len(w.all) >= o.N && w.dialing == 0
	case opBeat:
		for w.beating < w.spec.Window && w.next < len(w.all) {
			w.beat(w.all[w.next])
			w.next++
		}
		done = w.next >= len(w.all) && w.beating == 0
	case opAwait:
		done = w.n.Pushes >= w.awaited
	}
	switch {
	case done:
		return w.reply("")
	case time.Now().After(w.due):
		return w.reply(fmt.Sprintf("%s was not done in time: %d of %d sessions are open, %d are being made, %d pushes of %d came, %d connections were lost, %d frames refused something; last error: %s",
			w.asked.Op, w.open, len(w.all), w.dialing, w.n.Pushes, w.awaited, w.n.Lost, w.n.Refused, w.n.LastErr))
	}
	return nil
}

func (w *swarm) reply(text string) error {
	w.asked = nil
	a := w.n
	a.Sessions, a.Err = w.open, text
	return w.out.write(&a)
}

func (w *swarm) read(fd int) {
	if fd >= len(w.byFD) || w.byFD[fd] == nil {
		return
	}
	c := w.byFD[fd]
	n, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&w.rbuf[0])), uintptr(len(w.rbuf)))
	switch {
	case e == unix.EAGAIN || e == unix.EINTR:
	case e != 0:
		w.lose(c, e)
	case n == 0:
		w.lose(c, errClosed)
	case c.in != nil:
		w.records(c, w.rbuf[:n])
	default:
		w.plain(c, w.rbuf[:n])
	}
}

var errClosed = errors.New("the server closed a connection")

// lose forgets a session whose connection has ended.
func (w *swarm) lose(c *session, why error) {
	if w.byFD[c.fd] == nil {
		return
	}
	w.n.Lost++
	w.n.LastErr = why.Error()
	w.byFD[c.fd] = nil
	unix.Close(int(c.fd))
	if c.phase == phaseLive {
		w.open--
	} else {
		w.dialing--
	}
	c.phase = phaseLost
	if c.beating {
		c.beating = false
		w.beating--
	}
}

// records opens what arrived and keeps what is not a whole record.
func (w *swarm) records(c *session, b []byte) {
	if len(c.part) > 0 {
		c.part = append(c.part, b...)
		b = c.part
	}
	for {
		n := floor.RecordLen(b)
		if n == 0 || n > len(b) {
			break
		}
		kind, plain, err := c.in.Open(b[:n])
		if err == nil && kind == floor.RecordAlert {
			err = errClosed
		}
		if err != nil {
			w.lose(c, err)
			return
		}
		b = b[n:]
		if kind == floor.RecordData {
			w.plain(c, plain)
		}
	}
	if len(b) == 0 {
		c.part = nil
		return
	}
	c.part = append([]byte(nil), b...)
}

// plain takes bytes of the application.
func (w *swarm) plain(c *session, b []byte) {
	if c.phase == phaseUpgrade {
		if b = c.skipUpgrade(b); c.phase == phaseUpgrade {
			return
		}
		w.login(c)
	}
	ws := w.webSocket()
	for len(b) > 0 && c.phase != phaseLost {
		var kind uint8
		var done bool
		if ws {
			kind, done, b = c.ws.next(b)
		} else {
			kind, done, b = c.stream.Next(b)
		}
		if !done {
			return
		}
		w.frame(c, kind)
	}
}

// skipUpgrade takes bytes up to the empty line.
func (c *session) skipUpgrade(b []byte) []byte {
	for i, x := range b {
		if x == "\r\n\r\n"[c.crlf] {
			c.crlf++
		} else if c.crlf = 0; x == '\r' {
			c.crlf = 1
		}
		if c.crlf == 4 {
			c.phase = phaseLogin
			return b[i+1:]
		}
	}
	return nil
}

func (w *swarm) frame(c *session, kind uint8) {
	switch kind {
	case floor.KindPush:
		w.n.Pushes++
	case floor.KindBeat:
		w.n.Pongs++
		if c.beating {
			c.beating = false
			w.beating--
		}
	case floor.KindConnected:
		switch {
		case c.phase != phaseLogin:
		case w.spec.Apart:
			c.phase = phaseSubscribe
			w.subscribe(c)
		default:
			w.live(c)
		}
	case floor.KindSubscribed:
		if c.phase == phaseSubscribe {
			w.live(c)
		}
	case floor.KindGap:
		w.n.Gaps++
	case floor.KindError, floor.KindDisconnect, closeFrame:
		w.n.Refused++
	}
}

func (w *swarm) live(c *session) {
	c.phase = phaseLive
	w.dialing--
	w.open++
}

func (w *swarm) webSocket() bool { return w.spec.Transport == "ws" || w.spec.Transport == "wss" }
