package wsframe

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// The close codes that the reader answers with (RFC 6455, section 7.4.1).
const (
	CodeNormal   = 1000
	CodeProtocol = 1002
	CodeBadText  = 1007
	CodeTooBig   = 1009
)

// FrameError is a frame that breaks the protocol, with the close code that answers it.
type FrameError struct {
	Code uint16
	Text string
}

func (e *FrameError) Error() string { return e.Text }

var (
	errReserved  = &FrameError{CodeProtocol, "a reserved bit is set and no extension was agreed on"}
	errOpcode    = &FrameError{CodeProtocol, "a reserved opcode"}
	errUnmasked  = &FrameError{CodeProtocol, "a frame from the client is not masked"}
	errControl   = &FrameError{CodeProtocol, "a control frame is fragmented or longer than 125 bytes"}
	errNoStart   = &FrameError{CodeProtocol, "a continuation without a message"}
	errInside    = &FrameError{CodeProtocol, "a new message inside a fragmented one"}
	errLength    = &FrameError{CodeProtocol, "a length that is not in its shortest form"}
	errCloseBody = &FrameError{CodeProtocol, "a close frame with a malformed code"}
	errAfter     = &FrameError{CodeProtocol, "a frame after the close frame"}
	errText      = &FrameError{CodeBadText, "text that is not UTF-8"}
	errBig       = &FrameError{CodeTooBig, "the message is larger than the limit"}
)

// Kind is what a frame was.
type Kind uint8

// The kinds of events.
const (
	None     Kind = iota // the frame is not complete
	Message              // a whole message in one frame
	Fragment             // a part of a message, in order; Final: its last
	Ping
	Pong
	Close
)

// Event is one frame. Payload and Reason alias the input and are unmasked.
type Event struct {
	Kind    Kind
	Op      Op // of the message: text or binary
	Final   bool
	Payload []byte
	Code    uint16 // of Close; 1005: the frame named none
	Reason  []byte
}

// Reader is what must be kept between the frames of one connection: it has no pointer and no buffer. The zero Reader is ready.
type Reader struct {
	size   uint32 // bytes of the message in progress
	op     Op     // of the message in progress, 0: none
	pendN  uint8  // bytes of a rune that a fragment cut
	pend   [3]byte
	closed bool
}

// InMessage reports whether a fragmented message is in progress.
func (r *Reader) InMessage() bool { return r.op != 0 }

// Next reads one frame from the start of in, whose message may be at most max bytes. n is how many bytes it took; with kind
// None it took none and needs need bytes in all (at least: the length may not be known yet). After an error the connection
// must be closed with its code.
func (r *Reader) Next(in []byte, max int) (ev Event, n, need int, err error) {
	if len(in) < 2 {
		return ev, 0, 2, nil
	}
	op, fin := Op(in[0]&0x0f), in[0]&0x80 != 0
	if err := r.checkHeader(in[0], in[1], op, fin); err != nil {
		return ev, 0, 0, err
	}
	head, size, err := frameLength(in)
	if err != nil {
		return ev, 0, 0, err
	}
	if head == 0 {
		return ev, 0, lengthBytes(in[1]), nil
	}
	if op < OpClose && size > uint64(max)-min(uint64(max), uint64(r.size)) {
		return ev, 0, 0, errBig
	}
	total := head + 4 + int(size)
	if len(in) < total {
		return ev, 0, total, nil
	}
	payload := in[head+4 : total : total]
	Unmask(payload, binary.LittleEndian.Uint32(in[head:]))
	ev, err = r.event(op, fin, payload)
	return ev, total, 0, err
}

// checkHeader holds the first two bytes against the state.
func (r *Reader) checkHeader(b0, b1 byte, op Op, fin bool) error {
	switch {
	case r.closed:
		return errAfter
	case b0&0x70 != 0:
		return errReserved
	case op > OpBinary && op < OpClose || op > OpPong:
		return errOpcode
	case b1&0x80 == 0:
		return errUnmasked
	case op >= OpClose && (!fin || b1&0x7f > 125):
		return errControl
	case op == OpContinuation && r.op == 0:
		return errNoStart
	case (op == OpText || op == OpBinary) && r.op != 0:
		return errInside
	}
	return nil
}

// lengthBytes is how many bytes tell the length.
func lengthBytes(b1 byte) int {
	switch b1 & 0x7f {
	case 126:
		return 4
	case 127:
		return 10
	default:
		return 2
	}
}

// frameLength reads the payload's length; head is 0 when more bytes are needed for it.
func frameLength(in []byte) (head int, size uint64, err error) {
	head = lengthBytes(in[1])
	if len(in) < head {
		return 0, 0, nil
	}
	switch head {
	case 4:
		size = uint64(binary.BigEndian.Uint16(in[2:]))
		if size < 126 {
			return 0, 0, errLength
		}
	case 10:
		size = binary.BigEndian.Uint64(in[2:])
		if size < 1<<16 || size>>63 != 0 {
			return 0, 0, errLength
		}
	default:
		size = uint64(in[1] & 0x7f)
	}
	return head, size, nil
}

func (r *Reader) event(op Op, fin bool, p []byte) (Event, error) {
	switch op {
	case OpPing:
		return Event{Kind: Ping, Payload: p}, nil
	case OpPong:
		return Event{Kind: Pong, Payload: p}, nil
	case OpClose:
		return r.closeEvent(p)
	}
	start := r.op == 0
	if start {
		r.op = op
	}
	ev := Event{Kind: Fragment, Op: r.op, Final: fin, Payload: p}
	if start && fin {
		ev.Kind = Message
	}
	if r.op == OpText && !r.text(p, fin) {
		return Event{}, errText
	}
	r.size += uint32(len(p))
	if fin {
		r.op, r.size, r.pendN = 0, 0, 0
	}
	return ev, nil
}

func (r *Reader) closeEvent(p []byte) (Event, error) {
	r.closed = true
	if len(p) == 0 {
		return Event{Kind: Close, Code: 1005}, nil
	}
	if len(p) == 1 {
		return Event{}, errCloseBody
	}
	code := binary.BigEndian.Uint16(p)
	if !ValidCloseCode(code) {
		return Event{}, errCloseBody
	}
	if !utf8.Valid(p[2:]) {
		return Event{}, errText
	}
	return Event{Kind: Close, Code: code, Reason: p[2:]}, nil
}

// ValidCloseCode reports whether a close code may stand in a frame (section 7.4 and the registry that it founds).
func ValidCloseCode(c uint16) bool {
	switch {
	case c >= 3000 && c <= 4999:
		return true
	case c >= 1000 && c <= 1014:
		return c != 1004 && c != 1005 && c != 1006
	default:
		return false
	}
}

// text checks the next part of a text message, of which a rune may be cut by the fragments.
func (r *Reader) text(p []byte, fin bool) bool {
	if r.pendN > 0 {
		var buf [utf8.UTFMax]byte
		n := copy(buf[:], r.pend[:r.pendN])
		for len(p) > 0 && !utf8.FullRune(buf[:n]) {
			buf[n] = p[0]
			n++
			p = p[1:]
		}
		if !utf8.FullRune(buf[:n]) {
			r.pendN = uint8(copy(r.pend[:], buf[:n]))
			return !fin
		}
		if _, size := utf8.DecodeRune(buf[:n]); size != n {
			return false
		}
		r.pendN = 0
	}
	if !fin {
		for back := 1; back <= min(3, len(p)); back++ {
			if tail := p[len(p)-back:]; utf8.RuneStart(tail[0]) {
				if !utf8.FullRune(tail) {
					r.pendN = uint8(copy(r.pend[:], tail))
					p = p[:len(p)-back]
				}
				break
			}
		}
	}
	return utf8.Valid(p)
}

// Unmask takes the mask off (or puts it on), in place, 8 bytes at a time. key is the four bytes of the mask in little-endian order.
func Unmask(p []byte, key uint32) {
	k := uint64(key)<<32 | uint64(key)
	for len(p) >= 32 {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^k)
		binary.LittleEndian.PutUint64(p[8:], binary.LittleEndian.Uint64(p[8:])^k)
		binary.LittleEndian.PutUint64(p[16:], binary.LittleEndian.Uint64(p[16:])^k)
		binary.LittleEndian.PutUint64(p[24:], binary.LittleEndian.Uint64(p[24:])^k)
		p = p[32:]
	}
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^k)
		p = p[8:]
	}
	for i := range p {
		p[i] ^= byte(key)
		key = bits.RotateLeft32(key, -8)
	}
}
