package frame_test

import (
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

// sink keeps results of measured calls alive.
type sink struct {
	b   []byte
	n   int
	err error
}

func TestDecodeClientAllocatesNothing(t *testing.T) {
	var c frame.Client
	for _, v := range readVectors(t).Frames {
		if v.From != "client" {
			continue
		}
		body := v.body(t)
		if err := c.Decode(body); err != nil {
			t.Fatal(err)
		}
		var s sink
		if n := testing.AllocsPerRun(100, func() { s.err = c.Decode(body) }); n != 0 || s.err != nil {
			t.Errorf("%s: %v allocations, error %v", v.Name, n, s.err)
		}
	}
}

// Of the frames that servers send, a client gets pushes and heartbeats all the time; others have strings, which are copied.
func TestDecodePushAllocatesNothing(t *testing.T) {
	var f frame.Server
	for _, v := range readVectors(t).Frames {
		body := v.body(t)
		if v.From != "server" || f.Decode(body) != nil {
			continue
		}
		switch f.Kind {
		case frame.ServerPush, frame.ServerPing, frame.ServerPong:
		default:
			continue
		}
		var s sink
		if n := testing.AllocsPerRun(100, func() { s.err = f.Decode(body) }); n != 0 || s.err != nil {
			t.Errorf("%s: %v allocations, error %v", v.Name, n, s.err)
		}
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	var c frame.Client
	var f frame.Server
	s := sink{b: make([]byte, 0, 4096)}
	for _, v := range readVectors(t).Frames {
		body := v.body(t)
		var run func()
		if v.From == "client" {
			if err := c.Decode(body); err != nil {
				t.Fatal(err)
			}
			run = func() { s.b = appendClient(s.b[:0], &c) }
		} else {
			if err := f.Decode(body); err != nil {
				t.Fatal(err)
			}
			run = func() { s.b = appendServer(s.b[:0], &f) }
			if f.Kind == frame.ServerPush { // the way by klink.Push makes strings
				p := klinkPush(&f.Push)
				tag := string(f.Push.Tag)
				run = func() { s.b = frame.AppendPush(s.b[:0], &p, tag) }
			}
		}
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s/%s: %v allocations", v.From, v.Name, n)
		}
		if string(s.b) != string(body) {
			t.Errorf("%s/%s: %x, want %x", v.From, v.Name, s.b, body)
		}
	}
}

// A message above 127 bytes needs its length moved in; that must not allocate either, at any depth.
func TestAppendLongAllocatesNothing(t *testing.T) {
	m := frame.Subscribed{ID: 1, Barrier: true}
	for range 40 {
		m.Tags = append(m.Tags, frame.TagResult{
			Tag: "room:1", Text: string(make([]byte, 200)), Recovered: []frame.Push{{ID: make([]byte, 300), Body: frame.Body{Data: make([]byte, 20000)}}},
		})
	}
	s := sink{b: frame.AppendSubscribed(nil, &m)}
	if n := testing.AllocsPerRun(20, func() { s.b = frame.AppendSubscribed(s.b[:0], &m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	var got frame.Server
	if err := got.Decode(s.b); err != nil {
		t.Fatal(err)
	}
	if got.Kind != frame.ServerSubscribed || len(got.Subscribed.Tags) != 40 || len(got.Subscribed.Tags[39].Recovered[0].Body.Data) != 20000 {
		t.Errorf("read back: %v, %d tags", got.Kind, len(got.Subscribed.Tags))
	}
}

func TestLengthAndSizeAllocateNothing(t *testing.T) {
	p := klink.Push{ID: "p", Payload: klink.Payload{Kind: klink.DataText, Data: []byte("x")}, Accepted: time.UnixMilli(5)}
	in := []byte{0x80, 0x80, 0x04}
	var s sink
	if n := testing.AllocsPerRun(100, func() {
		s.n, _, s.err = frame.Length(in, frame.MaxBody)
		s.n += frame.PushSize(&p)
	}); n != 0 || s.err != nil {
		t.Errorf("%v allocations, error %v", n, s.err)
	}
}

// The text of a push is made once for all its receivers: its bytes and nothing else are allocated.
func TestServerJSONAllocatesTheText(t *testing.T) {
	p := klink.Push{ID: "p", From: "bob", Payload: klink.Payload{Kind: klink.DataJSON, Data: []byte(`{"hi":1}`)}, Accepted: time.UnixMilli(5)}
	body := frame.AppendPush(nil, &p, "room:1")
	var s sink
	if n := testing.AllocsPerRun(100, func() { s.b = frame.ServerJSON(body) }); n > 1 {
		t.Errorf("%v allocations for %s", n, s.b)
	}
}

func BenchmarkDecodePublish(b *testing.B) {
	body := frame.AppendPublish(nil, &frame.Publish{ID: 3, Tag: []byte("room:1"), Body: frame.Body{Kind: klink.DataJSON, Data: []byte(`{"hi":1}`)}})
	var c frame.Client
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkServerJSON(b *testing.B) {
	p := klink.Push{ID: "06f1x3s2m2v1a7k0d4h9q8w6zr", Payload: klink.Payload{Kind: klink.DataJSON, Data: []byte(`{"hi":1}`)}, Accepted: time.UnixMilli(5)}
	body := frame.AppendPush(nil, &p, "room:1")
	b.ReportAllocs()
	for b.Loop() {
		_ = frame.ServerJSON(body)
	}
}
