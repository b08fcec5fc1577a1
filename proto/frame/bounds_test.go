package frame_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

func TestClientBounds(t *testing.T) {
	names := func(n int) [][]byte { return make([][]byte, n) }
	tests := []struct {
		name   string
		bounds frame.Bounds
		body   []byte
		what   string // empty: taken
		max    int
	}{
		{"connect tags at default", frame.Bounds{}, frame.AppendConnect(nil, &frame.Connect{Tags: names(1024)}), "", 0},
		{"connect tags above default", frame.Bounds{}, frame.AppendConnect(nil, &frame.Connect{Tags: names(1025)}), "tags", 1024},
		{"capabilities at default", frame.Bounds{}, frame.AppendConnect(nil, &frame.Connect{Capabilities: names(64)}), "", 0},
		{"capabilities above default", frame.Bounds{}, frame.AppendConnect(nil, &frame.Connect{Capabilities: names(65)}), "capabilities", 64},
		{"subscribe at bound", frame.Bounds{Tags: 3}, frame.AppendSubscribe(nil, &frame.Subscribe{Tags: make([]frame.TagPosition, 3)}), "", 0},
		{"subscribe above bound", frame.Bounds{Tags: 3}, frame.AppendSubscribe(nil, &frame.Subscribe{Tags: make([]frame.TagPosition, 4)}), "tags", 3},
		{"unsubscribe above bound", frame.Bounds{Tags: 3}, frame.AppendUnsubscribe(nil, &frame.Unsubscribe{Tags: names(4)}), "tags", 3},
		{
			"merged messages count together", frame.Bounds{Tags: 3},
			frame.AppendUnsubscribe(frame.AppendUnsubscribe(nil, &frame.Unsubscribe{Tags: names(2)}), &frame.Unsubscribe{Tags: names(2)}), "tags", 3,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := frame.Client{Bounds: tt.bounds}
			err := c.Decode(tt.body)
			many, ok := errors.AsType[*frame.TooMany](err)
			switch {
			case tt.what == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.what != "" && (!ok || many.What != tt.what || many.Max != tt.max):
				t.Errorf("got %v, want more than %d %s", err, tt.max, tt.what)
			}
			if cap(c.Connect.Tags) > 2048 || cap(c.Unsubscribe.Tags) > 2048 || cap(c.Subscribe.Tags) > 2048 {
				t.Error("room was made for more than the bound")
			}
		})
	}
}

func TestServerBounds(t *testing.T) {
	pushes := make([]frame.Push, 3)
	two := frame.AppendSubscribed(nil, &frame.Subscribed{Tags: []frame.TagResult{{Recovered: pushes}, {Recovered: pushes}}})
	tests := []struct {
		name   string
		bounds frame.Bounds
		body   []byte
		what   string
	}{
		{"recovered of all tags at bound", frame.Bounds{Recovered: 6}, two, ""},
		{"recovered of all tags above bound", frame.Bounds{Recovered: 5}, two, "recovered pushes"},
		{"results", frame.Bounds{Tags: 1}, two, "tags"},
		{"added", frame.Bounds{Tags: 1}, frame.AppendTagsChanged(nil, &frame.TagsChanged{Added: make([]string, 2)}), "tags"},
		{"removed", frame.Bounds{Tags: 1}, frame.AppendTagsChanged(nil, &frame.TagsChanged{Removed: make([]string, 2)}), "tags"},
		{"endpoints", frame.Bounds{}, frame.AppendConnected(nil, &frame.Connected{Endpoints: make([]string, 65)}), "endpoints"},
		{"capabilities", frame.Bounds{}, frame.AppendConnected(nil, &frame.Connected{Capabilities: make([]string, 65)}), "capabilities"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := frame.Server{Bounds: tt.bounds}
			err := s.Decode(tt.body)
			many, ok := errors.AsType[*frame.TooMany](err)
			if (tt.what == "") != (err == nil) || (tt.what != "" && (!ok || many.What != tt.what)) {
				t.Errorf("got %v, want %q", err, tt.what)
			}
		})
	}
	// The bound counts within one frame: a second frame starts anew.
	s := frame.Server{Bounds: frame.Bounds{Recovered: 6}}
	for range 2 {
		if err := s.Decode(two); err != nil {
			t.Error(err)
		}
	}
}

// Groups do not exist in proto3; they are skipped to a fixed depth, without recursion.
func TestGroupDepth(t *testing.T) {
	nested := func(n int) []byte {
		return append(bytes.Repeat([]byte{0x7b}, n), bytes.Repeat([]byte{0x7c}, n)...) // field 15
	}
	var c frame.Client
	if err := c.Decode(nested(32)); err != nil || c.Kind != frame.KindUnknown {
		t.Errorf("32 groups: %v, %v", c.Kind, err)
	}
	if err := c.Decode(nested(33)); !errors.Is(err, frame.ErrDeep) {
		t.Errorf("33 groups: %v", err)
	}
	if err := c.Decode(bytes.Repeat([]byte{0x7b}, frame.MaxBody)); !errors.Is(err, frame.ErrDeep) {
		t.Errorf("a frame of nothing but starts: %v", err)
	}
}

// A frame's views must not let a reader of one field write into the next.
func TestViewsHaveNoRoom(t *testing.T) {
	body := frame.AppendRefresh(nil, &frame.Refresh{ID: 1, Token: []byte("abc")})
	body = append(body, "behind"...)
	var c frame.Client
	if err := c.Decode(body[:len(body)-6]); err != nil {
		t.Fatal(err)
	}
	_ = append(c.Refresh.Token, "xxxxxx"...)
	if !bytes.HasSuffix(body, []byte("behind")) {
		t.Errorf("append to a view wrote into %q", body)
	}
}

func TestTextIsMadeUTF8(t *testing.T) {
	bad := "a\xffb"
	bodies := map[string][]byte{
		"error":        frame.AppendError(nil, &frame.Error{Text: bad, Limit: bad}),
		"disconnect":   frame.AppendDisconnect(nil, &frame.Disconnect{Reason: bad, Target: bad}),
		"response":     frame.AppendResponse(nil, &frame.Response{Text: bad}),
		"subscribed":   frame.AppendSubscribed(nil, &frame.Subscribed{Tags: []frame.TagResult{{Tag: bad, Text: bad}}}),
		"gap":          frame.AppendGap(nil, &frame.Gap{Tag: bad, Reason: bad}),
		"connected":    frame.AppendConnected(nil, &frame.Connected{User: bad, App: bad, Session: bad, Endpoints: []string{bad}, Capabilities: []string{bad}}),
		"tags_changed": frame.AppendTagsChanged(nil, &frame.TagsChanged{Added: []string{bad}, Removed: []string{bad}}),
		"published":    frame.AppendPublished(nil, &frame.Published{Push: bad}),
	}
	for name, body := range bodies {
		var s frame.Server
		if err := s.Decode(body); err != nil || s.Kind.String() != name {
			t.Errorf("%s: %v, %v", name, s.Kind, err)
		}
		if text := string(frame.ServerJSON(body)); !strings.Contains(text, "a\ufffdb") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestCheckPayload(t *testing.T) {
	tests := []struct {
		kind klink.DataKind
		data string
		ok   bool
	}{
		{klink.DataBinary, "\xff", true},
		{klink.DataBinary, "", true},
		{klink.DataText, "ü", true},
		{klink.DataText, "", true},
		{klink.DataText, "\xff", false},
		{klink.DataJSON, `{"a":[1,null]}`, true},
		{klink.DataJSON, ` 1 `, true},
		{klink.DataJSON, ``, false},
		{klink.DataJSON, `{`, false},
		{klink.DataJSON, `1 2`, false},
		{klink.DataJSON, "\"\xff\"", false},
		{klink.DataJSON, strings.Repeat("[", 20000) + strings.Repeat("]", 20000), false},
		{klink.DataKind(3), "", false},
	}
	for _, tt := range tests {
		if err := (frame.Body{Kind: tt.kind, Data: []byte(tt.data)}).Check(); (err == nil) != tt.ok {
			t.Errorf("kind %d, %.20q: %v", tt.kind, tt.data, err)
		}
	}
}

func TestDecodeJSONHeartbeat(t *testing.T) {
	tests := map[string]frame.Kind{
		`{}`: frame.KindPing, " { \n} ": frame.KindPing, `{"later":{}}`: frame.KindUnknown, `{"pong":{}}`: frame.KindPong, `{"pong":null}`: frame.KindUnknown,
	}
	var c frame.Client
	for text, want := range tests {
		if err := c.DecodeJSON([]byte(text)); err != nil || c.Kind != want {
			t.Errorf("%q: %v, %v; want %v", text, c.Kind, err, want)
		}
	}
	for _, text := range []string{"", "null", "1", "[]", "{", `{"pong":{"id":-1}}`, `{"pong":{},"bye":{}}`, "{\"bye\":{\"reason\":\"\xff\"}}", `{}{}`} {
		if err := c.DecodeJSON([]byte(text)); err == nil {
			t.Errorf("%q: taken as %v", text, c.Kind)
		}
	}
}

// The text tells a writer of clients what is wrong; it travels in the reason of the Disconnect.
func TestDecodeErrors(t *testing.T) {
	tests := map[string]string{
		"\x80":             "it ends within a field",
		"\x4a\x02\x08\xff": "pong: it ends within a field",
		"\x4a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02": "pong: a number has more than 64 bits",
		"\x02\x00":             "a field number is out of range",
		"\x0e":                 "a field has a wire type that does not exist",
		"\x0b\x14":             "the end of a group does not match a start",
		"\x0c":                 "the end of a group does not match a start",
		"\x52\x03\x0a\x01\xff": "bye: a string is not valid UTF-8",
	}
	var c frame.Client
	for body, want := range tests {
		if err := c.Decode([]byte(body)); err == nil || err.Error() != want {
			t.Errorf("%x: %v, want %s", body, err, want)
		}
	}
}

func TestCodesOutOfRange(t *testing.T) {
	tests := map[string]klink.Code{
		"\x4a\x04\x10\x80\x80\x04":                             klink.CodeInternal, // 65536
		"\x4a\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01": klink.CodeInternal, // -1
		"\x4a\x04\x10\xff\xff\x03":                             65535,
	}
	var s frame.Server
	for body, want := range tests {
		if err := s.Decode([]byte(body)); err != nil || s.Error.Code != want {
			t.Errorf("%x: %v, %v; want %v", body, s.Error.Code, err, want)
		}
	}
}

func TestKindNames(t *testing.T) {
	if got := frame.KindSetHeartbeat.String(); got != "set_heartbeat" {
		t.Errorf("got %q", got)
	}
	if got := frame.ServerTagsChanged.String(); got != "tags_changed" {
		t.Errorf("got %q", got)
	}
	if frame.Kind(200).String() != "unknown" || frame.ServerKind(200).String() != "unknown" {
		t.Error("a kind out of range has a name")
	}
}
