package netloop

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
)

// numbered is a body that says which one it is, and whose every byte depends on that.
func numbered(i int) []byte {
	b := make([]byte, 4+(i*2654435761>>7)%3000)
	binary.BigEndian.PutUint32(b, uint32(i))
	for k := 4; k < len(b); k++ {
		b[k] = byte(i*31 + k*7)
	}
	return b
}

func wantNumbered(t *testing.T, p peer, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		got, err := p.recv()
		if err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		if !bytes.Equal(got, numbered(i)) {
			t.Fatalf("frame %d is not what was sent: %d bytes, begins with %x", i, len(got), got[:min(8, len(got))])
		}
	}
}

// smallBuffers leaves little room in the kernel.
func smallBuffers(c *Config) { c.SendBuffer = 4 << 10 }

// TestSlowReader fills the way to a client that does not read: the kernel, then the remainder that the transport holds, then the
// handler's queue. When the client reads at last, every byte is there, in order.
func TestSlowReader(t *testing.T) {
	const frames = 300
	forAll(t, smallBuffers, func(t *testing.T, ts *testServer, tr string) {
		p := ts.dialSmall(t, tr, 2048)
		roundTrip(t, p, "begin")
		e, h := ts.only(t)
		e.do(func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			for i := range frames {
				e.send(h, link.NewFrame(numbered(i)))
			}
			if n := e.loop.PendingBytes(h); n == 0 || e.queued != 1 || len(e.queue[h]) == 0 {
				t.Errorf("%d bytes wait in the transport, %d frames were queued there, %d here", n, e.queued, len(e.queue[h]))
			}
			if r := e.loop.Send(h, link.NewFrame([]byte("more"))); r != link.Refused {
				t.Errorf("a blocked connection answered %d", r)
			}
		})
		wantNumbered(t, p, 0, frames)
		roundTrip(t, p, "end")
		eventually(t, "no output waits", func() bool { st := ts.Stats(); return st.OutputBytes == 0 && st.Blocked > 1 })
		e.do(func() {
			if n := e.loop.PendingBytes(h); n != 0 {
				t.Errorf("%d bytes wait at the end", n)
			}
		})
	})
}

// TestInputWhileBlocked has a client send frames that are answered while nothing of the answers fits: input goes on being handled.
func TestInputWhileBlocked(t *testing.T) {
	const frames = 400
	forAll(t, smallBuffers, func(t *testing.T, ts *testServer, tr string) {
		p := ts.dialSmall(t, tr, 2048)
		sent := make(chan error, 1)
		go func() {
			for i := range frames {
				if err := p.send(numbered(i)); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		e, h := ts.only(t)
		eventually(t, "answers that wait", func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			return len(e.queue[h]) > 10
		})
		wantNumbered(t, p, 0, frames)
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

// TestOrderInCork answers one message by small and large frames: the cork keeps their order.
func TestOrderInCork(t *testing.T) {
	large := bytes.Repeat([]byte{1, 2, 3, 5, 7, 11, 13}, 6000) // more than the cork takes
	want := [][]byte{[]byte("a"), large, []byte("b")}
	for i := range 100 {
		want = append(want, numbered(i))
	}
	want = append(want, large, large, []byte("c"))
	forAll(t, nil, func(t *testing.T, ts *testServer, tr string) {
		ts.onMessage(func(e *echo, h klink.Handle, _ []byte) bool {
			for _, b := range want {
				e.send(h, link.NewFrame(b))
			}
			return true
		})
		p := ts.dial(t, tr)
		if err := p.send([]byte("go")); err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			if b, err := p.recv(); err != nil || !bytes.Equal(b, w) {
				t.Fatalf("frame %d has %d bytes (%v), want %d", i, len(b), err, len(w))
			}
		}
	})
}

// TestCorkIsOneRecord counts what a burst of answers costs: one write, so one TLS record.
func TestCorkIsOneRecord(t *testing.T) {
	ts := serve(t, func(c *Config) { c.Loops = 1 })
	ts.onMessage(func(e *echo, h klink.Handle, body []byte) bool {
		if string(body) != "go" {
			return false
		}
		for i := range 50 {
			e.send(h, link.NewFrame(fmt.Appendf(nil, "answer %d", i)))
		}
		return true
	})
	for _, tr := range transports {
		p := ts.dial(t, tr)
		roundTrip(t, p, "begin")
		if ts.Stats().Open[transportOf(tr)] != 1 {
			t.Errorf("%s is not counted", tr)
		}
		var before uint64
		ts.echoes[0].do(func() { before = ts.loops[0].hot.writes })
		if err := p.send([]byte("go")); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if _, err := p.recv(); err != nil {
				t.Fatal(err)
			}
		}
		ts.echoes[0].do(func() {
			if n := ts.loops[0].hot.writes - before; n != 1 {
				t.Errorf("%s: 50 answers took %d writes", tr, n)
			}
		})
	}
}

func transportOf(tr string) klink.Transport {
	return map[string]klink.Transport{
		"tcp": klink.TransportTCP, "tls": klink.TransportTLS, "ws": klink.TransportWS, "wss": klink.TransportWSS,
	}[tr]
}

// TestPingWhileBlocked answers the newest ping only, behind all that waits.
func TestPingWhileBlocked(t *testing.T) {
	for _, tr := range []string{"ws", "wss"} {
		ts := serve(t, smallBuffers)
		p := ts.dialSmall(t, tr, 2048)
		ws := p.(*wsPeer)
		var pongs []string
		ws.SetPongHandler(func(s string) error { pongs = append(pongs, s); return nil })
		e, h := ts.only(t)
		const frames = 100
		e.do(func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			for i := range frames {
				e.send(h, link.NewFrame(numbered(i)))
			}
		})
		for i := range 200 {
			if err := ws.WriteControl(websocket.PingMessage, fmt.Appendf(nil, "ping %d", i), time.Now().Add(hangAfter)); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "200 pings", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return e.alive == 200 })
		wantNumbered(t, p, 0, frames)
		roundTrip(t, p, "end")
		if len(pongs) == 0 || len(pongs) > 100 || pongs[len(pongs)-1] != "ping 199" {
			t.Errorf("%s: pongs are %q", tr, pongs)
		}
	}
}
