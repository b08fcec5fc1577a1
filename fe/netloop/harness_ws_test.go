package netloop

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// rawWS is a WebSocket client that sends what it is told, right or wrong.
type rawWS struct {
	net.Conn
	r *bufio.Reader
}

// upgradeRequest is a right request; extra are more header lines.
func upgradeRequest(host, subprotocol, extra string) string {
	return "GET /connect HTTP/1.1\r\nHost: " + host + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: " + subprotocol + "\r\n" + extra + "\r\n"
}

func (ts *testServer) rawWS(t testing.TB, subprotocol string) *rawWS {
	t.Helper()
	c := ts.tcp(t, 0)
	if _, err := io.WriteString(c, upgradeRequest(ts.addr, subprotocol, "")); err != nil {
		t.Fatal(err)
	}
	w := &rawWS{c, bufio.NewReader(c)}
	resp, err := http.ReadResponse(w.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 101 || resp.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("answer to the upgrade: %s %v", resp.Status, resp.Header)
	}
	return w
}

// wsHead are the first bits of a frame.
const (
	wsFin  = 0x80
	wsRsv1 = 0x40
	wsRsv2 = 0x20
	wsRsv3 = 0x10
	wsMask = 0x80
)

// clientFrame is a masked frame with these first bits.
func clientFrame(first byte, payload []byte) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, wsMask|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, wsMask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, wsMask|127), uint64(n))
	}
	mask := [4]byte{0x1f, 0x2e, 0x3d, 0x4c}
	b = append(b, mask[:]...)
	for i, c := range payload {
		b = append(b, c^mask[i%4])
	}
	return b
}

type wsFrame struct {
	op      byte
	payload string
}

// frame reads one frame of the server: whole, and not masked.
func (w *rawWS) frame() (f wsFrame, err error) {
	var head [2]byte
	if _, err = io.ReadFull(w.r, head[:]); err != nil {
		return f, err
	}
	if head[0]&0xf0 != wsFin || head[1]&wsMask != 0 {
		return f, fmt.Errorf("a frame of the server begins with %x", head)
	}
	n := uint64(head[1])
	switch n {
	case 126:
		var b [2]byte
		_, err = io.ReadFull(w.r, b[:])
		n = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		_, err = io.ReadFull(w.r, b[:])
		n = binary.BigEndian.Uint64(b[:])
	}
	if err != nil {
		return f, err
	}
	p := make([]byte, n)
	_, err = io.ReadFull(w.r, p)
	return wsFrame{head[0] & 0x0f, string(p)}, err
}

// slowly writes p byte by byte.
func slowly(c net.Conn, p []byte) error {
	for i := range p {
		if _, err := c.Write(p[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}
