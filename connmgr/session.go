package connmgr

import (
	"math"

	"github.com/klinkio/klink"
)

// state is where a session is in its life. It only grows, but for the reuse of the record.
type state uint8

const (
	stateFree    state = iota
	stateOpen          // the connection is there, no Connect yet
	stateLogin         // Connect was handed to the authority
	stateLive          // admitted
	stateClosing       // ended by us; the transport flushes
)

const (
	flagBackground = 1 << iota // the client said that it is in background
	flagRegistered             // the authority knows it: Ended must be called
	flagDegraded               // the user state does not know it yet
	flagDraining               // to be sent away as soon as what waits for it is written
	flagRefused                // the result of its login is counted
	flagRefreshing             // a Refresh is with the authority
)

// session is the record of one connection. It holds no pointer, so that the garbage collector never looks at the slabs;
// TestSessionSize keeps its size. All fields belong to the owner loop.
type session struct {
	version    uint64
	attempt    uint64
	sinceMs    int64 // Unix ms of the login
	gen        uint32
	ids        idRef  // user and device
	next, prev uint32 // neighbours in the wheel's bucket, slot+1; 0: none
	lastSeen   uint32 // loop seconds
	expires    uint32 // Unix seconds, 0: never, see clampSec
	issued     uint32 // Unix seconds of the token's iat
	grants     uint32 // index in the shard's grant table
	queue      uint32 // index+1 of the send queue; 0: the connection takes frames
	tokens     int32  // frame budget left, in thousandths
	tokensAt   uint32 // low 32 bits of the loop's ms when tokens was right
	bucket     uint16 // of the wheel, index+1; 0: not in it
	heartbeat  uint16 // seconds
	app        uint16 // index in the shard's app table
	requests   uint16 // in flight
	state      state
	transport  klink.Transport
	form       uint8
	flags      uint8
}

// clampSec keeps a time that a record can't hold, after the year 2105, from wrapping into the past.
func clampSec(unix int64) uint32 { return uint32(min(max(unix, 0), math.MaxUint32)) }

const (
	slabBits = 10
	slabSize = 1 << slabBits
)

// slab holds the records by slot, in chunks that never move.
type slab struct {
	chunks []*[slabSize]session
}

// at is the record of a slot that was opened before.
func (sl *slab) at(slot uint32) *session {
	return &sl.chunks[slot>>slabBits][slot&(slabSize-1)]
}

// openSlot makes the record of a new connection.
func (sl *slab) openSlot(slot, gen uint32) *session {
	for int(slot>>slabBits) >= len(sl.chunks) {
		sl.chunks = append(sl.chunks, new([slabSize]session))
	}
	ss := sl.at(slot)
	*ss = session{gen: gen, state: stateOpen}
	return ss
}

// release frees the record; its generation stays so that late messages are recognised.
func (sl *slab) release(ss *session) {
	*ss = session{gen: ss.gen}
}

// find is the record that h names, or nil when the connection is gone or the slot has a new owner.
func (sl *slab) find(h klink.Handle) *session {
	slot := h.Slot()
	if int(slot>>slabBits) >= len(sl.chunks) {
		return nil
	}
	ss := sl.at(slot)
	if ss.state == stateFree || ss.gen != h.Gen() {
		return nil
	}
	return ss
}

// slots is one more than the highest slot that was ever opened, rounded up to a chunk.
func (sl *slab) slots() uint32 { return uint32(len(sl.chunks)) << slabBits }
