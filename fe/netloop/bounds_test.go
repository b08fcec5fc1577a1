package netloop

import (
	"bytes"
	"io"
	"testing"

	"github.com/klinkio/klink/fe/link"
)

// TestMaxConns turns clients away that are too many, and lets one in when another has left.
func TestMaxConns(t *testing.T) {
	ts := serve(t, func(c *Config) { c.MaxConns = 3 })
	var in []peer
	for range 3 {
		p := ts.dial(t, "tcp")
		roundTrip(t, p, "x")
		in = append(in, p)
	}
	if p, err := ts.tryDial("tcp", 0); err == nil { // it may be reset already
		defer p.Close()
		_ = p.send([]byte("x"))
		if _, err := p.recv(); err == nil {
			t.Error("a fourth client is served")
		}
	}
	ts.refusal(t, RefusedConns, 1)
	in[0].Close()
	eventually(t, "it is gone", func() bool { return ts.Stats().Conns == 2 })
	roundTrip(t, ts.dial(t, "tcp"), "in its place")
}

// TestAcceptRate lets the burst in, whatever it is spread over, and refuses the next at once.
func TestAcceptRate(t *testing.T) {
	const burst = 5
	ts := serve(t, func(c *Config) { c.Loops, c.AcceptRate, c.AcceptBurst = 1, 1e-6, burst })
	for range burst {
		roundTrip(t, ts.dial(t, "tls"), "x")
	}
	for i := range uint64(3) {
		if p, err := ts.tryDial("tls", 0); err == nil {
			p.Close()
			t.Error("one more than the burst got in")
		}
		ts.refusal(t, RefusedRate, i+1)
	}
	if n := ts.Stats().TLS.Started; n != burst {
		t.Errorf("%d handshakes were begun", n)
	}
}

// TestMaxInputBytes has many clients leave frames half sent. The bound holds, those beyond it are refused, and the rest goes on.
func TestMaxInputBytes(t *testing.T) {
	const bound = 256 << 10
	for _, tr := range transports {
		ts := serve(t, func(c *Config) { c.Loops, c.MaxInputBytes = 1, bound })
		half := append([]byte{0xff, 0xff, 3}, make([]byte, 30000)...) // of 65,535 bytes
		if tr == "ws" || tr == "wss" {
			half = append([]byte{wsFin | 2, wsMask | 127, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4}, make([]byte, 30000)...)
		}
		for range 20 {
			p := ts.dial(t, tr)
			var w io.Writer
			switch x := p.(type) {
			case *streamPeer:
				w = x
			case *wsPeer:
				w = x.NetConn()
			}
			if _, err := w.Write(half); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "some are refused", func() bool {
			st := ts.Stats()
			return st.Refused[RefusedMemory] >= 12 && st.Closed[link.CloseError] == st.Refused[RefusedMemory]
		})
		if n := ts.Stats().InputBytes; n > bound || n < bound/4 {
			t.Errorf("%s: %d bytes are kept", tr, n)
		}
		roundTrip(t, ts.dial(t, tr), "whole frames need no memory")
	}
}

// TestSlowFrameIsCheap keeps one byte of a frame that claims to be large: what counts is what came.
func TestSlowFrameIsCheap(t *testing.T) {
	ts := serve(t, func(c *Config) { c.Loops = 1 })
	const clients = 50
	var all []peer
	for range clients {
		p := ts.dial(t, "tcp")
		if _, err := p.(*streamPeer).Write([]byte{0xff, 0xff, 3, 'x'}); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	eventually(t, "all are kept", func() bool { return ts.Stats().InputBytes == clients*64 })
	rest := bytes.Repeat([]byte{'x'}, 65534)
	for _, p := range all {
		if _, err := p.(*streamPeer).Write(rest); err != nil {
			t.Fatal(err)
		}
		if b, err := p.recv(); err != nil || len(b) != 65535 || b[0] != 'x' {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
	}
	eventually(t, "nothing is kept", func() bool { return ts.Stats().InputBytes == 0 })
}
