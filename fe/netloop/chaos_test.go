package netloop

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
)

// TestChaos has many clients of every transport do what comes to their minds, while others wake the loops, run them in place of their
// goroutines, and send and close behind the clients' backs. In the end the server must have nothing left, each opened connection must
// have been closed once, and a client that only talks must have got every answer.
func TestChaos(t *testing.T) {
	for _, engine := range engines {
		t.Run(fmt.Sprintf("engine%d", engine), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			server, stop := start(t, func(c *Config) { c.Engine, c.SendBuffer = engine, 8<<10 })
			ts := &chaos{server, map[*echo]map[klink.Handle]bool{}}
			for _, e := range ts.echoes {
				ts.victims[e] = map[klink.Handle]bool{}
			}
			ts.onMessage(func(e *echo, h klink.Handle, body []byte) bool {
				if !bytes.HasPrefix(body, []byte("calm")) {
					ts.victims[e][h] = true
				}
				switch string(body) {
				case "close":
					e.loop.Close(h, klink.DisconnectKicked, "asked for")
				case "flood":
					for i := range 30 {
						e.send(h, link.NewFrame(numbered(i)))
					}
				default:
					return false
				}
				return true
			})
			quit := make(chan struct{})
			var wakers, clients sync.WaitGroup
			for i := range 2 {
				wakers.Go(func() { ts.meddle(rand.New(rand.NewPCG(seed, uint64(i))), quit) })
			}
			for i := range 12 {
				clients.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(100+i)))
					for range 12 {
						ts.misbehave(r)
					}
				})
			}
			for _, tr := range transports {
				clients.Go(func() { ts.behave(t, tr) })
			}
			clients.Wait()
			close(quit)
			wakers.Wait()
			stop()
			var opened, closed uint64
			for _, n := range ts.Stats().Opened {
				opened += n
			}
			for _, n := range ts.Stats().Closed {
				closed += n
			}
			if opened == 0 || opened != closed {
				t.Errorf("%d connections were opened, %d closed", opened, closed)
			}
			for _, e := range ts.echoes {
				if len(e.open) != 0 {
					t.Errorf("%d connections did not hear of their end", len(e.open))
				}
			}
		})
	}
}

// chaos is a server whose handlers note the clients that did not say that they want calm.
type chaos struct {
	*testServer
	victims map[*echo]map[klink.Handle]bool // each guarded by its handler's lock
}

// behave talks and wants every answer. Its words are ones that meddle does not touch.
func (ts *chaos) behave(t *testing.T, tr string) {
	p, err := ts.tryDial(tr, 0)
	if err != nil {
		t.Errorf("%s: %v", tr, err)
		return
	}
	defer p.Close()
	for i := range 200 {
		want := append([]byte("calm"), numbered(i)...)
		if err := p.send(want); err != nil {
			t.Errorf("%s: message %d: %v", tr, i, err)
			return
		}
		if got, err := p.recv(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: answer %d: %d bytes, %v", tr, i, len(got), err)
			return
		}
	}
}

// meddle uses the loops from outside.
func (ts *chaos) meddle(r *rand.Rand, quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		default:
		}
		e := ts.echoes[r.IntN(len(ts.echoes))]
		e.mu.Lock()
		e.tasks = append(e.tasks, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			for h := range ts.victims[e] {
				if r := e.loop.Send(h, link.NewFrame([]byte("for you"))); r == link.Refused && e.loop.PendingBytes(h) > 1<<20 {
					e.loop.Close(h, klink.DisconnectSlow, "")
				}
				if h.Gen()%3 == 0 {
					e.loop.Close(h, klink.DisconnectMoved, "elsewhere")
				}
				if _, open := e.open[h]; !open {
					delete(ts.victims[e], h)
				}
			}
		})
		e.mu.Unlock()
		if r.IntN(2) == 0 {
			e.loop.Wake()
		} else {
			e.loop.WakeHere()
		}
	}
}

// misbehave is one connection that ends somehow.
func (ts *chaos) misbehave(r *rand.Rand) {
	c, err := dialTCP(ts.addr, []int{0, 2048}[r.IntN(2)])
	if err != nil {
		return
	}
	defer c.Close()
	if r.IntN(8) == 0 {
		_, _ = c.Write([]byte("\x16\x03\x01\x02\x00GET \r\n"))
		return
	}
	p, err := ts.upon(c, transports[r.IntN(len(transports))])
	if err != nil {
		return
	}
	for range r.IntN(8) {
		switch r.IntN(8) {
		case 0:
			_ = p.send([]byte("close"))
		case 1:
			_ = p.send([]byte("flood"))
		case 2:
			_, _ = c.Write([]byte{0x80, 0x80, 0x00}) // garbage to TLS and WebSocket, a malformed length to streams
		case 3:
			ts.half(p)
		case 4:
			_ = c.SetLinger(0)
			return
		case 5:
			_ = c.CloseWrite()
		case 6:
			if w, ok := p.(*wsPeer); ok {
				_ = w.WriteMessage(websocket.PingMessage, []byte("?"))
			}
		default:
			if p.send(numbered(r.IntN(100))) == nil {
				_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // the answer may never come
				_, _ = p.recv()
			}
		}
	}
}

// half sends a part of a frame.
func (ts *chaos) half(p peer) {
	var w net.Conn
	switch p := p.(type) {
	case *streamPeer:
		w = p.Conn
	case *wsPeer:
		w = p.NetConn()
	}
	_, _ = w.Write(frame.AppendStream(nil, make([]byte, 1000))[:500])
}
