package netloop

import (
	"crypto/tls"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
)

// fanOut is a loop driven by hand with open connections, whose clients' sockets are drained without being understood.
type fanOut struct {
	*byHand
	handles []klink.Handle
	socks   []int
	buf     []byte
}

func newFanOut(t testing.TB, transport string, n int) *fanOut {
	t.Helper()
	f := &fanOut{
		byHand: newByHand(t, func(c *Config) { c.Listeners[0].TLS = true; c.SendBuffer = 256 << 10 }),
		buf:    make([]byte, 256<<10),
	}
	hs := f.hs[0]
	ended := make(chan error, 1) // it has nobody to wait for
	go func() { ended <- hs.run() }()
	t.Cleanup(func() {
		hs.stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for range n {
		c := f.connect(0)
		if transport == "tls" {
			ready := make(chan error, 1)
			go func() {
				ready <- tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{ALPN}}).Handshake()
			}()
			before := len(f.opened)
			f.until("TLS", func() bool { return len(f.opened) > before })
			if err := <-ready; err != nil {
				t.Fatal(err)
			}
		} else {
			before := len(f.opened)
			write(t, c, []byte{0})
			f.until("open", func() bool { return len(f.opened) > before })
		}
		f.socks = append(f.socks, rawFD(t, c))
	}
	f.handles = f.opened
	f.drain()
	return f
}

func rawFD(t testing.TB, c *net.TCPConn) (fd int) {
	t.Helper()
	rc, err := c.SyscallConn()
	if err == nil {
		err = rc.Control(func(p uintptr) { fd = int(p) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func (f *fanOut) drain() {
	for _, fd := range f.socks {
		for {
			if n, err := syscall.Read(fd, f.buf); n <= 0 || err != nil {
				break
			}
		}
	}
}

// turn sends the frame to every connection once.
func (f *fanOut) turn(fr *link.Frame) bool {
	for _, h := range f.handles {
		if f.l.Send(h, fr) != link.Accepted {
			return false
		}
	}
	return true
}

// TestSendAllocatesNothing is the strict half of TestEchoAllocatesNothing: not one allocation in a fan-out.
func TestSendAllocatesNothing(t *testing.T) {
	for _, tr := range []string{"tcp", "tls"} {
		f := newFanOut(t, tr, 8)
		fr := link.NewFrame(make([]byte, 100))
		f.turn(fr)
		if got := testing.AllocsPerRun(50, func() {
			if !f.turn(fr) {
				t.Fatal("a connection is blocked")
			}
		}); got != 0 {
			t.Errorf("%s: a fan-out to 8 connections made %v allocations", tr, got)
		}
	}
}

// TestReceiveAllocatesNothing reads frames, whole ones and parts, without an allocation.
func TestReceiveAllocatesNothing(t *testing.T) {
	b := newByHand(t, nil)
	c, _ := b.open(0)
	fd := rawFD(t, c)
	got := 0
	b.onMsg = func(klink.Handle, []byte) { got++ }
	in := append([]byte{100}, make([]byte, 100)...)
	send := func(p []byte) {
		before := b.l.hot.bytesIn
		if n, err := unix.Write(fd, p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
		for b.l.hot.bytesIn-before < uint64(len(p)) {
			if err := b.l.round(); err != nil {
				t.Fatal(err)
			}
		}
	}
	turn := func() {
		send(in)
		send(in[:40])
		send(in[40:])
	}
	turn()
	if n := testing.AllocsPerRun(50, turn); n != 0 {
		t.Errorf("two frames made %v allocations", n)
	}
	if got != 2*52 {
		t.Errorf("%d frames were read", got)
	}
}

// BenchmarkSend is one frame of 100 bytes to one connection: the system call, and with TLS one seal.
func BenchmarkSend(b *testing.B) {
	for _, tr := range []string{"tcp", "tls"} {
		b.Run(tr, func(b *testing.B) {
			f := newFanOut(b, tr, 64)
			fr := link.NewFrame(make([]byte, 100))
			b.ReportAllocs()
			turns := 0
			for i := 0; b.Loop(); i++ {
				if f.l.Send(f.handles[i%len(f.handles)], fr) != link.Accepted {
					b.Fatal("a connection is blocked")
				}
				if turns++; turns == 64*64 {
					turns = 0
					b.StopTimer()
					f.drain()
					b.StartTimer()
				}
			}
		})
	}
}
