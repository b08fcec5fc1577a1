package crux

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/klinkio/klink"
)

// entry is one durable fact, in a journal or a snapshot. Each states the whole truth of its subject, so entries may be
// applied twice; of one user the last one counts.
type entry struct {
	kind              entryKind
	app, user, device string
	version           klink.Version // of the user, or the mark
	before            int64         // of a revocation, Unix ns
	tags              []byte        // packed and sorted, empty: the user has none
	count             uint64        // of entries before the end of a snapshot
}

type entryKind byte

const (
	entryTags   entryKind = iota + 1 // the tags of a user
	entryRevoke                      // tokens of a user or device are unusable
	entryMark                        // no version or incarnation number that was given out is higher
	entryEnd                         // of a snapshot
)

// append packs e:
//
//	kind (1)
//	tags:    app, user, version (uvarint), packed tags ("0" for none)
//	revoke:  app, user, device, before (varint)
//	mark:    version
//	end:     count (uvarint)
//
// with strings as length (1) and bytes.
func (e *entry) append(dst []byte) []byte {
	dst = append(dst, byte(e.kind))
	switch e.kind {
	case entryTags:
		dst = appendString(appendString(dst, e.app), e.user)
		dst = binary.AppendUvarint(dst, uint64(e.version))
		if len(e.tags) == 0 {
			return append(dst, 0)
		}
		return append(dst, e.tags...)
	case entryRevoke:
		dst = appendString(appendString(appendString(dst, e.app), e.user), e.device)
		return binary.AppendVarint(dst, e.before)
	case entryMark:
		return binary.AppendUvarint(dst, uint64(e.version))
	default:
		return binary.AppendUvarint(dst, e.count)
	}
}

func appendString(dst []byte, s string) []byte {
	return append(append(dst, byte(len(s))), s...)
}

var (
	errShort   = errors.New("entry is cut short")
	errKind    = errors.New("entry is of an unknown kind")
	errTags    = errors.New("tags are too many or not in order")
	errNumber  = errors.New("number is out of range")
	errSubject = errors.New("entry has no valid app, user or device")
)

// readEntry unpacks the entry that p begins with and checks every bound, because a disk is not to be trusted. The result keeps no part of p.
func readEntry(p []byte) (e entry, rest []byte, err error) {
	r := entryReader{p: p}
	e.kind = entryKind(r.byte())
	switch e.kind {
	case entryTags:
		e.app, e.user = r.string(), r.string()
		e.version = klink.Version(r.uvarint(maxVersion))
		e.tags = r.tags()
	case entryRevoke:
		e.app, e.user, e.device = r.string(), r.string(), r.string()
		e.before = r.varint()
	case entryMark:
		e.version = klink.Version(r.uvarint(maxVersion))
	case entryEnd:
		e.count = r.uvarint(math.MaxUint64)
	default:
		r.fail(errKind)
	}
	if r.err == nil && (e.kind == entryTags || e.kind == entryRevoke) {
		if klink.CheckID("app", e.app, klink.MaxAppLen) != nil || klink.CheckID("user", e.user, klink.MaxUserLen) != nil ||
			e.device != "" && klink.CheckID("device", e.device, klink.MaxDeviceLen) != nil {
			r.fail(errSubject)
		}
	}
	return e, r.p, r.err
}

// entryReader reads fields until the first error; then all are zero.
type entryReader struct {
	p   []byte
	err error
}

func (r *entryReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.p = nil
}

func (r *entryReader) bytes(n int) []byte {
	if n > len(r.p) {
		r.fail(errShort)
		return nil
	}
	b := r.p[:n]
	r.p = r.p[n:]
	return b
}

func (r *entryReader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *entryReader) string() string { return string(r.bytes(int(r.byte()))) }

func (r *entryReader) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.p)
	switch {
	case n <= 0:
		r.fail(errShort)
		return 0
	case v > limit:
		r.fail(errNumber)
		return 0
	}
	r.p = r.p[n:]
	return v
}

func (r *entryReader) varint() int64 {
	v, n := binary.Varint(r.p)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.p = r.p[n:]
	return v
}

func (r *entryReader) tags() []byte {
	start := r.p
	count := r.uvarint(MaxUserTags)
	last := ""
	for i := range count {
		t := r.string()
		if r.err != nil {
			return nil
		}
		if klink.CheckID("tag", t, klink.MaxTagLen) != nil || i > 0 && t <= last {
			r.fail(errTags)
			return nil
		}
		last = t
	}
	if count == 0 {
		return nil
	}
	return append([]byte(nil), start[:len(start)-len(r.p)]...)
}
