package wsframe_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"unsafe"

	"github.com/klinkio/klink/proto/wsframe"
)

const (
	fin  = 0x80
	text = byte(wsframe.OpText)
	bin  = byte(wsframe.OpBinary)
	cont = byte(wsframe.OpContinuation)
)

// testKey is the mask of the examples of section 5.7.
var testKey = [4]byte{0x37, 0xfa, 0x21, 0x3d}

// clientFrame makes a masked frame as a client does, independently of the package: b0 is the first byte.
func clientFrame[B []byte | string](b0 byte, payload B) []byte {
	f := []byte{b0}
	switch n := len(payload); {
	case n <= 125:
		f = append(f, 0x80|byte(n))
	case n <= 0xffff:
		f = binary.BigEndian.AppendUint16(append(f, 0x80|126), uint16(n))
	default:
		f = binary.BigEndian.AppendUint64(append(f, 0x80|127), uint64(n))
	}
	f = append(f, testKey[:]...)
	at := len(f)
	f = append(f, payload...)
	maskBytewise(f[at:], testKey)
	return f
}

// join is the concatenation of frames.
func join(frames ...[]byte) (all []byte) {
	for _, f := range frames {
		all = append(all, f...)
	}
	return all
}

// step is what one frame was, as text that is easy to compare.
type step struct {
	Kind    wsframe.Kind
	Op      wsframe.Op
	Final   bool
	Payload string
	Code    uint16
	Reason  string
}

// read takes all frames out of in, as a loop does that has every byte, and returns the events and the close code of the error, 0 if
// there was none.
func read(t *testing.T, in []byte, limit int) (steps []step, code uint16) {
	t.Helper()
	var r wsframe.Reader
	for len(in) > 0 {
		ev, n, need, err := r.Next(in, limit)
		if err != nil {
			return steps, frameCode(t, err)
		}
		if ev.Kind == wsframe.None {
			if n != 0 || need <= len(in) {
				t.Fatalf("an incomplete frame of %d bytes: took %d, needs %d", len(in), n, need)
			}
			return steps, 0
		}
		if n <= 0 || n > len(in) || need != 0 {
			t.Fatalf("took %d of %d bytes, needs %d", n, len(in), need)
		}
		steps = append(steps, toStep(ev))
		in = in[n:]
		if ev.Kind == wsframe.Close {
			break
		}
	}
	return steps, 0
}

func toStep(ev wsframe.Event) step {
	return step{ev.Kind, ev.Op, ev.Final, string(ev.Payload), ev.Code, string(ev.Reason)}
}

func frameCode(t *testing.T, err error) uint16 {
	t.Helper()
	e, ok := errors.AsType[*wsframe.FrameError](err)
	if !ok || e.Error() == "" || len(e.Text) > 123 {
		t.Fatalf("not an error of frames that fits into a close frame: %v", err)
	}
	return e.Code
}

func TestReaderIsSmallAndWithoutPointers(t *testing.T) {
	t.Parallel()
	if n := unsafe.Sizeof(wsframe.Reader{}); n > 16 {
		t.Errorf("a Reader has %d bytes, want at most 16", n)
	}
}

// A loop gets a frame in pieces: until the last byte Next must say what it needs, take nothing and change nothing.
func TestNextByteByByte(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 125, 126, 1000, 65535, 65536, 70000} {
		payload := make([]byte, n)
		for i := range payload {
			payload[i] = byte('a' + i%26)
		}
		frame := clientFrame(fin|text, payload)
		head := len(frame) - n - 4
		var r wsframe.Reader
		for have := range len(frame) {
			if n > 2000 && have > 40 && have < len(frame)-40 {
				continue
			}
			ev, took, need, err := r.Next(frame[:have:have], n)
			want := len(frame)
			if have < 2 {
				want = 2
			} else if have < head {
				want = head
			}
			if ev.Kind != wsframe.None || took != 0 || need != want || err != nil {
				t.Fatalf("%d of %d bytes: event %+v, took %d, need %d, want %d; %v", have, len(frame), ev, took, need, want, err)
			}
		}
		ev, took, need, err := r.Next(frame, n)
		if ev.Kind != wsframe.Message || took != len(frame) || need != 0 || err != nil || string(ev.Payload) != string(payload) {
			t.Fatalf("%d bytes: kind %d, took %d, need %d, %v", n, ev.Kind, took, need, err)
		}
	}
}

// The payload must not reach beyond its frame, or appending to it would write into the next one.
func TestPayloadEndsWithItsFrame(t *testing.T) {
	t.Parallel()
	var r wsframe.Reader
	in := join(clientFrame(fin|bin, "one"), clientFrame(fin|bin, "two"))
	ev, n, _, err := r.Next(in, 10)
	if err != nil || cap(ev.Payload) != 3 {
		t.Fatalf("capacity %d, %v", cap(ev.Payload), err)
	}
	_ = append(ev.Payload, "overwritten"...)
	if ev, _, _, err = r.Next(in[n:], 10); err != nil || string(ev.Payload) != "two" {
		t.Errorf("the next frame: %q, %v", ev.Payload, err)
	}
}

func TestInMessage(t *testing.T) {
	t.Parallel()
	var r wsframe.Reader
	for i, tc := range []struct {
		frame []byte
		want  bool
	}{
		{clientFrame(fin|bin, "whole"), false},
		{clientFrame(bin, "a"), true},
		{clientFrame(fin|byte(wsframe.OpPing), ""), true},
		{clientFrame(cont, "b"), true},
		{clientFrame(fin|cont, "c"), false},
	} {
		if _, _, _, err := r.Next(tc.frame, 10); err != nil || r.InMessage() != tc.want {
			t.Errorf("after frame %d: %t, want %t; %v", i, r.InMessage(), tc.want, err)
		}
	}
}

// After an error or a close frame nothing is read any more, whatever comes.
func TestNothingFollowsTheEnd(t *testing.T) {
	t.Parallel()
	for name, last := range map[string][]byte{
		"close":    clientFrame(fin|byte(wsframe.OpClose), "\x03\xe8"),
		"reserved": clientFrame(fin|0x40|bin, ""),
		"text":     clientFrame(fin|text, "\xff"),
		"size":     clientFrame(fin|bin, "longer than ten"),
	} {
		var r wsframe.Reader
		r.Next(last, 10)
		for _, in := range [][]byte{nil, {0x82}, clientFrame(fin|bin, "x"), clientFrame(fin|byte(wsframe.OpClose), "")} {
			if ev, n, need, err := r.Next(in, 10); err == nil || n != 0 || need != 0 || ev.Kind != wsframe.None || frameCode(t, err) != wsframe.CodeProtocol {
				t.Errorf("%s, then %x: event %+v, %d, %d, %v", name, in, ev, n, need, err)
			}
		}
	}
}
