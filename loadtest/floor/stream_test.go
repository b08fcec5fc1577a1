package floor

import (
	"testing"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

// dialogue is frames of servers, as a stream, and their kinds.
func dialogue() (stream []byte, kinds []uint8) {
	push := &klink.Push{ID: "p", Payload: klink.Payload{Kind: klink.DataBinary, Data: make([]byte, 200)}}
	for _, f := range []struct {
		kind uint8
		body []byte
	}{
		{KindConnected, frame.AppendConnected(nil, &frame.Connected{Session: "s", User: "u"})},
		{KindBeat, nil},
		{KindPush, frame.AppendPush(nil, push, "room:1")},
		{KindPush, frame.AppendPush(nil, push, "")},
		{KindGap, frame.AppendGap(nil, &frame.Gap{Count: 1})},
		{KindError, frame.AppendError(nil, &frame.Error{ID: 1})},
		{KindBeat, nil},
		{KindDisconnect, frame.AppendDisconnect(nil, &frame.Disconnect{Code: 4000})},
	} {
		stream = frame.AppendStream(stream, f.body)
		kinds = append(kinds, f.kind)
	}
	return stream, kinds
}

// kindsOf feeds the stream in pieces of at most n bytes.
func kindsOf(stream []byte, n int) (kinds []uint8) {
	var s Stream
	for len(stream) > 0 {
		b := stream[:min(n, len(stream))]
		stream = stream[len(b):]
		for len(b) > 0 {
			var kind uint8
			var done bool
			if kind, done, b = s.Next(b); done {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

func TestStreamFindsFramesInAnyPieces(t *testing.T) {
	t.Parallel()
	stream, want := dialogue()
	for n := 1; n <= len(stream); n++ {
		if got := kindsOf(stream, n); string(got) != string(want) {
			t.Fatalf("in pieces of %d bytes: kinds %v, want %v", n, got, want)
		}
	}
}

func FuzzStream(f *testing.F) {
	stream, _ := dialogue()
	f.Add(stream, 3)
	f.Add([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}, 1)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0x32}, 2)
	f.Fuzz(func(t *testing.T, in []byte, n int) {
		if n < 1 {
			return
		}
		if whole, pieces := kindsOf(in, len(in)), kindsOf(in, n); string(whole) != string(pieces) {
			t.Errorf("kinds %v, in pieces of %d bytes %v", whole, n, pieces)
		}
	})
}
