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
	stFirst               // accepted, or through with TLS without ALPN; the first bytes decide
	stHandshake           // its descriptor is lent to a handshake loop
	stUpgrade             // waits for the whole WebSocket request
	stOpen                // ready for frames
	stFlush               // ended: output is written, then the client's close frame awaited
	stLinger              // our FIN is sent; waits for the client's
	stDead                // torn down at the end of the round
)

// flags of a connection.
const (
	fTLS       = 1 << iota // sealed by a record or a retained connection
	fWS                    // frames are WebSocket messages
	fJSON                  // of text
	fOpened                // OnOpen was called
	fTell                  // OnClose is due
	fTold                  // OnClose was called
	fListed                // in loop.ended
	fPeerClose             // the client's close frame has come
	fNotify                // our close_notify or alert is sealed: nothing can follow it
	fNoRead                // the client's FIN has come
	fDeaf                  // what still comes is thrown away
	fProxied               // its PROXY header was read
	fOut                   // EPOLLOUT is armed
	fMute                  // EPOLLIN is not
)

// conn is the record of one connection: pointer-free, so that the garbage collector does not look at the slab. The buffers that it
// names exist only while they are not empty. TestConnSize keeps its size.
type conn struct {
	fd        int32
	slot      uint32
	gen       uint32
	due       uint32 // deadline in ms, modulo 2^32; 0: none
	tls       uint32 // index+1 of the TLS record, or of the retained connection
	pre       uint32 // index+1 of what is known until OnOpen
	raw       inRef  // ciphertext of an incomplete record
	in        inRef  // plaintext of an incomplete frame
	msg       inRef  // fragments of a WebSocket message
	out       outRef // what must be sent before anything else
	ws        wsframe.Reader
	flags     uint16
	listener  uint8
	state     connState
	transport klink.Transport
	why       link.CloseReason
}

// has reports whether one of the flags is set.
func (c *conn) has(f uint16) bool { return c.flags&f != 0 }

// key names the connection on its loop, also in epoll data and timers.
func (c *conn) key() uint64 { return uint64(c.slot)<<32 | uint64(c.gen) }

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

// preTable holds it.
type preTable struct {
	all  []preOpen
	free []uint32
}

func (t *preTable) take(remote netip.AddrPort) uint32 {
	if n := len(t.free); n > 0 {
		ref := t.free[n-1]
		t.free = t.free[:n-1]
		t.all[ref-1] = preOpen{remote: remote}
		return ref
	}
	t.all = append(t.all, preOpen{remote: remote})
	return uint32(len(t.all))
}

func (t *preTable) at(ref uint32) *preOpen { return &t.all[ref-1] }

func (t *preTable) drop(ref uint32) {
	if ref != 0 {
		t.free = append(t.free, ref)
	}
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

// live is how many connections there are.
func (s *slab) live() int { return int(s.used) - len(s.free) }

// take gives out a slot with a new generation, never 0; nil: the slab is full.
func (s *slab) take() *conn {
	var slot uint32
	if n := len(s.free); n > 0 {
		slot = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		if s.used == maxSlots {
			return nil
		}
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
	*c = conn{fd: -1, slot: slot, gen: gen}
	return c
}

func (s *slab) put(c *conn) {
	*c = conn{fd: -1, slot: c.slot, gen: c.gen}
	s.free = append(s.free, c.slot)
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
