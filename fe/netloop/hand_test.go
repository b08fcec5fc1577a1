package netloop

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
)

// TestLinger shows the end of a connection step by step: OnClose when our bytes are with the kernel, and never from inside Close; the
// descriptor lives until the client's FIN, and what still comes is thrown away without a reset.
func TestLinger(t *testing.T) {
	b := newByHand(t, nil)
	c, h := b.open(0)
	b.l.Close(h, klink.DisconnectMoved, "")
	if len(b.closed) != 0 {
		t.Fatal("OnClose came from inside Close")
	}
	b.round()
	if why, ok := b.closed[h]; !ok || why != link.CloseLocal {
		t.Fatalf("closed %v", b.closed)
	}
	if b.l.Send(h, link.NewFrame(nil)) != link.Refused || b.l.PendingBytes(h) != 0 {
		t.Error("a closed connection takes frames")
	}
	write(t, c, bytes.Repeat([]byte("late"), 10_000))
	if got, err := io.ReadAll(c); err != nil || len(got) != 0 {
		t.Fatalf("%q, %v", got, err)
	}
	read := b.l.hot.bytesIn
	b.until("what is late is read", func() bool { return b.l.hot.bytesIn >= read+40_000 })
	if b.l.conns.live() != 1 || len(b.msgs) != 0 {
		t.Fatalf("%d connections, messages %q", b.l.conns.live(), b.msgs)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b.until("it is freed", func() bool { return b.l.conns.live() == 0 })
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

// TestGraceByClock moves the clock over the grace: a client that does not read what waits for it is given up, and so is one that
// never sends its FIN.
func TestGraceByClock(t *testing.T) {
	b := newByHand(t, func(c *Config) { c.CloseGrace = 2 * time.Second })
	_, blocked := b.open(2048)
	b.block(blocked)
	_, idle := b.open(0)
	b.l.Close(blocked, klink.DisconnectSlow, "")
	b.l.Close(idle, klink.DisconnectSlow, "")
	b.pass(1500 * time.Millisecond)
	if len(b.closed) != 1 || b.closed[idle] != link.CloseLocal || b.l.conns.live() != 2 {
		t.Fatalf("before the grace is over: closed %v, %d connections", b.closed, b.l.conns.live())
	}
	b.pass(600 * time.Millisecond)
	if b.closed[blocked] != link.CloseTimeout || b.l.conns.live() != 0 {
		t.Errorf("closed %v, %d connections", b.closed, b.l.conns.live())
	}
}

// TestDeadlinesByClock moves the clock over the time that a connection has to become ready. One that is open has no deadline here.
func TestDeadlinesByClock(t *testing.T) {
	b := newByHand(t, func(c *Config) { c.HandshakeTimeout, c.UpgradeTimeout = 5*time.Second, 3*time.Second })
	silent := b.connect(0)
	half := b.connect(0)
	write(t, half, []byte("GET /connect HTTP/1.1\r\n"))
	b.until("the upgrade begins", func() bool { return b.l.ins.used > 0 })
	_, open := b.open(0)
	for _, step := range []struct {
		pass time.Duration
		want uint64
	}{{2 * time.Second, 0}, {1500 * time.Millisecond, 1}, {time.Second, 1}, {time.Second, 2}, {time.Hour, 2}, {50 * 24 * time.Hour, 2}} {
		b.pass(step.pass)
		if n := b.l.n.refused[RefusedTimeout].Load(); n != step.want {
			t.Fatalf("%d ended after another %v, want %d", n, step.pass, step.want)
		}
	}
	if b.l.conns.live() != 1 || len(b.closed) != 0 || b.l.Send(open, link.NewFrame(nil)) != link.Accepted {
		t.Errorf("an open connection has a deadline: %v", b.closed)
	}
	for _, c := range []*net.TCPConn{silent, half} {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the connection lives")
		}
	}
}

// TestMemoryOfInput: the bound of partial input ends connections, and those without partial input are not concerned.
func TestMemoryOfInput(t *testing.T) {
	b := newByHand(t, func(c *Config) { c.MaxInputBytes = 8 << 10 })
	_, other := b.open(0)
	var handles []klink.Handle
	for range 3 {
		c, h := b.open(0)
		handles = append(handles, h)
		before := b.l.hot.bytesIn
		write(t, c, append(binary.AppendUvarint(nil, 60_000), make([]byte, 3000)...))
		b.until("it is read", func() bool { return b.l.hot.bytesIn >= before+3003 })
	}
	b.until("the third is ended", func() bool { return len(b.closed) == 1 })
	if b.closed[handles[2]] != link.CloseError || b.l.n.refused[RefusedMemory].Load() != 1 {
		t.Errorf("closed %v, counted %d", b.closed, b.l.n.refused[RefusedMemory].Load())
	}
	if b.l.ins.used > 8<<10 {
		t.Errorf("%d bytes are used", b.l.ins.used)
	}
	if b.l.Send(other, link.NewFrame(nil)) != link.Accepted {
		t.Error("an idle connection is concerned")
	}
}

// TestMemoryOfOutput: the bound of unsent output ends the connection that goes over it, and no other.
func TestMemoryOfOutput(t *testing.T) {
	b := newByHand(t, func(c *Config) { c.MaxOutputBytes = 50_000 })
	_, first := b.open(2048)
	_, second := b.open(2048)
	f := link.NewFrame(make([]byte, 40_000))
	for b.l.Send(first, f) == link.Accepted {
	}
	if n := b.l.PendingBytes(first); n == 0 || n > 40_003 {
		t.Fatalf("%d bytes wait", n)
	}
	f = link.NewFrame(make([]byte, 4_000_000)) // more than the kernel takes
	if r := b.l.Send(second, f); r != link.Refused {
		t.Errorf("over the bound: %d", r)
	}
	b.round()
	if b.closed[second] != link.CloseError || len(b.closed) != 1 || b.l.n.refused[RefusedOutput].Load() != 1 {
		t.Errorf("closed %v, counted %d", b.closed, b.l.n.refused[RefusedOutput].Load())
	}
	if b.l.outs.bytes > 50_000 {
		t.Errorf("%d bytes wait in all", b.l.outs.bytes)
	}
}

// TestPartOfFrameIsCheap: a client that announces much and sends little costs little.
func TestPartOfFrameIsCheap(t *testing.T) {
	b := newByHand(t, nil)
	c, _ := b.open(0)
	write(t, c, append(binary.AppendUvarint(nil, 65_000), 'x'))
	b.until("it is read", func() bool { return b.l.ins.used > 0 })
	if b.l.ins.used > 64 {
		t.Errorf("4 bytes of a frame of 65,000 cost %d", b.l.ins.used)
	}
}

// TestBlockedShares: what waits for a plain connection is the frame's own bytes. OnWritable comes once when they are written.
func TestBlockedShares(t *testing.T) {
	b := newByHand(t, nil)
	c, h := b.open(2048)
	f := link.NewFrame(make([]byte, 60_000))
	sent := 1
	for b.l.Send(h, f) == link.Accepted {
		sent++
	}
	whole, held := f.Bytes(link.FormStream), b.l.outs.next(b.conn(h).out)
	if len(held) != b.l.PendingBytes(h) || len(held) == 0 || len(held) > len(whole) {
		t.Fatalf("%d bytes wait of %d, %d are told", len(held), len(whole), b.l.PendingBytes(h))
	}
	if &held[len(held)-1] != &whole[len(whole)-1] {
		t.Error("the frame was copied")
	}
	if b.l.Send(h, f) != link.Refused || b.l.PendingBytes(h) != len(held) {
		t.Error("a blocked connection took a frame")
	}
	got := readAll(c)
	b.until("OnWritable", func() bool { return len(b.ready) > 0 })
	if b.l.PendingBytes(h) != 0 || b.conn(h).has(fOut) {
		t.Error("it is told writable and still blocked")
	}
	b.l.Close(h, 0, "")
	b.round()
	if n := len(<-got); n != sent*len(whole) {
		t.Errorf("%d bytes came, want %d", n, sent*len(whole))
	}
	if len(b.ready) != 1 || b.ready[0] != h {
		t.Errorf("told writable: %v", b.ready)
	}
}

// TestSendToBroken: Send finds a broken connection, and OnClose comes later, from the loop.
func TestSendToBroken(t *testing.T) {
	b := newByHand(t, nil)
	c, h := b.open(0)
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for b.l.Send(h, link.NewFrame([]byte("x"))) != link.Refused { // loopback brings the reset at once, or soon
	}
	if len(b.closed) != 0 {
		t.Error("OnClose came from inside Send")
	}
	b.until("OnClose", func() bool { return len(b.closed) == 1 })
	if b.closed[h] != link.CloseReset || b.l.conns.live() != 0 {
		t.Errorf("closed %v, %d connections", b.closed, b.l.conns.live())
	}
}

// TestOneReadARound: one connection with much input does not keep the loop from another.
func TestOneReadARound(t *testing.T) {
	b := newByHand(t, nil)
	flood, fh := b.open(0)
	quiet, qh := b.open(0)
	counts := map[klink.Handle]int{}
	b.onMsg = func(h klink.Handle, _ []byte) { counts[h]++ }
	const frames = 400
	go func() {
		var in []byte
		for range frames {
			in = frame.AppendStream(in, make([]byte, 1000))
		}
		_, _ = flood.Write(in) // what does not come is missed below
	}()
	write(t, quiet, []byte("\x01q"))
	for end := time.Now().Add(hangAfter); counts[fh] < frames || counts[qh] < 1; {
		before := counts[fh]
		b.round()
		if n := counts[fh] - before; n > readSize/1002+1 { // one was begun before
			t.Fatalf("%d frames of one connection in a round", n)
		}
		if time.Now().After(end) {
			t.Fatalf("messages %v", counts)
		}
	}
}

// TestCloseInCallbacks closes connections, this one and others, in every callback.
func TestCloseInCallbacks(t *testing.T) {
	b := newByHand(t, nil)
	c1, h1 := b.open(0)
	c2, h2 := b.open(0)
	b.onMsg = func(h klink.Handle, _ []byte) {
		b.l.Send(h, link.NewFrame([]byte("bye")))
		b.l.Close(h1, 0, "")
		b.l.Close(h2, 0, "")
	}
	write(t, c1, []byte("\x01a\x01b\x01c"))
	b.until("both are closed", func() bool { return len(b.closed) == 2 })
	if got := <-readAll(c1); string(got) != "\x03bye" {
		t.Errorf("the first got %q", got)
	}
	if got := <-readAll(c2); len(got) != 0 {
		t.Errorf("the second got %q", got)
	}
}

// TestAcceptPauses: an error of the host makes the loop rest instead of spin, and it comes back.
func TestAcceptPauses(t *testing.T) {
	b := newByHand(t, nil)
	b.l.pauseAccepting()
	c, err := dialTCP(b.Addrs()[0].String(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 10 {
		b.round()
	}
	if n := b.l.n.accepted.Load(); n != 0 {
		t.Fatalf("%d accepted during the pause", n)
	}
	b.pass(acceptRest * time.Millisecond)
	b.until("accepting goes on", func() bool { return b.l.n.accepted.Load() == 1 })
}

// TestBothFamilies: an address without a host serves IPv4 and IPv6, and an IPv4 client has an IPv4 address.
func TestBothFamilies(t *testing.T) {
	b := newByHand(t, func(c *Config) { c.Listeners[0].Addr = ":0" })
	port := strconv.Itoa(b.Addrs()[0].(*net.TCPAddr).Port)
	for _, host := range []string{"127.0.0.1", "::1"} {
		c, err := dialTCP(net.JoinHostPort(host, port), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		n := len(b.opened)
		write(t, c, []byte{0})
		b.until("OnOpen", func() bool { return len(b.opened) > n })
		if got, want := b.infos[n].Remote.String(), c.LocalAddr().String(); got != want {
			t.Errorf("the client %s has the address %s", want, got)
		}
	}
}

func TestSlabGenerations(t *testing.T) {
	var s slab
	a := s.take()
	slot, gen := a.slot, a.gen
	if gen == 0 {
		t.Fatal("generation 0 is given out")
	}
	a.state = stOpen
	if s.find(slot, gen) != a || s.find(slot, gen+1) != nil || s.find(slot+1, 1) != nil {
		t.Fatal("find does not tell connections apart")
	}
	s.put(a)
	if s.find(slot, gen) != nil {
		t.Fatal("a free slot is found")
	}
	b := s.take()
	b.state = stOpen
	if b.slot != slot || b.gen == gen || s.find(slot, gen) != nil {
		t.Fatalf("the slot came back as %d/%d after %d/%d", b.slot, b.gen, slot, gen)
	}
	b.gen = 1<<32 - 1
	s.put(b)
	if c := s.take(); c.gen != 1 {
		t.Errorf("generation %d after the wrap, want 1", c.gen)
	}
}
