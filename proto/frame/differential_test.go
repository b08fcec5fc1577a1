package frame_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

const rounds = 20000

func klinkPush(p *frame.Push) klink.Push {
	out := klink.Push{
		ID: string(p.ID), From: string(p.From), CollapseKey: string(p.CollapseKey),
		To:      klink.Target{Expr: string(p.Expr)},
		Payload: klink.Payload{Kind: p.Body.Kind, Data: p.Body.Data},
	}
	if p.TimeMs != 0 {
		out.Accepted = time.UnixMilli(p.TimeMs)
	}
	if len(p.Tag) > 0 {
		out.To.Tags = []string{string(p.Tag)}
	}
	return out
}

func TestClientAgainstGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var c frame.Client // one for all: what a frame leaves behind must not reach the next
	seen := make(map[frame.Kind]int)
	for range rounds {
		want := &klinkv1.ClientFrame{}
		randomFrame(r, want.ProtoReflect())
		body, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Decode(body); err != nil {
			t.Fatalf("Decode(%v): %v", want, err)
		}
		seen[c.Kind]++
		if got := clientProto(t, &c); !sameMeaning(got, want) {
			t.Fatalf("Decode:\n got %v\nwant %v", got, want)
		}
		again := &klinkv1.ClientFrame{}
		if err := proto.Unmarshal(appendClient(nil, &c), again); err != nil {
			t.Fatalf("the generated code refuses %v: %v", want, err)
		}
		if !sameMeaning(again, want) {
			t.Fatalf("Append:\n got %v\nwant %v", again, want)
		}
		text, err := protojson.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.DecodeJSON(text); err != nil {
			t.Fatalf("DecodeJSON(%s): %v", text, err)
		}
		if got := clientProto(t, &c); !sameMeaning(got, want) {
			t.Fatalf("DecodeJSON:\n got %v\nwant %v", got, want)
		}
	}
	if len(seen) != int(frame.KindBye) {
		t.Errorf("kinds seen: %v", seen)
	}
}

func TestServerAgainstGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var s frame.Server
	seen := make(map[frame.ServerKind]int)
	for range rounds {
		want := &klinkv1.ServerFrame{}
		randomFrame(r, want.ProtoReflect())
		body, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Decode(body); err != nil {
			t.Fatalf("Decode(%v): %v", want, err)
		}
		seen[s.Kind]++
		if got := serverProto(t, &s); !sameMeaning(got, want) {
			t.Fatalf("Decode:\n got %v\nwant %v", got, want)
		}
		if p := want.GetPush(); p != nil && p.TimeMs != time.UnixMilli(p.TimeMs).UnixMilli() {
			continue // no time.Time
		}
		mine := appendServer(nil, &s)
		again := &klinkv1.ServerFrame{}
		if err := proto.Unmarshal(mine, again); err != nil {
			t.Fatalf("the generated code refuses %v: %v", want, err)
		}
		if !sameMeaning(again, want) {
			t.Fatalf("Append:\n got %v\nwant %v", again, want)
		}
		if s.Kind == frame.ServerPush {
			p := klinkPush(&s.Push)
			if got := frame.PushSize(&p); got != len(mine) {
				t.Fatalf("PushSize is %d, the frame has %d bytes", got, len(mine))
			}
		}
		checkJSON(t, body, want)
	}
	if len(seen) != int(frame.ServerDisconnect) {
		t.Errorf("kinds seen: %v", seen)
	}
}

// checkJSON holds ServerJSON against protojson: same meaning.
func checkJSON(t *testing.T, body []byte, want *klinkv1.ServerFrame) {
	t.Helper()
	text := frame.ServerJSON(body)
	got := &klinkv1.ServerFrame{}
	if err := protojson.Unmarshal(text, got); err != nil {
		t.Fatalf("protojson refuses %s: %v", text, err)
	}
	if !sameMeaning(got, want) {
		t.Fatalf("ServerJSON: %s\n got %v\nwant %v", text, got, want)
	}
}

// A body with every kind of damage: whatever the generated code takes, Decode takes with the same meaning, and the reverse.
func TestDamagedAgainstGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var c frame.Client
	taken, refused := 0, 0
	for range rounds {
		var body []byte
		for range 1 + r.IntN(3) { // several kinds one after the other: the last wins, equal ones merge
			m := &klinkv1.ClientFrame{}
			randomFrame(r, m.ProtoReflect())
			b, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			body = append(body, b...)
		}
		for range r.IntN(3) {
			if i := r.IntN(len(body)); r.IntN(4) == 0 {
				body = body[:i+1]
			} else {
				body[i] = byte(r.Uint32())
			}
		}
		if compareClient(t, &c, body) {
			taken++
		} else {
			refused++
		}
	}
	if taken < rounds/10 || refused < rounds/10 {
		t.Errorf("taken %d, refused %d: the damage is not a good mix", taken, refused)
	}
}

// compareClient decodes body both ways and reports whether both took it.
func compareClient(t *testing.T, c *frame.Client, body []byte) bool {
	t.Helper()
	want := &klinkv1.ClientFrame{}
	wantErr := proto.Unmarshal(body, want)
	err := c.Decode(body)
	if narrower(err) {
		return false
	}
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%x: Decode says %v, the generated code %v", body, err, wantErr)
	}
	if err != nil {
		return false
	}
	if got := clientProto(t, c); !sameMeaning(got, want) {
		t.Fatalf("%x:\n got %v\nwant %v", body, got, want)
	}
	if known := want.Kind != nil; known != (c.Kind != frame.KindPing && c.Kind != frame.KindUnknown) {
		t.Fatalf("%x: kind %v", body, c.Kind)
	}
	return true
}

// compareServer is compareClient for frames of servers, and their JSON.
func compareServer(t *testing.T, s *frame.Server, body []byte) {
	t.Helper()
	want := &klinkv1.ServerFrame{}
	wantErr := proto.Unmarshal(body, want)
	err := s.Decode(body)
	if narrower(err) {
		return
	}
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%x: Decode says %v, the generated code %v", body, err, wantErr)
	}
	if err != nil {
		return
	}
	if got := serverProto(t, s); !sameMeaning(got, want) {
		t.Fatalf("%x:\n got %v\nwant %v", body, got, want)
	}
	checkJSON(t, body, want)
}

// narrower reports whether err is one of the two places where this package takes less than protobuf, see its documentation.
func narrower(err error) bool {
	if _, ok := errors.AsType[*frame.TooMany](err); ok {
		return true
	}
	return err != nil && errors.Is(err, frame.ErrDeep)
}
