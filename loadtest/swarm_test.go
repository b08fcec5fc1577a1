package loadtest

import (
	"bytes"
	"testing"

	"github.com/klinkio/klink/loadtest/floor"
	"github.com/klinkio/klink/proto/frame"
	"github.com/klinkio/klink/proto/wsframe"
)

func TestMessagesFindFramesInAnyPieces(t *testing.T) {
	t.Parallel()
	var stream []byte
	var want []uint8
	add := func(op wsframe.Op, kind uint8, body []byte) {
		stream = append(wsframe.AppendHeader(stream, op, len(body)), body...)
		want = append(want, kind)
	}
	push := frame.AppendPush(nil, samplePush(), commonTag)
	add(wsframe.OpBinary, floor.KindConnected, cannedConnected())
	add(wsframe.OpBinary, floor.KindBeat, nil)
	add(wsframe.OpBinary, floor.KindPush, push)
	add(wsframe.OpBinary, floor.KindPush, append(bytes.Clone(push), make([]byte, 300)...))   // length in 2 bytes
	add(wsframe.OpBinary, floor.KindPush, append(bytes.Clone(push), make([]byte, 1<<16)...)) // in 8 bytes
	add(wsframe.OpBinary, floor.KindBeat, nil)
	stream = wsframe.AppendClose(stream, 4001, "bye")
	want = append(want, closeFrame)
	for _, n := range []int{1, 2, 3, 5, 7, 64, 1000, len(stream)} {
		var m messages
		var got []uint8
		for rest := stream; len(rest) > 0; {
			b := rest[:min(n, len(rest))]
			rest = rest[len(b):]
			for len(b) > 0 {
				var kind uint8
				var done bool
				if kind, done, b = m.next(b); done {
					got = append(got, kind)
				}
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("in pieces of %d bytes: kinds %v, want %v", n, got, want)
		}
	}
}

func TestSwarmWrapsMessagesAsServersReadThem(t *testing.T) {
	t.Parallel()
	w := &swarm{spec: &spec{Transport: "ws"}}
	for _, n := range []int{0, 1, 125, 126, 1000} {
		body := bytes.Repeat([]byte{7}, n)
		var r wsframe.Reader
		ev, took, _, err := r.Next(w.wrap(body), 1<<16)
		if err != nil || ev.Kind != wsframe.Message || ev.Op != wsframe.OpBinary || took != len(w.wbuf) || !bytes.Equal(ev.Payload, body) {
			t.Errorf("message of %d bytes: %+v, took %d of %d, %v", n, ev.Kind, took, len(w.wbuf), err)
		}
	}
}

func TestSessionSkipsTheUpgradeInAnyPieces(t *testing.T) {
	t.Parallel()
	const head, rest = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nX: \r\r\n\r\n", "\x82\x00"
	in := []byte(head + rest)
	for n := 1; n <= len(in); n++ {
		var c session
		var left []byte
		for at := 0; at < len(in); at += n {
			b := in[at:min(at+n, len(in))]
			if c.phase == phaseUpgrade {
				b = c.skipUpgrade(b)
			}
			left = append(left, b...)
		}
		if c.phase != phaseLogin || string(left) != rest {
			t.Fatalf("in pieces of %d bytes: phase %d, left %q", n, c.phase, left)
		}
	}
}

func TestIdentifiersHaveTheSizesOfTheBudget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id   string
		size int
	}{{userID(17999), 16}, {deviceID(17999), 16}, {ownTag(17999), 24}, {commonTag, 24}} {
		if len(c.id) != c.size {
			t.Errorf("%q has %d bytes, want %d", c.id, len(c.id), c.size)
		}
	}
}
