package wsframe_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/klinkio/klink/proto/wsframe"
)

func TestAppendHeader(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		op   wsframe.Op
		n    int
		want string
	}{
		{wsframe.OpText, 5, "\x81\x05"}, // RFC 6455, section 5.7: "Hello"
		{wsframe.OpPing, 5, "\x89\x05"},
		{wsframe.OpPong, 0, "\x8a\x00"},
		{wsframe.OpClose, 125, "\x88\x7d"},
		{wsframe.OpBinary, 0, "\x82\x00"},
		{wsframe.OpBinary, 125, "\x82\x7d"},
		{wsframe.OpBinary, 126, "\x82\x7e\x00\x7e"},
		{wsframe.OpBinary, 256, "\x82\x7e\x01\x00"}, // section 5.7
		{wsframe.OpBinary, 65535, "\x82\x7e\xff\xff"},
		{wsframe.OpBinary, 65536, "\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"}, // section 5.7
		{wsframe.OpText, 1<<31 - 1, "\x81\x7f\x00\x00\x00\x00\x7f\xff\xff\xff"},
	} {
		if got := wsframe.AppendHeader([]byte("before"), tc.op, tc.n); string(got) != "before"+tc.want {
			t.Errorf("opcode %d, %d bytes: got %x, want %x after what was there", tc.op, tc.n, got, tc.want)
		}
	}
}

func TestAppendClose(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		code   uint16
		reason string
		want   string // payload
	}{
		{"no code", wsframe.CodeNone, "unheard", ""},
		{"no reason", 1000, "", "\x03\xe8"},
		{"reason", 4001, "bye", "\x0f\xa1bye"},
		{"as long as it may be", 1001, strings.Repeat("x", 123), "\x03\xe9" + strings.Repeat("x", 123)},
		{"too long", 1001, strings.Repeat("x", 124), "\x03\xe9" + strings.Repeat("x", 123)},
		{"cut in a rune of two", 1001, strings.Repeat("x", 122) + "ü", "\x03\xe9" + strings.Repeat("x", 122)},
		{"cut in a rune of four", 1001, strings.Repeat("x", 120) + "😀", "\x03\xe9" + strings.Repeat("x", 120)},
		{"cut after a rune", 1001, strings.Repeat("x", 119) + "😀y", "\x03\xe9" + strings.Repeat("x", 119) + "😀"},
		{"only long runes", 1001, strings.Repeat("😀", 40), "\x03\xe9" + strings.Repeat("😀", 30)},
		{"not UTF-8", 1001, "a\xff\x80b", "\x03\xe9a\uFFFDb"},
		{"not UTF-8 and long", 1001, strings.Repeat("\x80a", 100), "\x03\xe9" + strings.Repeat("\uFFFDa", 30) + "\uFFFD"},
	} {
		got := wsframe.AppendClose([]byte("before"), tc.code, tc.reason)
		want := "before\x88" + string(rune(len(tc.want))) + tc.want
		if string(got) != want {
			t.Errorf("%s: got %q, want %q", tc.name, got, want)
		}
		if payload := got[len("before")+2:]; len(payload) >= 2 && !utf8.Valid(payload[2:]) {
			t.Errorf("%s: the reason is not UTF-8: %q", tc.name, payload[2:])
		}
	}
}

// What the server writes about a close is read by the same rules at the other end.
func TestCloseFramesReadBack(t *testing.T) {
	t.Parallel()
	sent := wsframe.AppendClose(nil, 4100, strings.Repeat("grüße ", 40))
	masked := clientFrame(sent[0], sent[2:])
	var r wsframe.Reader
	ev, n, _, err := r.Next(masked, 1000)
	if err != nil || n != len(masked) || ev.Kind != wsframe.Close || ev.Code != 4100 || !bytes.Equal(ev.Reason, sent[4:]) {
		t.Errorf("got %+v, %d, %v", ev, n, err)
	}
}
