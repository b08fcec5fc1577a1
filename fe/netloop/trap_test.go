package netloop

import (
	"bytes"
	"crypto/tls"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crypto/tls13"
	"github.com/klinkio/klink/fe/link"
)

// The traps are those of keeping TLS connections on an event loop. Those of the handshake and of the record layer alone are in
// crypto/tls13.

// TestTrap02_PartialWriteIsNotSealedAgain has the kernel take records in parts, again and again. A record that was sealed twice, or whose
// rest was lost, would not open at the client.
func TestTrap02_PartialWriteIsNotSealedAgain(t *testing.T) {
	for _, engine := range engines {
		ts := serve(t, func(c *Config) { c.SendBuffer, c.Engine = 4<<10, engine })
		body := bytes.Repeat([]byte("0123456789"), 6000)
		ts.onMessage(func(e *echo, h klink.Handle, _ []byte) bool {
			for range 40 {
				e.send(h, link.NewFrame(body))
			}
			return true
		})
		p := ts.dialSmall(t, "tls", 2048)
		if err := p.send([]byte("go")); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			if b, err := p.recv(); err != nil || !bytes.Equal(b, body) {
				t.Fatalf("frame %d: %d bytes, %v", i, len(b), err)
			}
		}
		if n := ts.Stats().Blocked; n < 20 {
			t.Errorf("only %d writes were taken in part", n)
		}
	}
}

// TestTrap02_BlockedTogether has several connections of one loop wait with sealed bytes at the same time. They are sealed in one scratch
// buffer, so what waits must be a copy.
func TestTrap02_BlockedTogether(t *testing.T) {
	for _, engine := range engines {
		ts := serve(t, func(c *Config) { c.Loops, c.SendBuffer, c.Engine = 1, 4<<10, engine })
		const clients = 4
		body := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 200_000) }
		ts.onMessage(func(e *echo, h klink.Handle, msg []byte) bool {
			e.send(h, link.NewFrame(body(int(msg[0]))))
			return true
		})
		var peers []peer
		for i := range clients {
			p := ts.dialSmall(t, []string{"tls", "wss"}[i%2], 2048)
			if err := p.send([]byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
			peers = append(peers, p)
		}
		eventually(t, "all are blocked", func() bool { return ts.Stats().Blocked == clients })
		for i := range peers { // the last is read first
			i = clients - 1 - i
			if b, err := peers[i].recv(); err != nil || !bytes.Equal(b, body(i)) {
				t.Errorf("client %d: %d bytes, %v", i, len(b), err)
			}
		}
	}
}

// TestTrap07_ReuseLeavesNothing ends a connection and looks at what it had: the record is wiped, the cache has forgotten its keys, partial
// input is gone, and the next connection of the slot has another generation.
func TestTrap07_ReuseLeavesNothing(t *testing.T) {
	ts := serve(t, func(c *Config) { c.Loops = 1 })
	for range 3 {
		p := ts.dial(t, "tls")
		roundTrip(t, p, "begin")
		if _, err := p.(*streamPeer).Write([]byte("\x64half")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "half a frame is kept", func() bool { return ts.Stats().InputBytes > 0 })
		e, h := ts.only(t)
		var ref uint32
		l := ts.loops[0]
		e.do(func() {
			ref = l.findHandle(h).tls
			if *l.recs.at(ref) == (tls13.Record{}) || l.cache.Stats().Entries != 1 {
				t.Error("a connection without keys")
			}
		})
		p.Close()
		eventually(t, "it is gone", func() bool { return ts.Stats().Conns == 0 })
		e.do(func() {
			c := l.conns.at(h.Slot())
			if *l.recs.at(ref) != (tls13.Record{}) || l.cache.Stats().Entries != 0 {
				t.Error("keys are left")
			}
			if *c != (conn{fd: -1, slot: h.Slot(), gen: h.Gen()}) || l.ins.used != 0 {
				t.Errorf("left of the connection: %+v", *c)
			}
		})
	}
}

// TestTrap08_SlowClientCostsARecord has clients that send nothing: no handshake exists for them. Those that stall later are given up by
// the deadline, and their coroutines end.
func TestTrap08_SlowClientCostsARecord(t *testing.T) {
	ts := serve(t, func(c *Config) { c.HandshakeTimeout = time.Second })
	routines := runtime.NumGoroutine()
	for range 50 {
		ts.tcp(t, 0)
	}
	eventually(t, "all are accepted", func() bool { return ts.Stats().Conns == 50 })
	if st := ts.Stats(); st.TLS.Started != 0 || st.Handshaking != 0 || runtime.NumGoroutine() > routines {
		t.Errorf("%d handshakes, %d goroutines, %d before", st.TLS.Started, runtime.NumGoroutine(), routines)
	}
	for range 20 {
		ts.stalled(t)
	}
	if n := runtime.NumGoroutine(); n < routines+20 {
		t.Errorf("%d goroutines with 20 handshakes, %d before: coroutines are not counted, and the next check is none", n, routines)
	}
	ts.refusal(t, RefusedTimeout, 70)
	eventually(t, "the coroutines have ended", func() bool { return runtime.NumGoroutine() <= routines })
}

// TestTrap10_RecordsNeverMove grows the slabs under pointers into them.
func TestTrap10_RecordsNeverMove(t *testing.T) {
	var conns slab
	var recs recordSlab
	first, ref := conns.take(), recs.take()
	rec := recs.at(ref)
	first.fd = 77
	for range 10 * slabSize {
		conns.take().fd = 1
		recs.take()
	}
	if conns.at(first.slot) != first || recs.at(ref) != rec || first.fd != 77 {
		t.Error("a record has moved")
	}
	gens := map[uint64]bool{}
	for range 5 {
		c := conns.take()
		if gens[c.key()] || c.gen == 0 {
			t.Errorf("slot %d generation %d again", c.slot, c.gen)
		}
		gens[c.key()] = true
		conns.put(c)
	}
	last := conns.take()
	last.gen = ^uint32(0) // the next would be 0, which is no generation
	conns.put(last)
	if c := conns.take(); c != last || c.gen != 1 || conns.find(c.slot, 0) != nil {
		t.Errorf("after a wrap the generation is %d", c.gen)
	}
}

// TestTrap11_PlaintextIsCopiedIfKept cuts frames over records of many connections of one loop, whose input all goes through one buffer.
func TestTrap11_PlaintextIsCopiedIfKept(t *testing.T) {
	for _, engine := range engines {
		ts := serve(t, func(c *Config) { c.Loops, c.Engine = 1, engine })
		const clients = 8
		var peers []*streamPeer
		for range clients {
			peers = append(peers, ts.dial(t, "tls").(*streamPeer))
		}
		body := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 50000) }
		for step := range 5 { // each client sends a fifth of its frame, as a record of its own
			for i, p := range peers {
				frame := append([]byte{0xd0, 0x86, 3}, body(i)...)
				n := len(frame)/5 + 1
				if _, err := p.Write(frame[step*n : min(len(frame), (step+1)*n)]); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, p := range peers {
			if b, err := p.recv(); err != nil || !bytes.Equal(b, body(i)) {
				t.Errorf("client %d: %d bytes, %v", i, len(b), err)
			}
		}
	}
}

// TestTrap12_FinBehindData sends much and closes at once: all of it is read before the end is told, and a client of TLS gets a
// close_notify, not a bare FIN.
func TestTrap12_FinBehindData(t *testing.T) {
	forAll(t, nil, func(t *testing.T, ts *testServer, tr string) {
		const frames = 300
		var mu sync.Mutex
		got := 0
		ts.onMessage(func(_ *echo, _ klink.Handle, body []byte) bool {
			mu.Lock()
			defer mu.Unlock()
			if !bytes.Equal(body, numbered(got)) {
				t.Errorf("frame %d is not what was sent", got)
			}
			got++
			return true
		})
		c := ts.tcp(t, 0)
		p, err := ts.upon(c, tr)
		if err != nil {
			t.Fatal(err)
		}
		for i := range frames {
			if err := p.send(numbered(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		ts.ended(t, link.ClosePeer, 1)
		if mu.Lock(); got != frames {
			t.Errorf("%d of %d frames were read", got, frames)
		}
		mu.Unlock()
		if s, ok := p.(*streamPeer); ok {
			if _, err := s.recv(); err != io.EOF {
				t.Errorf("the end is %v", err)
			}
		}
	})
}

// TestTrap14_NothingBlocks looks at every descriptor of the loops, and has others go on beside clients that are stuck.
func TestTrap14_NothingBlocks(t *testing.T) {
	ts := serve(t, func(c *Config) { c.Loops, c.SendBuffer = 1, 4<<10 })
	big := link.NewFrame(large)
	ts.onMessage(func(e *echo, h klink.Handle, body []byte) bool {
		if string(body) == "stick" {
			e.loop.Send(h, big)
			return true
		}
		return false
	})
	for range 5 {
		for _, tr := range transports {
			p := ts.dialSmall(t, tr, 2048)
			if err := p.send([]byte("stick")); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "all are stuck", func() bool {
		st := ts.Stats()
		return st.Open[klink.TransportTCP]+st.Open[klink.TransportTLS]+st.Open[klink.TransportWS]+st.Open[klink.TransportWSS] == 20 &&
			st.OutputBytes > 20*int64(len(large))/2
	})
	ts.stalled(t)
	for _, tr := range transports {
		p := ts.dial(t, tr)
		for range 20 {
			roundTrip(t, p, "others go on")
		}
	}
	ts.echoes[0].do(func() {
		l := ts.loops[0]
		fds := append([]int{l.waker.event}, l.lis...)
		for slot := range l.conns.used {
			if c := l.conns.at(slot); c.state != stFree {
				fds = append(fds, int(c.fd))
			}
		}
		if len(fds) < 26 {
			t.Errorf("only %d descriptors", len(fds))
		}
		for _, fd := range fds {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			if err != nil || flags&unix.O_NONBLOCK == 0 {
				t.Errorf("descriptor %d: flags %x, %v", fd, flags, err)
			}
			if flags, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("descriptor %d would be inherited: %x, %v", fd, flags, err)
			}
		}
	})
}

// TestRotation replaces certificate and ticket keys while connections are open: those stay, new ones use the new, old tickets only where
// their key is still there.
func TestRotation(t *testing.T) {
	for _, engine := range engines {
		ts := serve(t, func(c *Config) { c.HandshakeLoops, c.Loops, c.Engine = 2, 1, engine })
		cache := tls.NewLRUClientSessionCache(8)
		connect := func() (p *streamPeer, resumed bool) {
			cfg := ts.clientTLS()
			cfg.ClientSessionCache = cache
			tc := tls.Client(ts.tcp(t, 0), cfg)
			if err := tc.Handshake(); err != nil {
				t.Fatal(err)
			}
			q, err := ts.upon(tc, "tcp")
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, q, "x") // reads the ticket, too
			return q.(*streamPeer), tc.ConnectionState().DidResume
		}
		first, resumed := connect()
		if resumed {
			t.Error("resumed what?")
		}
		for i := range 4 { // over both handshake loops
			if _, resumed := connect(); !resumed {
				t.Errorf("connection %d did not resume", i)
			}
		}
		if n := ts.Stats().Resumed; n != 4 {
			t.Errorf("%d are counted as resumed", n)
		}
		a, b := [32]byte{1}, [32]byte{2}
		if err := ts.SetTicketKeys(nil); err == nil {
			t.Error("no keys at all were accepted")
		}
		if _, resumed := connect(); !resumed {
			t.Error("keys that were refused are in use")
		}
		if err := ts.tickets.rotate(ts.hs); err != nil || len(ts.tickets.own) != 2 {
			t.Errorf("the server has %d keys of its own after a day, %v", len(ts.tickets.own), err)
		}
		if _, resumed := connect(); !resumed {
			t.Error("a ticket does not outlive the day of its key")
		}
		for i, step := range []struct {
			keys    [][32]byte
			resumed bool
		}{{[][32]byte{a}, false}, {[][32]byte{b, a}, true}, {[][32]byte{b}, true}, {[][32]byte{a}, false}} {
			if err := ts.SetTicketKeys(step.keys); err != nil {
				t.Fatal(err)
			}
			if _, resumed := connect(); resumed != step.resumed {
				t.Errorf("step %d: resumed is %t", i, resumed)
			}
		}
		if err := ts.tickets.rotate(ts.hs); err != nil || len(ts.tickets.own) != 0 {
			t.Errorf("beside the keys it was given the server made %d, %v", len(ts.tickets.own), err)
		}
		if err := ts.SetCertificates(nil); err == nil {
			t.Error("no certificate at all was accepted")
		}
		cert, _ := testCert(t)
		if err := ts.SetCertificates([]tls.Certificate{cert}); err != nil {
			t.Error(err)
		}
		roundTrip(t, first, "the first is still there")
	}
}
