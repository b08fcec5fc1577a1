package frame_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/klinkio/klink/proto/frame"
	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

func FuzzLength(f *testing.F) {
	for _, in := range []string{"", "\x00", "\x7f", "\x80", "\x80\x00", "\x80\x01x", "\x80\x80\x04", "\x81\x80\x04", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		f.Add([]byte(in), uint16(0))
		f.Add([]byte(in), uint16(16384))
	}
	f.Fuzz(func(t *testing.T, in []byte, kib uint16) {
		limit := int(kib) << 2
		n, hdr, err := frame.Length(in, limit)
		want, size := binary.Uvarint(in)
		large, isLarge := errors.AsType[*frame.TooLarge](err)
		switch {
		case err == nil && hdr == 0:
			if n != -1 || size != 0 || len(in) > 3 {
				t.Fatalf("%x: incomplete (%d), but Uvarint says %d, %d", in, n, want, size)
			}
		case err == nil:
			if n != int(want) || hdr != size || n > limit || len(binary.AppendUvarint(nil, want)) != size {
				t.Fatalf("%x: %d, %d; Uvarint says %d, %d", in, n, hdr, want, size)
			}
		case isLarge:
			minimal := size > 0 && len(binary.AppendUvarint(nil, want)) == size
			if large.Size <= uint64(limit) || (minimal && large.Size > want) {
				t.Fatalf("%x: %v, Uvarint says %d", in, err, want)
			}
		case errors.Is(err, frame.ErrPrefix):
			if size > 0 && len(binary.AppendUvarint(nil, want)) == size {
				t.Fatalf("%x: %v, but %d is minimal", in, err, want)
			}
		default:
			t.Fatalf("%x: unexpected error %v", in, err)
		}
		for i := range in { // more bytes never change what fewer have decided
			if pn, phdr, perr := frame.Length(in[:i], limit); (phdr > 0 || perr != nil) && (pn != n || phdr != hdr || (perr == nil) != (err == nil)) {
				t.Fatalf("%x: %d bytes say %d %d %v, all say %d %d %v", in, i, pn, phdr, perr, n, hdr, err)
			}
		}
	})
}

func addVectors(f *testing.F, from string) {
	v := readVectors(f)
	for _, e := range append(v.Frames, v.Variants...) {
		if e.From == from {
			f.Add(e.body(f))
		}
	}
	for _, e := range v.Refused {
		if e.From == from {
			f.Add(e.body(f))
		}
	}
}

func FuzzClientDecode(f *testing.F) {
	addVectors(f, "client")
	f.Fuzz(func(t *testing.T, body []byte) {
		var c frame.Client
		if !compareClient(t, &c, body) {
			return
		}
		want := clientProto(t, &c)
		var again frame.Client
		if err := again.Decode(appendClient(nil, &c)); err != nil {
			t.Fatalf("%x: encoded again: %v", body, err)
		}
		if got := clientProto(t, &again); !sameMeaning(got, want) {
			t.Fatalf("%x: encoded again:\n got %v\nwant %v", body, got, want)
		}
	})
}

func FuzzServerDecode(f *testing.F) {
	addVectors(f, "server")
	f.Fuzz(func(t *testing.T, body []byte) {
		var s frame.Server
		compareServer(t, &s, body)
	})
}

func FuzzServerJSON(f *testing.F) {
	addVectors(f, "server")
	f.Fuzz(func(t *testing.T, body []byte) {
		text := frame.ServerJSON(body)
		if !json.Valid(text) || !utf8.Valid(text) {
			t.Fatalf("%x: not JSON: %q", body, text)
		}
		got := &klinkv1.ServerFrame{}
		if err := protojson.Unmarshal(text, got); err != nil {
			t.Fatalf("%x: protojson refuses %s: %v", body, text, err)
		}
		if proto.Unmarshal(body, &klinkv1.ServerFrame{}) != nil && got.GetError().GetCode() != klinkv1.ErrorCode_INTERNAL {
			t.Fatalf("%x: no frame, but %s", body, text)
		}
	})
}

func FuzzDecodeJSON(f *testing.F) {
	v := readVectors(f)
	for _, e := range append(v.Frames, v.Variants...) {
		if e.From == "client" {
			f.Add([]byte(e.JSON))
		}
	}
	for _, s := range []string{"", " ", "{", "{ }", "[]", "null", `{"later":{"a":[[[]]]}}`, `{"pong":{"id":"18446744073709551615"}}`, `{"publish":{"data":"_-8="}}`, `{"pong":{},"bye":{}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want := &klinkv1.ClientFrame{}
		wantErr := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, want)
		var c frame.Client
		err := c.DecodeJSON(text)
		if narrower(err) {
			return
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: DecodeJSON says %v, protojson %v", text, err, wantErr)
		}
		if err == nil {
			if got := clientProto(t, &c); !sameMeaning(got, want) {
				t.Fatalf("%q:\n got %v\nwant %v", text, got, want)
			}
		}
	})
}
