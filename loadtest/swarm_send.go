package loadtest

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/proto/frame"
)

// tokenLife is how long the tokens of sessions are valid.
const tokenLife = 24 * time.Hour

// login sends the Connect of a session.
func (w *swarm) login(c *session) {
	body, err := w.connectBody(w.spec.First + int(c.n))
	if err != nil {
		w.lose(c, err)
		return
	}
	w.send(c, w.wrap(body))
}

// connectBody is the Connect of the n-th session, with its two tags.
func (w *swarm) connectBody(n int) ([]byte, error) {
	token, err := auth.Mint(w.key, auth.Claims{
		User: userID(n), Issued: w.issued, Expires: w.issued.Add(tokenLife), Subscribe: []string{"*"},
	})
	if err != nil {
		return nil, fmt.Errorf("make a token: %w", err)
	}
	c := frame.Connect{Token: []byte(token), Device: []byte(deviceID(n)), Attempt: 1}
	if !w.spec.Apart {
		c.Tags = [][]byte{[]byte(ownTag(n)), []byte(commonTag)}
	}
	return frame.AppendConnect(nil, &c), nil
}

// subscribe joins the tags of a session that has logged in.
func (w *swarm) subscribe(c *session) {
	own := ownTag(w.spec.First + int(c.n))
	w.send(c, w.wrap(frame.AppendSubscribe(nil, &frame.Subscribe{
		ID: subscribeID, Tags: []frame.TagPosition{{Tag: []byte(own)}, {Tag: []byte(commonTag)}},
	})))
}

// beat sends a heartbeat.
func (w *swarm) beat(c *session) {
	if c.phase != phaseLive || w.byFD[c.fd] != c {
		return
	}
	c.beating = true
	w.beating++
	w.send(c, w.wrap(nil))
}

// wrap makes the bytes of a frame, valid until the next call.
func (w *swarm) wrap(body []byte) []byte {
	w.wbuf = w.wbuf[:0]
	if !w.webSocket() {
		w.wbuf = frame.AppendStream(w.wbuf, body)
		return w.wbuf
	}
	// One binary message. The mask must be there (RFC 6455 section 5.3); that it is hard to guess matters to proxies only.
	const fin, binaryMessage, masked, mask = 0x80, 2, 0x80, 0x5a
	w.wbuf = append(w.wbuf, fin|binaryMessage)
	if len(body) < 126 {
		w.wbuf = append(w.wbuf, masked|byte(len(body)))
	} else {
		w.wbuf = append(w.wbuf, masked|126)
		w.wbuf = binary.BigEndian.AppendUint16(w.wbuf, uint16(len(body)))
	}
	w.wbuf = append(w.wbuf, mask, mask, mask, mask)
	for _, b := range body {
		w.wbuf = append(w.wbuf, b^mask)
	}
	return w.wbuf
}

// upgrade sends the opening handshake of WebSocket.
func (w *swarm) upgrade(c *session) {
	w.wbuf = fmt.Appendf(w.wbuf[:0], "GET /connect?user=%s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: klink.v1\r\n\r\n", userID(w.spec.First+int(c.n)), w.spec.Addr)
	w.send(c, w.wbuf)
}

// send gives bytes to the socket. Clients say little: a socket that does not take it at once is one whose server has stopped.
func (w *swarm) send(c *session, b []byte) {
	if c.out != nil {
		w.seal = c.out.Seal(w.seal[:0], b)
		b = w.seal
	}
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if e != 0 {
		w.lose(c, e)
	} else if int(n) != len(b) {
		w.lose(c, fmt.Errorf("the socket took %d of %d bytes", n, len(b)))
	}
}

// messages finds the messages in what a WebSocket server sends, and the kinds of the frames in them, as floor.Stream does for streams.
type messages struct {
	header [10]byte
	have   uint8
	first  bool // the first byte of the payload is next
	within bool
	kind   uint8
	left   uint64
}

// closeFrame stands for a close frame of WebSocket.
const closeFrame = 31

// next takes bytes up to the end of one message.
func (m *messages) next(b []byte) (kind uint8, done bool, rest []byte) {
	for len(b) > 0 {
		if !m.within {
			m.header[m.have] = b[0]
			m.have++
			b = b[1:]
			if !m.begin() {
				continue
			}
		}
		if m.left > 0 {
			if len(b) == 0 {
				break
			}
			if m.first {
				m.first = false
				if m.kind != closeFrame {
					m.kind = b[0] >> 3
				}
			}
			n := min(uint64(len(b)), m.left)
			b = b[n:]
			m.left -= n
		}
		if m.left == 0 {
			m.within = false
			return m.kind, true, b
		}
	}
	return 0, false, b
}

// begin reports whether the header is complete.
func (m *messages) begin() bool {
	if m.have < 2 {
		return false
	}
	size := m.header[1] & 0x7f
	switch {
	case size < 126:
		m.left = uint64(size)
	case size == 126 && m.have == 4:
		m.left = uint64(binary.BigEndian.Uint16(m.header[2:]))
	case size == 127 && m.have == 10:
		m.left = binary.BigEndian.Uint64(m.header[2:])
	default:
		return false
	}
	m.have, m.within, m.first, m.kind = 0, true, true, 0
	if m.header[0]&0x0f == 8 {
		m.kind = closeFrame
	}
	return true
}
