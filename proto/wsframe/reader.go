package wsframe

import (
	"encoding/binary"
	"unicode/utf8"
)

// MaxMessage is the most bytes that a message may have, whatever limit the caller sets.
const MaxMessage = 1 << 30

// Kind is what a frame was.
type Kind uint8

// The kinds of events.
const (
	None     Kind = iota // the frame is not complete
	Message              // a whole message in one frame
	Fragment             // a part of a message, in order; Final: its last
	Ping                 // to be answered with a Pong of the same payload
	Pong
	Close // nothing may follow
)

// Event is one frame. Payload and Reason alias the input and are unmasked.
type Event struct {
	Kind    Kind
	Op      Op   // of the message that a Message or Fragment belongs to: OpText or OpBinary
	Final   bool // the message is complete; true of each Message
	Payload []byte
	Code    uint16 // of Close; CodeNone: the frame named none
	Reason  []byte // of Close: at most 123 bytes of UTF-8
}

// Reader is what must be kept between the frames of one connection: it has no pointer and no buffer. The zero Reader is ready.
type Reader struct {
	size uint32 // bytes of the message in progress, at most MaxMessage
	op   Op     // of the message in progress, 0: none
	text text   // of the message in progress
	done bool   // a close frame was read or an error returned
}

// InMessage reports whether a fragmented message is in progress.
func (r *Reader) InMessage() bool { return r.op != 0 }

// Next reads one frame from the start of in, whose message may be at most max bytes. n is how many bytes it took. With kind None it
// took none and needs in to be need bytes at least: the whole frame once the length is known, which is 14 bytes more than max at most. A
// frame that is refused is refused as soon as its header shows why. The error is a [*FrameError]; the connection must be closed with its
// code then, and every later call fails.
func (r *Reader) Next(in []byte, max int) (ev Event, n, need int, err error) {
	ev, n, need, ferr := r.next(in, max)
	if ferr != nil {
		r.done = true
		return Event{}, 0, 0, ferr
	}
	return ev, n, need, nil
}

func (r *Reader) next(in []byte, max int) (ev Event, n, need int, err *FrameError) {
	if r.done {
		return ev, 0, 0, errAfter
	}
	if len(in) < 2 {
		return ev, 0, 2, nil
	}
	op, fin := Op(in[0]&0x0f), in[0]&0x80 != 0
	if err := r.checkHeader(in[0], in[1], op, fin); err != nil {
		return ev, 0, 0, err
	}
	head := lengthBytes(in[1])
	if len(in) < head {
		return ev, 0, head, nil
	}
	size, ok := frameLength(in[:head])
	if !ok {
		return ev, 0, 0, errLength
	}
	if op < OpClose && size > r.room(max) {
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

// room is how many bytes the message in progress may still get.
func (r *Reader) room(limit int) uint64 {
	limit = min(limit, MaxMessage) - int(r.size)
	return uint64(max(limit, 0))
}

// checkHeader holds the first two bytes against the state.
func (r *Reader) checkHeader(b0, b1 byte, op Op, fin bool) *FrameError {
	switch {
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

// lengthBytes is how many bytes the header has up to the end of the length.
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

// frameLength reads the payload's length out of a header that ends with it. Not ok: there is a shorter form of it, or its highest bit is set.
func frameLength(head []byte) (size uint64, ok bool) {
	switch len(head) {
	case 4:
		size = uint64(binary.BigEndian.Uint16(head[2:]))
		return size, size > 125
	case 10:
		size = binary.BigEndian.Uint64(head[2:])
		return size, size >= 1<<16 && size>>63 == 0
	default:
		return uint64(head[1] & 0x7f), true
	}
}

// event takes one frame, whose header was found good, into the state.
func (r *Reader) event(op Op, fin bool, p []byte) (Event, *FrameError) {
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
	if r.op == OpText && !r.text.add(p, fin) {
		return Event{}, errText
	}
	r.size += uint32(len(p))
	if fin {
		r.op, r.size = 0, 0
	}
	return ev, nil
}

func (r *Reader) closeEvent(p []byte) (Event, *FrameError) {
	r.done = true
	if len(p) == 0 {
		return Event{Kind: Close, Code: CodeNone}, nil
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
