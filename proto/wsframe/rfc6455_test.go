package wsframe_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/klinkio/klink/proto/wsframe"
)

const (
	ping    = byte(wsframe.OpPing)
	pong    = byte(wsframe.OpPong)
	closing = byte(wsframe.OpClose)
)

func message(op wsframe.Op, payload string) step {
	return step{Kind: wsframe.Message, Op: op, Final: true, Payload: payload}
}

func fragment(op wsframe.Op, payload string) step {
	return step{Kind: wsframe.Fragment, Op: op, Payload: payload}
}

func lastFragment(op wsframe.Op, payload string) step {
	return step{Kind: wsframe.Fragment, Op: op, Payload: payload, Final: true}
}

// The dialogues of RFC 6455 section 5, each with the paragraph that it is about. The limit is 100 bytes a message.
func TestRFC6455Frames(t *testing.T) {
	t.Parallel()
	const (
		T, B = wsframe.OpText, wsframe.OpBinary
		long = 126 // the smallest payload with a two-byte length
	)
	pinged, ponged := step{Kind: wsframe.Ping, Payload: "p"}, step{Kind: wsframe.Pong, Payload: "q"}
	for _, tc := range []struct {
		name string
		in   []byte
		want []step
		code uint16 // of the error after them
	}{
		{"5.7 masked Hello", []byte{0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58}, []step{message(T, "Hello")}, 0},
		{"5.7 masked pong", []byte{0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58}, []step{{Kind: wsframe.Pong, Payload: "Hello"}}, 0},
		{"5.7 fragmented Hello", join(clientFrame(text, "Hel"), clientFrame(fin|cont, "lo")), []step{fragment(T, "Hel"), lastFragment(T, "lo")}, 0},
		{"5.7 unmasked Hello", []byte("\x81\x05Hello"), nil, 1002},

		{"empty messages", join(clientFrame(fin|text, ""), clientFrame(fin|bin, "")), []step{message(T, ""), message(B, "")}, 0},
		{"two messages in one read", join(clientFrame(fin|bin, "a"), clientFrame(fin|text, "b")), []step{message(B, "a"), message(T, "b")}, 0},
		{"empty fragments", join(clientFrame(bin, ""), clientFrame(cont, ""), clientFrame(fin|cont, "")), []step{fragment(B, ""), fragment(B, ""), lastFragment(B, "")}, 0},
		{"a zero mask", []byte{0x82, 0x81, 0, 0, 0, 0, 'x'}, []step{message(B, "x")}, 0},

		{"5.4 control between fragments", join(clientFrame(text, "a"), clientFrame(fin|ping, "p"), clientFrame(cont, "b"), clientFrame(fin|pong, "q"), clientFrame(fin|cont, "c")),
			[]step{fragment(T, "a"), pinged, fragment(T, "b"), ponged, lastFragment(T, "c")}, 0},
		{"5.4 close between fragments", join(clientFrame(text, "a"), clientFrame(fin|closing, "")), []step{fragment(T, "a"), {Kind: wsframe.Close, Code: 1005}}, 0},
		{"5.4 message after fragments", join(clientFrame(text, "a"), clientFrame(fin|cont, "b"), clientFrame(fin|bin, "c")), []step{fragment(T, "a"), lastFragment(T, "b"), message(B, "c")}, 0},
		{"5.4 continuation of nothing", clientFrame(fin|cont, "x"), nil, 1002},
		{"5.4 open continuation of nothing", clientFrame(cont, "x"), nil, 1002},
		{"5.4 continuation after the last", join(clientFrame(text, "a"), clientFrame(fin|cont, "b"), clientFrame(fin|cont, "c")), []step{fragment(T, "a"), lastFragment(T, "b")}, 1002},
		{"5.4 text inside text", join(clientFrame(text, "a"), clientFrame(fin|text, "b")), []step{fragment(T, "a")}, 1002},
		{"5.4 binary inside text", join(clientFrame(text, "a"), clientFrame(fin|bin, "b")), []step{fragment(T, "a")}, 1002},
		{"5.4 start inside binary", join(clientFrame(bin, "a"), clientFrame(bin, "b")), []step{fragment(B, "a")}, 1002},

		{"5.5 fragmented ping", clientFrame(ping, "p"), nil, 1002},
		{"5.5 fragmented pong", clientFrame(pong, ""), nil, 1002},
		{"5.5 fragmented close", clientFrame(closing, ""), nil, 1002},
		{"5.5 control of 125 bytes", clientFrame(fin|ping, strings.Repeat("p", 125)), []step{{Kind: wsframe.Ping, Payload: strings.Repeat("p", 125)}}, 0},
		{"5.5 control of 126 bytes", clientFrame(fin|ping, strings.Repeat("p", 126)), nil, 1002},
		{"5.5 control with an 8-byte length", []byte{0x89, 0xff, 0, 0, 0, 0, 0, 1, 0, 0}, nil, 1002},
		{"5.5.1 close and more", join(clientFrame(fin|closing, "\x03\xe8bye"), clientFrame(fin|bin, "x")), []step{{Kind: wsframe.Close, Code: 1000, Reason: "bye"}}, 0},
		{"5.5.1 close of one byte", clientFrame(fin|closing, "\x03"), nil, 1002},
		{"5.5.1 reason of 123 bytes", clientFrame(fin|closing, "\x0f\xa0"+strings.Repeat("r", 123)), []step{{Kind: wsframe.Close, Code: 4000, Reason: strings.Repeat("r", 123)}}, 0},
		{"5.5.1 reason that is not UTF-8", clientFrame(fin|closing, "\x03\xe8\xc3\x28"), nil, 1007},
		{"5.5.1 reason that ends in a rune", clientFrame(fin|closing, "\x03\xe8\xe2\x82"), nil, 1007},
		{"5.5.2 empty ping", clientFrame(fin|ping, ""), []step{{Kind: wsframe.Ping}}, 0},
		{"5.5.2 ping is no text", clientFrame(fin|ping, "\xff"), []step{{Kind: wsframe.Ping, Payload: "\xff"}}, 0},

		{"5.2 length of 0 in two bytes", []byte{0x82, 0xfe, 0, 0}, nil, 1002},
		{"5.2 length of 125 in two bytes", []byte{0x82, 0xfe, 0, 125}, nil, 1002},
		{"5.2 length of 65535 in eight bytes", []byte{0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, nil, 1002},
		{"5.2 highest bit of the length", []byte{0x82, 0xff, 0x80, 0, 0, 0, 0, 1, 0, 0}, nil, 1002},
		{"5.2 all bits of the length", []byte{0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, nil, 1002},

		{"limit", clientFrame(fin|bin, strings.Repeat("x", 100)), []step{message(B, strings.Repeat("x", 100))}, 0},
		{"limit and one", clientFrame(fin|bin, strings.Repeat("x", 101)), nil, 1009},
		{"too big by its header alone", []byte{0x82, 0xfe, 0, long}, nil, 1009},
		{"largest length there is", []byte{0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, nil, 1009},
		{"limit in fragments", join(clientFrame(bin, strings.Repeat("x", 60)), clientFrame(fin|cont, strings.Repeat("y", 40))), []step{fragment(B, strings.Repeat("x", 60)), lastFragment(B, strings.Repeat("y", 40))}, 0},
		{"limit and one in fragments", join(clientFrame(bin, strings.Repeat("x", 60)), clientFrame(cont, strings.Repeat("y", 41))), []step{fragment(B, strings.Repeat("x", 60))}, 1009},
		{"wrapping sum of fragments", join(clientFrame(bin, "x"), []byte{0x00, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), []step{fragment(B, "x")}, 1009},
		{"control beside a full message", join(clientFrame(bin, strings.Repeat("x", 100)), clientFrame(fin|ping, "p"), clientFrame(fin|cont, "")), []step{fragment(B, strings.Repeat("x", 100)), pinged, lastFragment(B, "")}, 0},
		{"each message has the whole limit", join(clientFrame(bin, strings.Repeat("x", 99)), clientFrame(fin|cont, "y"), clientFrame(fin|bin, strings.Repeat("z", 100))),
			[]step{fragment(B, strings.Repeat("x", 99)), lastFragment(B, "y"), message(B, strings.Repeat("z", 100))}, 0},

		{"8.1 binary is no text", clientFrame(fin|bin, "\xff\xfe"), []step{message(B, "\xff\xfe")}, 0},
		{"8.1 text", clientFrame(fin|text, "\xff"), nil, 1007},
		{"8.1 text that ends in a rune", clientFrame(fin|text, "ab\xe2\x82"), nil, 1007},
		{"8.1 bad text at once", join(clientFrame(text, "ok\xf5")), nil, 1007},
		{"8.1 rune cut by a control frame", join(clientFrame(text, "\xe2"), clientFrame(fin|ping, "p"), clientFrame(fin|cont, "\x82\xac")), []step{fragment(T, "\xe2"), pinged, lastFragment(T, "\x82\xac")}, 0},
		{"8.1 cut rune and empty fragments", join(clientFrame(text, "\xf0\x9f"), clientFrame(cont, ""), clientFrame(cont, "\x98"), clientFrame(cont, ""), clientFrame(fin|cont, "\x80")),
			[]step{fragment(T, "\xf0\x9f"), fragment(T, ""), fragment(T, "\x98"), fragment(T, ""), lastFragment(T, "\x80")}, 0},
		{"8.1 cut rune never completed", join(clientFrame(text, "\xe2\x82"), clientFrame(fin|cont, "")), []step{fragment(T, "\xe2\x82")}, 1007},
		{"8.1 no rest of a rune in the next message", join(clientFrame(text, "a\xe2"), clientFrame(fin|cont, "\x82\xac"), clientFrame(fin|text, "\xac")), []step{fragment(T, "a\xe2"), lastFragment(T, "\x82\xac")}, 1007},
	} {
		got, code := read(t, slices.Clone(tc.in), 100)
		if !slices.Equal(got, tc.want) || code != tc.code {
			t.Errorf("%s:\n got %+v, error %d\nwant %+v, error %d", tc.name, got, code, tc.want, tc.code)
		}
	}
}

// Every first byte, outside and inside of a fragmented message, with and without a mask.
func TestRFC6455FirstByte(t *testing.T) {
	t.Parallel()
	for b0 := range 256 {
		for _, inside := range []bool{false, true} {
			for _, masked := range []bool{false, true} {
				frame := clientFrame(byte(b0), "")
				if !masked {
					frame = []byte{byte(b0), 0}
				}
				var before []byte
				if inside {
					before = clientFrame(text, "a")
				}
				op := b0 & 0x0f
				data, control := op <= 2, op >= 8 && op <= 10
				ok := masked && b0&0x70 == 0 && (data && inside == (op == 0) || control && b0&fin != 0)
				got, code := read(t, join(before, frame), 10)
				if want := map[bool]uint16{true: 0, false: 1002}[ok]; code != want {
					t.Errorf("first byte %#02x, inside %t, masked %t: error %d, want %d after %+v", b0, inside, masked, code, want, got)
				}
			}
		}
	}
}

func TestRFC6455CloseCodes(t *testing.T) {
	t.Parallel()
	valid := map[int]bool{1000: true, 1001: true, 1002: true, 1003: true, 1007: true, 1008: true, 1009: true, 1010: true, 1011: true,
		1012: true, 1013: true, 1014: true} // section 7.4.1, and the registry as of 2025
	for c := 3000; c <= 4999; c++ { // section 7.4.2
		valid[c] = true
	}
	for c := range 1 << 16 {
		got, code := read(t, clientFrame(fin|closing, binary.BigEndian.AppendUint16(nil, uint16(c))), 10)
		if ok := len(got) == 1 && got[0].Kind == wsframe.Close && int(got[0].Code) == c && code == 0; ok != valid[c] {
			t.Errorf("close code %d: %+v, error %d", c, got, code)
		}
		if !valid[c] && code != 1002 {
			t.Errorf("close code %d: error %d, want 1002", c, code)
		}
	}
}

// texts are around the edges of UTF-8: of lengths, surrogates, overlong forms and the last code point.
var texts = []string{
	"κόσμε", "Hello-µ@ßöäüàá-UTF-8!!", "a\u0080\u07ff\u0800\uffff\U00010000\U0010ffff", "\ud7ff\ue000", "\x00\x7f", "日本語テキスト", "👩‍👩‍👧‍👦 é",
	"\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf",
	"\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xff", "\xfe", "\x80", "\xbf", "ab\xe2\x28\xa1", "ab\xe2\x82", "κό\xcesme",
	"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited", "\xf0\x28\x8c\xbc", "\xf0\x90\x28\xbc", "\xf0\x28\x8c\x28", "ok\xf4",
}

// Each text as one message, at every split into two and three fragments, and byte by byte: the verdict must be the same, and must come no
// later than with the fragment after which no continuation is UTF-8 any more.
func TestRFC6455TextAtEverySplit(t *testing.T) {
	t.Parallel()
	for _, s := range texts {
		checkText(t, s)
		for i := range len(s) + 1 {
			checkText(t, s[:i], s[i:])
			for j := i; j <= len(s); j++ {
				checkText(t, s[:i], s[i:j], s[j:])
			}
		}
		checkText(t, strings.Split(strings.ToValidUTF8(s, "?"), "")...)
		var single []string
		for i := range len(s) {
			single = append(single, s[i:i+1])
		}
		checkText(t, append(single, "")...)
	}
}

func checkText(t *testing.T, parts ...string) {
	t.Helper()
	var in []byte
	fails, sofar := -1, ""
	for i, p := range parts {
		b0 := cont
		if i == 0 {
			b0 = text
		}
		if i == len(parts)-1 {
			b0 |= fin
		}
		in = append(in, clientFrame(b0, p)...)
		sofar += p
		if fails < 0 && (i == len(parts)-1 && !utf8.ValidString(sofar) || !canBecomeUTF8(sofar)) {
			fails = i
		}
	}
	got, code := read(t, in, 1000)
	switch {
	case fails < 0 && (code != 0 || len(got) != len(parts)):
		t.Errorf("%q: error %d after %d fragments", parts, code, len(got))
	case fails >= 0 && (code != 1007 || len(got) != fails):
		t.Errorf("%q: error %d after %d fragments, want 1007 after %d", parts, code, len(got), fails)
	}
}

// canBecomeUTF8 reports whether s is the start of some valid text, by trying all ends that a rune may have.
func canBecomeUTF8(s string) bool {
	for _, end := range []string{"", "\x80", "\xbf", "\x80\x80", "\xbf\xbf", "\x80\x80\x80", "\xbf\xbf\xbf", "\xbf\x80", "\x80\xbf", "\x90\x80\x80", "\x8f\xbf\xbf", "\x9f\xbf", "\xa0\x80"} {
		if utf8.ValidString(s + end) {
			return true
		}
	}
	return false
}

// A limit that makes no sense is none below zero, and never more than MaxMessage.
func TestMessageLimits(t *testing.T) {
	t.Parallel()
	header := func(n uint64) []byte {
		return append(binary.BigEndian.AppendUint64([]byte{0x82, 0xff}, n), testKey[:]...)
	}
	for _, tc := range []struct {
		limit int
		in    []byte
		need  int
		code  uint16
	}{
		{-1, clientFrame(fin|bin, "x"), 0, 1009},
		{0, clientFrame(fin|bin, "x"), 0, 1009},
		{1 << 62, header(wsframe.MaxMessage), 14 + wsframe.MaxMessage, 0},
		{1 << 62, header(wsframe.MaxMessage + 1), 0, 1009},
		{70000, header(70000), 70014, 0},
		{70000, header(70001), 0, 1009},
	} {
		t.Run(fmt.Sprint(tc.limit, len(tc.in)), func(t *testing.T) {
			var r wsframe.Reader
			_, n, need, err := r.Next(tc.in, tc.limit)
			if tc.code == 0 && (err != nil || n != 0 || need != tc.need) {
				t.Errorf("took %d, needs %d, want %d; %v", n, need, tc.need, err)
			}
			if tc.code != 0 && (err == nil || frameCode(t, err) != tc.code) {
				t.Errorf("%v, want code %d", err, tc.code)
			}
		})
	}
	var r wsframe.Reader
	if ev, _, _, err := r.Next(clientFrame(fin|bin, ""), -1); err != nil || ev.Kind != wsframe.Message {
		t.Errorf("the empty message under a negative limit: %+v, %v", ev, err)
	}
}
