package floor

// Kinds of frames that a Stream tells apart, by the number of the field that is set (0: the empty body).
const (
	KindBeat       = 0
	KindConnect    = 1 // of clients
	KindConnected  = 1 // of servers
	KindSubscribe  = 2 // of clients
	KindSubscribed = 2 // of servers
	KindPush       = 6
	KindGap        = 7
	KindError      = 9
	KindDisconnect = 10
)

// Stream finds the frames in a byte stream that comes in any pieces and tells their kinds. It keeps no byte: what is in a frame
// is skipped. The zero value is ready.
type Stream struct {
	left  uint32 // bytes of the body that are still to come
	size  uint32 // length as far as it was read
	shift uint8
	kind  uint8
	body  uint8 // bodyNone, bodyFirst or bodyRest
}

const (
	bodyNone  = iota // within the length
	bodyFirst        // the first byte of the body is next
	bodyRest
)

// Next takes bytes from b up to the end of one frame. done: a frame of that kind is complete; else b was used up.
func (s *Stream) Next(b []byte) (kind uint8, done bool, rest []byte) {
	for len(b) > 0 {
		switch s.body {
		case bodyNone:
			c := b[0]
			b = b[1:]
			s.size |= uint32(c&0x7f) << (s.shift & 31)
			s.shift += 7
			if c&0x80 != 0 {
				continue
			}
			s.left, s.body = s.size, bodyFirst
			s.size, s.shift = 0, 0
			if s.left == 0 {
				s.body = bodyNone
				return KindBeat, true, b
			}
		case bodyFirst:
			s.kind, s.body = b[0]>>3, bodyRest
		default:
			n := min(uint32(len(b)), s.left)
			b = b[n:]
			if s.left -= n; s.left == 0 {
				s.body = bodyNone
				return s.kind, true, b
			}
		}
	}
	return 0, false, b
}
