package netloop

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
)

// inbox collects the bodies that the handlers get.
type inbox struct {
	mu     sync.Mutex
	bodies []string
}

func (b *inbox) take(_ *echo, _ klink.Handle, body []byte) bool {
	b.mu.Lock()
	b.bodies = append(b.bodies, string(body))
	b.mu.Unlock()
	return true
}

func (b *inbox) empty() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.bodies
	b.bodies = nil
	return out
}

// wsCase is one way to speak RFC 6455, or to break it. The case ends with the close frame that the server answers, which is the
// answer to closing when in does not break anything.
type wsCase struct {
	name   string
	sub    string
	in     []byte
	bodies []string  // that the handler gets
	frames []wsFrame // that the client gets before the close frame, but a Disconnect before codes other than 1000
	code   uint16    // of the server's close frame; 0: it has none
	why    link.CloseReason
}

func closeFrame(code uint16, reason string) []byte {
	return clientFrame(wsFin|8, append(binary.BigEndian.AppendUint16(nil, code), reason...))
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func rfc6455Cases() []wsCase {
	const bin, js = SubprotocolBinary, SubprotocolJSON
	normal := closeFrame(1000, "")
	p125 := strings.Repeat("p", 125)
	cases := []wsCase{
		{"one message", bin, join(clientFrame(wsFin|2, []byte("hello")), normal), []string{"hello"}, nil, 1000, link.ClosePeer},
		{"empty message", bin, join(clientFrame(wsFin|2, nil), normal), []string{""}, nil, 1000, link.ClosePeer},
		{"fragments", bin, join(clientFrame(2, []byte("a")), clientFrame(0, nil), clientFrame(0, []byte("b")), clientFrame(wsFin, []byte("c")), normal),
			[]string{"abc"}, nil, 1000, link.ClosePeer},
		{"empty fragments", bin, join(clientFrame(2, nil), clientFrame(0, nil), clientFrame(wsFin, nil), normal), []string{""}, nil, 1000, link.ClosePeer},
		{"control frames between fragments", bin,
			join(clientFrame(2, []byte("a")), clientFrame(wsFin|9, []byte("1")), clientFrame(wsFin|10, nil), clientFrame(0, []byte("b")),
				clientFrame(wsFin|9, []byte(p125)), clientFrame(wsFin, []byte("c")), clientFrame(wsFin|2, []byte("d")), normal),
			[]string{"abc", "d"}, []wsFrame{{10, "1"}, {10, p125}}, 1000, link.ClosePeer},
		{"ping without payload", bin, join(clientFrame(wsFin|9, nil), normal), nil, []wsFrame{{10, ""}}, 1000, link.ClosePeer},
		{"pong that nobody asked for", bin, join(clientFrame(wsFin|10, []byte("x")), normal), nil, nil, 1000, link.ClosePeer},
		{"close inside a message", bin, join(clientFrame(2, []byte("a")), normal), nil, nil, 1000, link.ClosePeer},
		{"nothing counts after close", bin, join(normal, clientFrame(wsFin|2, []byte("late")), clientFrame(0x7f, nil)), nil, nil, 1000, link.ClosePeer},
		{"close without code", bin, clientFrame(wsFin|8, nil), nil, nil, 0, link.ClosePeer},
		{"close with a reason", bin, closeFrame(1001, "κόσμε"), nil, nil, 1001, link.ClosePeer},
		{"close with half a code", bin, clientFrame(wsFin|8, []byte{3}), nil, nil, 1002, link.CloseProtocol},
		{"close with a reason that is not text", bin, closeFrame(1000, "\xff"), nil, nil, 1007, link.CloseProtocol},
		{"close longer than 125", bin, closeFrame(1000, p125), nil, nil, 1002, link.CloseProtocol},
		{"close in fragments", bin, clientFrame(8, nil), nil, nil, 1002, link.CloseProtocol},
		{"ping longer than 125", bin, clientFrame(wsFin|9, []byte(p125+"p")), nil, nil, 1002, link.CloseProtocol},
		{"ping in fragments", bin, clientFrame(9, nil), nil, nil, 1002, link.CloseProtocol},
		{"reserved bit 1", bin, clientFrame(wsFin|wsRsv1|2, nil), nil, nil, 1002, link.CloseProtocol},
		{"reserved bit 2", bin, clientFrame(wsFin|wsRsv2|2, nil), nil, nil, 1002, link.CloseProtocol},
		{"reserved bit 3", bin, clientFrame(wsFin|wsRsv3|2, nil), nil, nil, 1002, link.CloseProtocol},
		{"reserved bit of a continuation", bin, join(clientFrame(2, nil), clientFrame(wsFin|wsRsv1, nil)), nil, nil, 1002, link.CloseProtocol},
		{"no mask", bin, []byte{wsFin | 2, 1, 'x'}, nil, nil, 1002, link.CloseProtocol},
		{"continuation of nothing", bin, clientFrame(wsFin, []byte("x")), nil, nil, 1002, link.CloseProtocol},
		{"message inside a message", bin, join(clientFrame(2, []byte("a")), clientFrame(wsFin|2, []byte("b"))), nil, nil, 1002, link.CloseProtocol},
		{"16-bit length that fits in 7", bin, []byte{wsFin | 2, wsMask | 126, 0, 1, 1, 2, 3, 4, 'x'}, nil, nil, 1002, link.CloseProtocol},
		{"64-bit length that fits in 16", bin, []byte{wsFin | 2, wsMask | 127, 0, 0, 0, 0, 0, 0, 1, 0, 1, 2, 3, 4}, nil, nil, 1002, link.CloseProtocol},
		{"length with its highest bit set", bin, []byte{wsFin | 2, wsMask | 127, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}, nil, nil, 1002, link.CloseProtocol},
		{"text in the binary subprotocol", bin, clientFrame(wsFin|1, []byte("x")), nil, nil, 1003, link.CloseProtocol},
		{"bytes in the JSON subprotocol", js, clientFrame(wsFin|2, []byte("{}")), nil, nil, 1003, link.CloseProtocol},
		{"too large, by its header", bin, []byte{wsFin | 2, wsMask | 127, 0, 0, 0, 0, 0, 1, 0, 1}, nil, nil, 1009, link.CloseTooLarge},
		{"too large, by gigabytes", bin, []byte{wsFin | 2, wsMask | 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, nil, nil, 1009, link.CloseTooLarge},
		{"too large, in fragments", bin, join(clientFrame(2, make([]byte, frame.MaxBody)), clientFrame(wsFin, []byte{1})), nil, nil, 1009, link.CloseTooLarge},
		{"as large as may be, in fragments", bin, join(clientFrame(2, make([]byte, 40000)), clientFrame(wsFin, make([]byte, frame.MaxBody-40000)), normal),
			[]string{strings.Repeat("\x00", frame.MaxBody)}, nil, 1000, link.ClosePeer},
		{"as large as may be", bin, join(clientFrame(wsFin|2, make([]byte, frame.MaxBody)), normal), []string{strings.Repeat("\x00", frame.MaxBody)}, nil, 1000, link.ClosePeer},
	}
	for _, op := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		cases = append(cases, wsCase{fmt.Sprintf("reserved opcode %d", op), bin, clientFrame(wsFin|op, nil), nil, nil, 1002, link.CloseProtocol})
	}
	for _, code := range []uint16{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999} {
		cases = append(cases, wsCase{fmt.Sprintf("close code %d", code), bin, closeFrame(code, ""), nil, nil, code, link.ClosePeer})
	}
	for _, code := range []uint16{0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		cases = append(cases, wsCase{fmt.Sprintf("close code %d", code), bin, closeFrame(code, ""), nil, nil, 1002, link.CloseProtocol})
	}
	return append(cases, textCases()...)
}

// textCases cut text at every place, and text that is none.
func textCases() (cases []wsCase) {
	const js = SubprotocolJSON
	good := `{"a":"κόσμε 𝄞 €\u00e9"}`
	for i := range len(good) + 1 {
		cases = append(cases, wsCase{fmt.Sprintf("text cut at %d", i), js,
			join(clientFrame(1, []byte(good[:i])), clientFrame(wsFin, []byte(good[i:])), closeFrame(1000, "")), []string{good}, nil, 1000, link.ClosePeer})
	}
	for name, bad := range map[string]string{
		"overlong": "a\xc0\xaf", "surrogate": "a\xed\xa0\x80", "too high": "a\xf4\x90\x80\x80", "lone continuation": "a\x80",
		"cut at the end": "a\xe2\x82", "cut inside": "a\xe2\x82b", "fe": "\xfe",
	} {
		for i := range len(bad) + 1 {
			cases = append(cases, wsCase{fmt.Sprintf("%s cut at %d", name, i), js,
				join(clientFrame(1, []byte(bad[:i])), clientFrame(wsFin, []byte(bad[i:]))), nil, nil, 1007, link.CloseProtocol})
		}
	}
	return cases
}

// TestRFC6455 plays every case through a real socket, whole and byte by byte.
func TestRFC6455(t *testing.T) {
	ts := serve(t, nil)
	var in inbox
	ts.onMessage(in.take)
	for _, tc := range rfc6455Cases() {
		t.Run(tc.name, func(t *testing.T) {
			ts.playWS(t, &in, &tc, func(c io.Writer) error { _, err := c.Write(tc.in); return err })
			if len(tc.in) < 500 {
				ts.playWS(t, &in, &tc, func(c io.Writer) error {
					for i := range tc.in {
						if _, err := c.Write(tc.in[i : i+1]); err != nil && tc.why == link.ClosePeer {
							return err
						}
					}
					return nil
				})
			}
		})
	}
}

func (ts *testServer) playWS(t *testing.T, in *inbox, tc *wsCase, write func(io.Writer) error) {
	t.Helper()
	before := ts.Stats().Closed[tc.why]
	w := ts.rawWS(t, tc.sub)
	sent := make(chan error, 1)
	go func() { sent <- write(w) }()
	var got []wsFrame
	var f wsFrame
	for {
		var err error
		if f, err = w.frame(); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		if f.op == 8 {
			break
		}
		got = append(got, f)
	}
	if tc.why != link.ClosePeer {
		if len(got) == 0 || !isDisconnect(tc, got[len(got)-1]) {
			t.Fatalf("no Disconnect before the close frame: %q", got)
		}
		got = got[:len(got)-1]
	}
	if !slices.Equal(got, tc.frames) {
		t.Errorf("the client got %q, want %q", got, tc.frames)
	}
	var code uint16
	if len(f.payload) >= 2 {
		code = binary.BigEndian.Uint16([]byte(f.payload))
	}
	if code != tc.code {
		t.Errorf("close code %d, want %d", code, tc.code)
	}
	if err := <-sent; err != nil {
		t.Errorf("write: %v", err)
	}
	if rest, err := io.ReadAll(w.r); err != nil || len(rest) > 0 {
		t.Errorf("behind the close frame: %q, %v", rest, err)
	}
	w.Close()
	ts.ended(t, tc.why, before+1)
	if b := in.empty(); !slices.Equal(b, tc.bodies) {
		t.Errorf("the handler got %d bodies: %.200q", len(b), b)
	}
}

func isDisconnect(tc *wsCase, f wsFrame) bool {
	if tc.sub == SubprotocolJSON {
		return f.op == 1 && strings.Contains(f.payload, "disconnect")
	}
	return f.op == 2 && len(f.payload) > 0
}

// TestPingKeepsAlive says that control frames are heard without being messages.
func TestPingKeepsAlive(t *testing.T) {
	ts := serve(t, nil)
	w := ts.rawWS(t, SubprotocolBinary)
	if _, err := w.Write(join(clientFrame(wsFin|9, []byte("1")), clientFrame(wsFin|10, nil))); err != nil {
		t.Fatal(err)
	}
	e, _ := ts.only(t)
	eventually(t, "both are heard", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return e.alive == 2 })
}
