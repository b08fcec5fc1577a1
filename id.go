package klink

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"time"
	"unicode/utf8"
)

// Limits of identifiers, in bytes of UTF-8. They are checked where an identifier enters
// (token, frame, HTTP body) and hold everywhere behind that.
const (
	MaxAppLen    = 64
	MaxUserLen   = 128
	MaxDeviceLen = 128
	MaxTagLen    = 128
)

// DefaultApp is the app of tokens and API keys that name none.
const DefaultApp = "default"

// Handle names one connection of one FE process: loop (8 bits), slot on that loop (24 bits) and
// the slot's generation (32 bits). Everything that crosses a mailbox, a timer, a queue, an RPC or an epoll
// event carries the handle; whoever finds another generation in the slot drops the message and counts it.
// Across processes a handle is only meaningful together with the FE's [Incarnation]. The zero Handle names nothing.
type Handle uint64

// MakeHandle packs loop, slot (below 2^24) and generation (never 0).
func MakeHandle(loop uint8, slot, gen uint32) Handle {
	return Handle(uint64(loop)<<56 | uint64(slot&0xffffff)<<32 | uint64(gen))
}

// Loop is the index of the owner loop.
func (h Handle) Loop() int { return int(h >> 56) }

// Slot is the index of the connection's record on its loop.
func (h Handle) Slot() uint32 { return uint32(h>>32) & 0xffffff }

// Gen is the generation of the slot.
func (h Handle) Gen() uint32 { return uint32(h) }

func (h Handle) String() string {
	return fmt.Sprintf("%d/%d/%d", h.Loop(), h.Slot(), h.Gen())
}

// Incarnation names one life of one FE: its id, and a number that grows with every registration.
// Whoever has seen a newer number, or a raised fence, refuses the older.
type Incarnation struct {
	FE  string
	Num uint64
}

// SessionID is the public name of a session: incarnation of the FE and handle.
func SessionID(inc Incarnation, h Handle) string {
	return fmt.Sprintf("%s.%d.%x", inc.FE, inc.Num, uint64(h))
}

// Version orders the states of one user: it grows by at least one with every login, logout and
// change of tags, and stays below 2^53. Compare versions, never clocks of two machines.
type Version uint64

// Transport is how a session's connection travels.
type Transport uint8

// The transports.
const (
	TransportUnknown Transport = iota
	TransportTCP
	TransportTLS
	TransportWS
	TransportWSS
	TransportQUIC
)

var transportNames = [...]string{"unknown", "tcp", "tls", "ws", "wss", "quic"}

func (t Transport) String() string {
	if int(t) < len(transportNames) {
		return transportNames[t]
	}
	return transportNames[0]
}

// ParseTransport is the inverse of [Transport.String].
func ParseTransport(s string) (Transport, error) {
	for i, n := range transportNames[1:] {
		if n == s {
			return Transport(i + 1), nil
		}
	}
	return TransportUnknown, fmt.Errorf("unknown transport %q (tcp, tls, ws, wss, quic)", s)
}

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID is a fresh 26-character identifier that sorts by creation time (48 bits of milliseconds,
// 80 random bits): push ids, request ids.
func NewID(now time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // never fails (crypto/rand)
	return idEncoding.EncodeToString(b[:])
}

// CheckID reports why s can't be an identifier of the kind what: empty, longer than limit bytes, not UTF-8,
// or with control characters.
func CheckID(what, s string, limit int) error {
	switch {
	case s == "":
		return fmt.Errorf("%s is empty", what)
	case len(s) > limit:
		return fmt.Errorf("%s is %d bytes long, limit %d", what, len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s is not valid UTF-8", what)
	}
	for _, r := range s {
		if r < 0x20 || r == 0x7f {
			return fmt.Errorf("%s has a control character (%#U)", what, r)
		}
	}
	return nil
}
