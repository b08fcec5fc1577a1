package crux

import (
	"encoding/binary"
	"slices"

	"github.com/klinkio/klink"
)

// A record is what the store knows of one user, packed:
//
//	key      app id (uvarint), length of the user id (1), user id
//	head     uvarint: number of sessions << 1 | has tags
//	version  7 bytes
//	lastMs   6 bytes, only without sessions: when the last session ended, 0: never seen
//	sessions
//	tags     uvarint count, then length (1) and bytes of each, sorted
//
// and a session:
//
//	flags    transport (3 bits), own version, own login, has attempt
//	device   length (1), bytes
//	life     uvarint: id of the FE's incarnation
//	handle   loop (1), slot (uvarint), generation (uvarint)
//	attempt  uvarint, if flagged
//	version  7 bytes, if it differs from the user's
//	login    6 bytes, if it differs from the time inside the session's version
//
// so that a user with one device and ids of 16 bytes takes about 52 bytes.
type record struct {
	key      []byte
	version  klink.Version
	lastMs   int64
	sessions []session
	tags     []byte // as packed, empty: none
}

type session struct {
	device    []byte
	life      uint32
	handle    klink.Handle
	transport klink.Transport
	attempt   uint64
	loginMs   int64
	version   klink.Version
}

const (
	flagTransport  = 7
	flagOwnVersion = 1 << 3
	flagOwnLogin   = 1 << 4
	flagAttempt    = 1 << 5
	maxKey         = binary.MaxVarintLen32 + 1 + 255
)

func appendKey(dst []byte, app uint32, user string) []byte {
	dst = binary.AppendUvarint(dst, uint64(app))
	dst = append(dst, byte(len(user)))
	return append(dst, user...)
}

// keyLen is the length of the key that p begins with.
func keyLen(p []byte) int {
	_, n := binary.Uvarint(p)
	return n + 1 + int(p[n])
}

// keyApp is the app id in a key, keyUser the user id.
func keyApp(key []byte) uint32 {
	app, _ := binary.Uvarint(key)
	return uint32(app)
}

func keyUser(key []byte) []byte {
	_, n := binary.Uvarint(key)
	return key[n+1:]
}

func appendUint48(dst []byte, v int64) []byte {
	return append(dst, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40))
}

func uint48(p []byte) int64 {
	return int64(binary.LittleEndian.Uint32(p)) | int64(p[4])<<32 | int64(p[5])<<40
}

func appendVersion(dst []byte, v klink.Version) []byte {
	return append(appendUint48(dst, int64(v)), byte(v>>48))
}

func version56(p []byte) klink.Version {
	return klink.Version(uint48(p)) | klink.Version(p[6])<<48
}

// append packs the record.
func (r *record) append(dst []byte) []byte {
	dst = append(dst, r.key...)
	head := uint64(len(r.sessions)) << 1
	if len(r.tags) > 0 {
		head |= 1
	}
	dst = binary.AppendUvarint(dst, head)
	dst = appendVersion(dst, r.version)
	if len(r.sessions) == 0 {
		dst = appendUint48(dst, r.lastMs)
	}
	for i := range r.sessions {
		dst = r.sessions[i].append(dst, r.version)
	}
	return append(dst, r.tags...)
}

func (s *session) append(dst []byte, user klink.Version) []byte {
	flags := byte(s.transport) & flagTransport
	if s.version != user {
		flags |= flagOwnVersion
	}
	if s.loginMs != int64(s.version>>versionShift) {
		flags |= flagOwnLogin
	}
	if s.attempt != 0 {
		flags |= flagAttempt
	}
	dst = append(dst, flags, byte(len(s.device)))
	dst = append(dst, s.device...)
	dst = binary.AppendUvarint(dst, uint64(s.life))
	dst = append(dst, byte(s.handle.Loop()))
	dst = binary.AppendUvarint(dst, uint64(s.handle.Slot()))
	dst = binary.AppendUvarint(dst, uint64(s.handle.Gen()))
	if flags&flagAttempt != 0 {
		dst = binary.AppendUvarint(dst, s.attempt)
	}
	if flags&flagOwnVersion != 0 {
		dst = appendVersion(dst, s.version)
	}
	if flags&flagOwnLogin != 0 {
		dst = appendUint48(dst, s.loginMs)
	}
	return dst
}

// read unpacks p into r, whose sessions slice it uses again. The byte slices of r are parts of p. p was written by append.
func (r *record) read(p []byte) {
	n := keyLen(p)
	r.key, p = p[:n:n], p[n:]
	head, n := binary.Uvarint(p)
	p = p[n:]
	r.version, p = version56(p), p[7:]
	r.sessions, r.lastMs, r.tags = r.sessions[:0], 0, nil
	count := int(head >> 1)
	if count == 0 {
		r.lastMs, p = uint48(p), p[6:]
	}
	r.sessions = slices.Grow(r.sessions, count)[:count]
	for i := range r.sessions {
		p = r.sessions[i].read(p, r.version)
	}
	if head&1 != 0 {
		r.tags = p[:tagsLen(p)]
	}
}

func (s *session) read(p []byte, user klink.Version) (rest []byte) {
	flags, n := p[0], int(p[1])
	s.transport = klink.Transport(flags & flagTransport)
	s.device, p = p[2:2+n:2+n], p[2+n:]
	life, n := binary.Uvarint(p)
	s.life, p = uint32(life), p[n:]
	loop := p[0]
	slot, n := binary.Uvarint(p[1:])
	p = p[1+n:]
	gen, n := binary.Uvarint(p)
	p = p[n:]
	s.handle = klink.MakeHandle(loop, uint32(slot), uint32(gen))
	s.attempt = 0
	if flags&flagAttempt != 0 {
		s.attempt, n = binary.Uvarint(p)
		p = p[n:]
	}
	s.version = user
	if flags&flagOwnVersion != 0 {
		s.version, p = version56(p), p[7:]
	}
	s.loginMs = int64(s.version >> versionShift)
	if flags&flagOwnLogin != 0 {
		s.loginMs, p = uint48(p), p[6:]
	}
	return p
}

// remove takes session i out; the order of the others stays.
func (r *record) remove(i int) {
	r.sessions = slices.Delete(r.sessions, i, i+1)
}

// holder is the index of the session of device, or -1.
func (r *record) holder(device string) int {
	for i := range r.sessions {
		if string(r.sessions[i].device) == device {
			return i
		}
	}
	return -1
}

// tagsLen is the length of the packed tags that p begins with.
func tagsLen(p []byte) int {
	count, n := binary.Uvarint(p)
	for range count {
		n += 1 + int(p[n])
	}
	return n
}

// packTags packs sorted tags; none pack to nothing.
func packTags(tags []string) []byte {
	if len(tags) == 0 {
		return nil
	}
	dst := binary.AppendUvarint(nil, uint64(len(tags)))
	for _, t := range tags {
		dst = append(dst, byte(len(t)))
		dst = append(dst, t...)
	}
	return dst
}

func unpackTags(p []byte) []string {
	if len(p) == 0 {
		return nil
	}
	count, n := binary.Uvarint(p)
	tags := make([]string, count)
	for i := range tags {
		l := int(p[n])
		tags[i] = string(p[n+1 : n+1+l])
		n += 1 + l
	}
	return tags
}
