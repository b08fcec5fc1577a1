package netloop

import (
	"net/netip"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/wsframe"
)

// connState is where a connection is in its life.
type connState uint8

const (
	stFree      connState = iota
	stFirst               // accepted; the first bytes decide
	stHandshake           // its descriptor is with a handshake loop
	stUpgrade             // waits for the whole WebSocket request
	stOpen                // ready for frames
	stFlush               // ended by us; output is being written
	stLinger              // all is written and our FIN sent; waits for the client's
	stDead                // to be torn down at the end of the round
)

// flags of a connection.
const (
	fTLS       = 1 << iota // sealed by a record or a retained connection
	fWS                    // frames are WebSocket messages
	fJSON                  // text messages
	fOut                   // EPOLLOUT is armed: output waits, or the kernel took nothing
	fOpened                // OnOpen was called
	fWSClose               // our close frame was sent
	fProxied               // its PROXY header was read
	fNoRead                // the client has sent FIN
	fUndecided             // TLS without ALPN: the first bytes tell
)

// conn is the record of one connection: pointer-free, so that the garbage collector does not look at the slab. The buffers that it
// names exist only while they are not empty. TestConnSize keeps its size.
type conn struct {
	fd        int32
	gen       uint32
	tls       uint32 // index+1 of the TLS record
	raw       bufRef // ciphertext of an incomplete record
	in        bufRef // plaintext of an incomplete frame
	msg       bufRef // fragments of a WebSocket message
	out       bufRef // bytes that must be sent before anything else
	pre       uint32 // index+1 of what is known until OnOpen
	ws        wsframe.Reader
	flags     uint16
	listener  uint8
	state     connState
	transport klink.Transport
	why       link.CloseReason
}

func (c *conn) has(f uint16) bool { return c.flags&f != 0 }

func (c *conn) form() link.Form {
	switch {
	case c.flags&fWS == 0:
		return link.FormStream
	case c.flags&fJSON != 0:
		return link.FormWSJSON
	default:
		return link.FormWSBinary
	}
}

// preOpen is what a connection needs only until it is open.
type preOpen struct {
	remote  netip.AddrPort
	resumed bool
}

const (
	slabBits = 10
	slabSize = 1 << slabBits
	maxSlots = 1 << 24
)

// slab holds a loop's connections by slot, in chunks that never move.
type slab struct {
	chunks []*[slabSize]conn
	free   []uint32
	used   uint32
}

func (s *slab) at(slot uint32) *conn { return &s.chunks[slot>>slabBits][slot&(slabSize-1)] }

// take gives out a slot with a new generation, never 0.
func (s *slab) take() (uint32, *conn) {
	var slot uint32
	if n := len(s.free); n > 0 {
		slot = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		slot = s.used
		s.used++
		if int(slot>>slabBits) >= len(s.chunks) {
			s.chunks = append(s.chunks, new([slabSize]conn))
		}
	}
	c := s.at(slot)
	gen := c.gen + 1
	if gen == 0 {
		gen = 1
	}
	*c = conn{gen: gen, fd: -1}
	return slot, c
}

func (s *slab) put(slot uint32, c *conn) {
	*c = conn{gen: c.gen, fd: -1}
	s.free = append(s.free, slot)
}

// find is the connection that slot and generation name, or nil.
func (s *slab) find(slot, gen uint32) *conn {
	if slot >= s.used {
		return nil
	}
	if c := s.at(slot); c.gen == gen && c.state != stFree {
		return c
	}
	return nil
}
