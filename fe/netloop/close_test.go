package netloop

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
)

// large does not fit into the kernel's buffers here.
var large = bytes.Repeat([]byte("0123456789abcdef"), 32<<10)

// longGrace leaves a slow client the time it needs.
func longGrace(c *Config) { c.SendBuffer, c.CloseGrace = 4<<10, hangAfter }

// TestHalfClose has a client send, then shut its direction: it still gets all that it is owed, and an orderly end.
func TestHalfClose(t *testing.T) {
	forAll(t, longGrace, func(t *testing.T, ts *testServer, tr string) {
		if tr == "ws" || tr == "wss" {
			return // RFC 6455 has no half-open state: a FIN without a close frame is below, in TestFinWithoutClose
		}
		ts.onMessage(func(e *echo, h klink.Handle, _ []byte) bool {
			if r := e.loop.Send(h, link.NewFrame(large)); r != link.Queued {
				t.Errorf("a frame that does not fit: %d", r)
			}
			return true
		})
		p := ts.dialSmall(t, tr, 2048).(*streamPeer)
		if err := p.send([]byte("go")); err != nil {
			t.Fatal(err)
		}
		if err := p.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		ts.ended(t, link.ClosePeer, 1) // told at once, with output still waiting
		if b, err := p.recv(); err != nil || !bytes.Equal(b, large) {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		if _, err := p.recv(); err != io.EOF { // under TLS that takes a close_notify
			t.Errorf("the end is %v", err)
		}
		p.Close() // of TLS only half was closed until now, and no FIN sent
		eventually(t, "the descriptor is closed", func() bool { return ts.Stats().Conns == 0 })
	})
}

// TestFinWithoutClose is how browsers end that are killed.
func TestFinWithoutClose(t *testing.T) {
	ts := serve(t, nil)
	w := ts.rawWS(t, SubprotocolBinary)
	ts.only(t)
	if err := w.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b := closedByPeer(t, w); len(b) != 0 {
		t.Errorf("behind a FIN: %x", b)
	}
	ts.ended(t, link.ClosePeer, 1)
}

// TestEndMidFrame has connections end, by reset and by FIN, in the middle of a frame.
func TestEndMidFrame(t *testing.T) {
	for _, tr := range transports {
		for _, reset := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/reset %t", tr, reset), func(t *testing.T) {
				ts := serve(t, nil)
				c := ts.tcp(t, 0)
				p, err := ts.upon(c, tr)
				if err != nil {
					t.Fatal(err)
				}
				roundTrip(t, p, "begin")
				half := []byte("\x64half of a hundred")
				switch x := p.(type) {
				case *wsPeer:
					half = []byte{wsFin | 2, wsMask | 100, 1, 2, 3, 4, 5}
					_, err = x.NetConn().Write(half)
				case *streamPeer:
					_, err = x.Write(half)
				}
				if err != nil {
					t.Fatal(err)
				}
				eventually(t, "half a frame is kept", func() bool { return ts.Stats().InputBytes > 0 })
				if reset {
					err = c.SetLinger(0)
				}
				if err = errors.Join(err, c.Close()); err != nil {
					t.Fatal(err)
				}
				ts.ended(t, link.CloseReset, 1)
				eventually(t, "nothing is kept", func() bool { st := ts.Stats(); return st.InputBytes == 0 && st.Conns == 0 })
			})
		}
	}
}

// TestCloseFlushes closes while output waits: it is written first, then the code and the reason, in order.
func TestCloseFlushes(t *testing.T) {
	forAll(t, longGrace, func(t *testing.T, ts *testServer, tr string) {
		p := ts.dialSmall(t, tr, 2048)
		roundTrip(t, p, "begin")
		e, h := ts.only(t)
		e.do(func() {
			if r := e.loop.Send(h, link.NewFrame(large)); r != link.Queued {
				t.Errorf("a frame that does not fit: %d", r)
			}
			e.loop.Close(h, klink.DisconnectKicked, "out")
			if r := e.loop.Send(h, link.NewFrame([]byte("late"))); r != link.Refused {
				t.Errorf("after Close Send answers %d", r)
			}
			e.loop.Close(h, klink.DisconnectSlow, "again")
		})
		if st := ts.Stats(); st.Closed[link.CloseLocal] != 0 {
			t.Error("OnClose came before the output was written")
		}
		if b, err := p.recv(); err != nil || !bytes.Equal(b, large) {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		wantEnd(t, p, int(klink.DisconnectKicked), "out")
		ts.ended(t, link.CloseLocal, 1)
		p.Close()
		eventually(t, "the descriptor is closed", func() bool { return ts.Stats().Conns == 0 })
	})
}

// wantEnd wants the orderly end of a connection; over WebSocket with code and reason.
func wantEnd(t *testing.T, p peer, code int, reason string) {
	t.Helper()
	_, err := p.recv()
	if ce, ok := errors.AsType[*websocket.CloseError](err); ok {
		if ce.Code != code || ce.Text != reason {
			t.Errorf("closed with %d %q, want %d %q", ce.Code, ce.Text, code, reason)
		}
		return
	}
	if err != io.EOF {
		t.Errorf("the end is %v", err)
	}
}

// TestCloseCodeZero is the answer to nothing in particular.
func TestCloseCodeZero(t *testing.T) {
	forAll(t, nil, func(t *testing.T, ts *testServer, tr string) {
		p := ts.dial(t, tr)
		roundTrip(t, p, "begin")
		e, h := ts.only(t)
		e.do(func() { e.loop.Close(h, 0, "") })
		wantEnd(t, p, 1000, "")
		ts.ended(t, link.CloseLocal, 1)
	})
}

// TestCloseGrace closes towards clients that read nothing, or read and never close their side. Both end.
func TestCloseGrace(t *testing.T) {
	short := func(c *Config) { c.SendBuffer, c.CloseGrace = 4<<10, 50*time.Millisecond }
	forAll(t, short, func(t *testing.T, ts *testServer, tr string) {
		stuck := ts.dialSmall(t, tr, 2048)
		roundTrip(t, stuck, "begin")
		e, h := ts.only(t)
		e.do(func() {
			e.loop.Send(h, link.NewFrame(large))
			e.loop.Close(h, klink.DisconnectSlow, "")
		})
		ts.ended(t, link.CloseTimeout, 1)

		silent := ts.dial(t, tr)
		roundTrip(t, silent, "begin")
		e, h = ts.only(t)
		e.do(func() { e.loop.Close(h, klink.DisconnectSlow, "") })
		ts.ended(t, link.CloseLocal, 1)
		eventually(t, "both descriptors are closed", func() bool { return ts.Stats().Conns == 0 })
	})
}

// TestCloseDiscardsInput closes while the client pours data in that nobody reads any more. A close(2) with unread input would reset the
// connection, and the client would lose the last words.
func TestCloseDiscardsInput(t *testing.T) {
	forAll(t, longGrace, func(t *testing.T, ts *testServer, tr string) {
		last := []byte("last words")
		ts.onMessage(func(e *echo, h klink.Handle, body []byte) bool {
			if e.loop.Send(h, link.NewFrame(last)) != link.Accepted {
				t.Error("the last words were not accepted")
			}
			e.loop.Close(h, klink.DisconnectRateLimited, "")
			if _, ended := e.closed[h]; ended {
				t.Error("OnClose came from inside Close")
			}
			return true
		})
		p := ts.dial(t, tr)
		poured := make(chan struct{})
		go func() {
			defer close(poured)
			s, stream := p.(*streamPeer)
			for range 200 {
				if err := p.send(large[:frame.MaxBody]); err != nil {
					if stream { // gorilla refuses to write after a close frame
						t.Errorf("the server stopped to take input: %v", err)
					}
					return
				}
			}
			if stream {
				_ = s.Conn.(interface{ CloseWrite() error }).CloseWrite()
			}
		}()
		if b, err := p.recv(); err != nil || !bytes.Equal(b, last) {
			t.Fatalf("%q, %v", b, err)
		}
		wantEnd(t, p, int(klink.DisconnectRateLimited), "")
		<-poured
		p.Close()
		ts.ended(t, link.CloseLocal, 1)
	})
}

// TestBadStream wants the Disconnect that tells what was wrong, then an orderly end.
func TestBadStream(t *testing.T) {
	tooLong := []byte{0x81, 0x80, 0x04} // 64 KiB and one byte
	endless := bytes.Repeat([]byte{0x80}, 11)
	for _, tr := range []string{"tcp", "tls"} {
		ts := serve(t, nil)
		for i, tc := range []struct {
			in   []byte
			code klink.Disconnect
			why  link.CloseReason
		}{
			{tooLong, klink.DisconnectTooLarge, link.CloseTooLarge},
			{endless, klink.DisconnectTooLarge, link.CloseTooLarge},
			{[]byte{0x81, 0x00}, klink.DisconnectProtocol, link.CloseProtocol}, // a length of 1 in two bytes
		} {
			for _, bytewise := range []bool{false, true} {
				before := ts.Stats().Closed[tc.why]
				p := ts.dial(t, tr).(*streamPeer)
				roundTrip(t, p, "begin")
				if bytewise {
					_ = slowly(p, tc.in)
				} else if _, err := p.Write(tc.in); err != nil {
					t.Fatal(err)
				}
				b, err := p.recv()
				if err != nil {
					t.Fatal(err)
				}
				if want := frame.AppendDisconnect(nil, &frame.Disconnect{Code: uint32(tc.code)}); !bytes.HasPrefix(b[2:], want[2:]) {
					t.Errorf("%s %d: %x does not begin like %x", tr, i, b, want)
				}
				wantEnd(t, p, 0, "")
				ts.ended(t, tc.why, before+1)
				p.Close()
			}
		}
	}
}

// TestBadRecord breaks TLS: the client is told by an alert, and frames that came before count.
func TestBadRecord(t *testing.T) {
	for name, in := range map[string][]byte{
		"not a record":    []byte("GET / HTTP/1.1\r\n\r\n"),
		"too long":        {23, 3, 3, 0x41, 1, 0},
		"wrong key":       append([]byte{23, 3, 3, 0, 32}, make([]byte, 32)...),
		"a second hello":  append([]byte{22, 3, 3, 0, 32}, make([]byte, 32)...),
		"shorter than it": {23, 3, 3, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ts := serve(t, nil)
			c := ts.tcp(t, 0)
			p, err := ts.upon(c, "tls")
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, p, "begin")
			if _, err := c.Write(in); err != nil {
				t.Fatal(err)
			}
			_, err = p.recv()
			if alert, ok := errors.AsType[tls.AlertError](err); !ok && (err == nil || err == io.EOF) {
				t.Errorf("no alert: %v %v", alert, err)
			}
			ts.ended(t, link.CloseProtocol, 1)
		})
	}
}

// TestShutdown ends connections in every state: open, blocked, in a handshake, before the first byte, in the upgrade, and closing.
func TestShutdown(t *testing.T) {
	for _, engine := range engines {
		ts, stop := start(t, func(c *Config) { c.Engine, c.SendBuffer = engine, 4<<10 })
		var peers []peer
		for _, tr := range transports {
			p := ts.dial(t, tr)
			roundTrip(t, p, "begin")
			peers = append(peers, p)
		}
		blocked := ts.dialSmall(t, "tls", 2048)
		ts.onMessage(func(e *echo, h klink.Handle, _ []byte) bool { e.loop.Send(h, link.NewFrame(large)); return true })
		if err := blocked.send([]byte("go")); err != nil {
			t.Fatal(err)
		}
		ts.tcp(t, 0)
		for _, in := range []string{"GET /connect", string(clientHello(t))} {
			if _, err := io.WriteString(ts.tcp(t, 0), in); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "all are there", func() bool {
			st := ts.Stats()
			return st.Conns == 8 && st.Handshaking == 1 && st.Blocked > 0
		})
		stop()
		for i, p := range peers {
			code := int(klink.DisconnectShutdown)
			if wantEnd(t, p, code, "the server stops"); t.Failed() {
				t.Fatalf("transport %s", transports[i])
			}
		}
		st := ts.Stats()
		if st.Closed[link.CloseShutdown] != 4 || st.Closed[link.CloseTimeout] != 1 || st.Refused[RefusedShutdown] != 3 {
			t.Errorf("closed %v, refused %v", st.Closed, st.Refused)
		}
		for _, e := range ts.echoes {
			if len(e.open) != 0 {
				t.Errorf("the handler still has %d connections", len(e.open))
			}
		}
		if err := ts.Run(t.Context()); err == nil {
			t.Error("a server ran twice")
		}
		ts.StopAccepting() // has nothing to do, and returns
		if !slices.Equal(ts.Addrs(), ts.Server.Addrs()) {
			t.Error("addresses changed")
		}
	}
}
