package wsframe_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/klinkio/klink/proto/wsframe"
)

// FuzzParseUpgrade holds the parser against net/http: a request that is accepted must mean the same to both.
func FuzzParseUpgrade(f *testing.F) {
	f.Add([]byte(request(good...)))
	f.Add([]byte(with("", "Content-Length: 0|Authorization: Bearer a|Cookie: x\xff")))
	f.Add([]byte(with("GET", "GET //a/%2e?b?c HTTP/1.1")))
	f.Add([]byte(with("Host:", "Host: [::1]:7443")))
	f.Add([]byte(with("Connection:", "Connection: keep-alive ,Upgrade|connection: x")))
	f.Add([]byte(with("Connection:", "Connection: ,Upgrade")))
	f.Add([]byte(with("", "X: a| folded")))
	f.Add([]byte(with("", "Transfer-Encoding: chunked")))
	f.Add([]byte("GET / HTTP/1.1\nHost: a\n\n"))
	f.Add([]byte("POST / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("\x16\x03\x01"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var u wsframe.Upgrade
		n, err := wsframe.ParseUpgrade(in, &u)
		if err != nil {
			e, refused := errors.AsType[*wsframe.RequestError](err)
			switch {
			case n != 0:
				t.Errorf("took %d beside %v", n, err)
			case errors.Is(err, wsframe.ErrShort):
				if len(in) >= wsframe.MaxRequest {
					t.Errorf("%d bytes are short", len(in))
				}
			case !refused || !slices.Contains([]int{400, 405, 426, 431, 505}, e.Status):
				t.Errorf("refused with %v", err)
			}
			return
		}
		if n > len(in) || n > wsframe.MaxRequest || !bytes.HasSuffix(in[:n], []byte("\r\n\r\n")) {
			t.Fatalf("took %d of %d bytes", n, len(in))
		}
		sameAsHTTP(t, in[:n], &u)
		if _, err := wsframe.ParseUpgrade(in[:n-1], &wsframe.Upgrade{}); !errors.Is(err, wsframe.ErrShort) {
			t.Errorf("without the last byte: %v", err)
		}
	})
}

func sameAsHTTP(t *testing.T, in []byte, u *wsframe.Upgrade) {
	t.Helper()
	target := string(u.Path)
	if bytes.Contains(in[:bytes.IndexByte(in, '\r')], []byte("?")) {
		target += "?" + string(u.Query)
	}
	if _, err := url.ParseRequestURI(target); err != nil {
		return // an escape that net/http decodes and this package does not look at
	}
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(in)))
	if err != nil {
		t.Fatalf("net/http: %v", err)
	}
	for _, f := range []struct{ name, got, want string }{
		{"method", "GET", req.Method},
		{"version", "HTTP/1.1", req.Proto},
		{"target", target, req.RequestURI},
		{"host", string(u.Host), req.Host},
		{"origin", string(u.Origin), req.Header.Get("Origin")},
		{"authorization", string(u.Authorization), req.Header.Get("Authorization")},
		{"websocket version", "13", req.Header.Get("Sec-Websocket-Version")},
	} {
		if f.got != f.want {
			t.Errorf("%s: %q, net/http has %q", f.name, f.got, f.want)
		}
	}
	if req.ContentLength != 0 || len(req.TransferEncoding) > 0 {
		t.Errorf("a body of %d bytes, %q", req.ContentLength, req.TransferEncoding)
	}
	if !websocket.IsWebSocketUpgrade(req) {
		if emptyElement(req.Header["Connection"]) || emptyElement(req.Header["Upgrade"]) {
			return // RFC 9110 section 5.6.1 tells recipients to pass over empty elements; gorilla does not
		}
		t.Error("gorilla sees no upgrade")
	}
	// The same key: the answer must be the one that gorilla gives.
	conn := &memory{}
	if _, err := (&websocket.Upgrader{CheckOrigin: anyOrigin}).Upgrade(hijack{conn}, req, nil); err != nil {
		t.Fatalf("gorilla: %v", err)
	}
	if !strings.Contains(conn.written.String(), "\r\nSec-WebSocket-Accept: "+acceptOf(u)+"\r\n") {
		t.Errorf("accepted with %q, gorilla says %q", acceptOf(u), conn.written.String())
	}
}

// emptyElement reports whether one of the lists has an element with nothing in it.
func emptyElement(lists []string) bool {
	for _, l := range lists {
		for e := range strings.SplitSeq(l, ",") {
			if strings.Trim(e, " \t") == "" {
				return true
			}
		}
	}
	return false
}

func anyOrigin(*http.Request) bool { return true }

// memory is a connection that has said all it will say.
type memory struct {
	in      bytes.Reader
	written bytes.Buffer
}

func (m *memory) Read(p []byte) (int, error)       { return m.in.Read(p) }
func (m *memory) Write(p []byte) (int, error)      { return m.written.Write(p) }
func (m *memory) Close() error                     { return nil }
func (m *memory) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (m *memory) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (m *memory) SetDeadline(time.Time) error      { return nil }
func (m *memory) SetReadDeadline(time.Time) error  { return nil }
func (m *memory) SetWriteDeadline(time.Time) error { return nil }

// hijack hands the connection to gorilla's Upgrader.
type hijack struct{ conn *memory }

func (h hijack) Header() http.Header         { return http.Header{} }
func (h hijack) Write(p []byte) (int, error) { return len(p), nil }
func (h hijack) WriteHeader(int)             {}
func (h hijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReaderSize(h.conn, 512), bufio.NewWriterSize(h.conn, 512)), nil
}

const fuzzLimit = 300 // bytes of a message

// FuzzReader reads frames in one piece and in chunks, and holds what it gets against gorilla's reader. With build the input is
// a list of frames (first byte, length, payload), which makes valid masks and lengths likely; without it is the bytes themselves.
func FuzzReader(f *testing.F) {
	f.Add(false, uint8(1), join(clientFrame(text, "Hel"), clientFrame(fin|ping, "p"), clientFrame(fin|cont, "lo"), clientFrame(fin|closing, "\x03\xe8bye")))
	f.Add(false, uint8(5), join(clientFrame(fin|bin, strings.Repeat("x", 200)), clientFrame(bin, strings.Repeat("x", 200)), clientFrame(cont, strings.Repeat("x", 101))))
	f.Add(false, uint8(7), []byte{0x82, 0xfe, 0, 5, 0, 0, 0, 0, 1, 2, 3, 4, 5})
	f.Add(false, uint8(7), []byte{0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(false, uint8(3), []byte("\x81\x05Hello"))
	f.Add(false, uint8(3), clientFrame(fin|closing, "\x03\xf6"))
	f.Add(true, uint8(2), []byte("\x01\x02\xf0\x9f\x89\x01p\x00\x01\x98\x80\x01\x80\x82\x00\x88\x02\x0f\xa1"))
	f.Add(true, uint8(9), []byte("\x02\x01a\x82\x01b"))
	f.Add(true, uint8(9), []byte("\x81\x02\xc3\x28\xc1\x00"))
	f.Add(true, uint8(9), []byte("\x88\x01a\x8a\x00"))
	f.Fuzz(func(t *testing.T, build bool, chunk uint8, in []byte) {
		if build {
			in = frames(in)
		}
		whole, text := readAll(t, in, len(in))
		chunks, chunksText := readAll(t, in, int(chunk)+1)
		if !slices.Equal(whole, chunks) || text != chunksText {
			t.Fatalf("in one piece %+v, %q\nin pieces of %d: %+v, %q", whole, text, int(chunk)+1, chunks, chunksText)
		}
		sameAsGorilla(t, in, assemble(t, whole), text)
	})
}

// frames makes frames of a list of first byte, length and payload.
func frames(list []byte) (in []byte) {
	for len(list) >= 2 {
		b0, rest := list[0], list[2:]
		n := min(int(list[1]), len(rest))
		in = append(in, clientFrame(b0, rest[:n])...)
		list = rest[n:]
	}
	return in
}

// readAll reads frames as they come in chunks, waits for as many bytes as it was told to, and returns the text of the error, if there was one.
func readAll(t *testing.T, in []byte, chunk int) (steps []step, failed string) {
	t.Helper()
	var r wsframe.Reader
	var buf []byte
	need := 0
	for len(in) > 0 {
		n := min(chunk, len(in))
		buf, in = append(buf, in[:n]...), in[n:]
		for len(buf) > 0 && len(buf) >= need {
			ev, n, want, err := r.Next(buf, fuzzLimit)
			if err != nil {
				frameCode(t, err)
				return steps, err.Error()
			}
			if ev.Kind == wsframe.None {
				if n != 0 || want <= len(buf) || want > fuzzLimit+14 {
					t.Fatalf("took %d of %d bytes, needs %d", n, len(buf), want)
				}
				need = want
				break
			}
			need = 0
			steps = append(steps, toStep(ev))
			buf = buf[n:]
			if ev.Kind == wsframe.Close {
				return steps, ""
			}
		}
	}
	return steps, ""
}

// assemble puts fragments together, so that messages stand where their last fragment was.
func assemble(t *testing.T, steps []step) (events []step) {
	t.Helper()
	parts := ""
	for _, s := range steps {
		if s.Kind != wsframe.Message && s.Kind != wsframe.Fragment {
			events = append(events, s)
			continue
		}
		if parts += s.Payload; len(parts) > fuzzLimit {
			t.Fatalf("a message of %d bytes", len(parts))
		}
		if s.Final {
			events = append(events, message(s.Op, parts))
			parts = ""
		}
	}
	return events
}

// gorillaReads is what gorilla's server reads, and the error that it ends with.
func gorillaReads(t *testing.T, in []byte) (events []step, err error) {
	t.Helper()
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request(good...))))
	if err != nil {
		t.Fatal(err)
	}
	conn := &memory{}
	c, err := (&websocket.Upgrader{CheckOrigin: anyOrigin}).Upgrade(hijack{conn}, req, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.in.Reset(in)
	c.SetReadLimit(fuzzLimit)
	c.SetPingHandler(func(p string) error {
		events = append(events, step{Kind: wsframe.Ping, Payload: p})
		return nil
	})
	c.SetPongHandler(func(p string) error {
		events = append(events, step{Kind: wsframe.Pong, Payload: p})
		return nil
	})
	c.SetCloseHandler(func(code int, reason string) error {
		events = append(events, step{Kind: wsframe.Close, Code: uint16(code), Reason: reason})
		return nil
	})
	for {
		kind, p, err := c.ReadMessage()
		if err != nil {
			return events, err
		}
		events = append(events, message(wsframe.Op(kind), string(p)))
	}
}

// sameAsGorilla checks that gorilla reads the same. failed is the text of our error. Gorilla is laxer in four ways, all of which the RFC is
// clear about: it does not check text, accepts lengths that are not in their shortest form and a close frame of one byte, and it does not know
// close code 1014.
func sameAsGorilla(t *testing.T, in []byte, ours []step, failed string) {
	t.Helper()
	theirs, err := gorillaReads(t, in)
	if n := len(ours); n > 0 && ours[n-1].Code == 1014 {
		ours = ours[:n-1]
	}
	lax := failed != "" && slices.ContainsFunc([]string{"UTF-8", "shortest form", "malformed code"}, func(s string) bool { return strings.Contains(failed, s) })
	if lax && len(theirs) > len(ours) {
		theirs = theirs[:len(ours)]
	}
	if !slices.Equal(ours, theirs) {
		t.Fatalf("ours %+v, %q\ngorilla's %+v, %v", ours, failed, theirs, err)
	}
	if failed == "" || lax || strings.Contains(failed, "larger than the limit") { // of which gorilla wants to see the mask first
		return
	}
	if errors.Is(err, io.EOF) || websocket.IsCloseError(err, websocket.CloseAbnormalClosure) {
		t.Fatalf("%q, but gorilla has nothing against it", failed)
	}
}
