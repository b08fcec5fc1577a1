package netloop

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
)

// byHand is a server with one loop that the test drives itself, round by round, with a clock that it moves. Its handler notes what it
// is told.
type byHand struct {
	*Server
	t testing.TB
	l *loop

	opened []klink.Handle
	infos  []link.Info
	closed map[klink.Handle]link.CloseReason
	msgs   []string // bodies that are not empty
	from   []klink.Handle
	ready  []klink.Handle
	alive  int
	onMsg  func(h klink.Handle, body []byte) // instead of the notes
}

func (b *byHand) OnOpen(h klink.Handle, in link.Info) {
	b.opened, b.infos = append(b.opened, h), append(b.infos, in)
}

func (b *byHand) OnMessage(h klink.Handle, body []byte) {
	switch {
	case b.onMsg != nil:
		b.onMsg(h, body)
	case len(body) > 0:
		b.msgs, b.from = append(b.msgs, string(body)), append(b.from, h)
	}
}

func (b *byHand) OnAlive(klink.Handle)      { b.alive++ }
func (b *byHand) OnWritable(h klink.Handle) { b.ready = append(b.ready, h) }
func (b *byHand) OnRound(int64) int         { return 0 } // never sleep

func (b *byHand) OnClose(h klink.Handle, why link.CloseReason) {
	if _, twice := b.closed[h]; twice {
		b.t.Error("OnClose was called twice")
	}
	b.closed[h] = why
}

func newByHand(t testing.TB, change func(*Config)) *byHand {
	t.Helper()
	cert, _ := testCert(t)
	b := &byHand{t: t, closed: map[klink.Handle]link.CloseReason{}}
	cfg := Config{
		Listeners: []Listener{{Addr: "127.0.0.1:0", Insecure: true}}, Loops: 1, HandshakeLoops: 1,
		TLS:        &tls.Config{Certificates: []tls.Certificate{cert}},
		NewHandler: func(link.Loop) link.Handler { return b },
	}
	if change != nil {
		change(&cfg)
	}
	srv, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.Server, b.l = srv, srv.loops[0]
	t.Cleanup(func() {
		for slot := range b.l.conns.used {
			b.l.kill(b.l.conns.at(slot))
		}
		b.l.reap()
		b.l.publish()
		if st := srv.Stats(); st.Conns != 0 || st.InputBytes != 0 || st.OutputBytes != 0 {
			t.Errorf("left at the end: %d connections, %d bytes of input, %d of output", st.Conns, st.InputBytes, st.OutputBytes)
		}
		srv.Close()
	})
	return b
}

func (b *byHand) round() {
	b.t.Helper()
	if err := b.l.round(); err != nil {
		b.t.Fatal(err)
	}
}

// until runs rounds until f holds.
func (b *byHand) until(what string, f func() bool) {
	b.t.Helper()
	for end := time.Now().Add(hangAfter); !f(); b.round() {
		if time.Now().After(end) {
			b.t.Fatalf("this never came: %s", what)
		}
	}
}

// pass lets time pass and runs a round then.
func (b *byHand) pass(d time.Duration) {
	b.t.Helper()
	b.start = b.start.Add(-d)
	b.round()
}

// connect makes a connection and waits until the loop has it.
func (b *byHand) connect(receiveBuffer int) *net.TCPConn {
	b.t.Helper()
	before := b.l.n.accepted.Load()
	c, err := dialTCP(b.Addrs()[0].String(), receiveBuffer)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	b.until("the connection is accepted", func() bool { return b.l.n.accepted.Load() > before })
	return c
}

// open makes a connection that is ready for frames.
func (b *byHand) open(receiveBuffer int) (*net.TCPConn, klink.Handle) {
	b.t.Helper()
	c := b.connect(receiveBuffer)
	n := len(b.opened)
	write(b.t, c, []byte{0})
	b.until("OnOpen", func() bool { return len(b.opened) > n })
	return c, b.opened[n]
}

func (b *byHand) conn(h klink.Handle) *conn { return b.l.conns.at(h.Slot()) }

func write(t testing.TB, w io.Writer, p []byte) {
	t.Helper()
	if _, err := w.Write(p); err != nil {
		t.Fatal(err)
	}
}

// block sends until the connection is blocked, and returns what it took.
func (b *byHand) block(h klink.Handle) (sent []byte) {
	b.t.Helper()
	for i := range 10_000 {
		f := link.NewFrame(bytes.Repeat([]byte{byte(i)}, 10_000))
		r := b.l.Send(h, f)
		if r != link.Refused {
			sent = append(sent, f.Bytes(link.FormStream)...)
		}
		if r != link.Accepted {
			return sent
		}
	}
	b.t.Fatal("it takes everything")
	return nil
}

// readAll reads to the end in the background.
func readAll(c io.Reader) <-chan []byte {
	got := make(chan []byte, 1) // the reader need not wait
	go func() {
		all, _ := io.ReadAll(c)
		got <- all
	}()
	return got
}
