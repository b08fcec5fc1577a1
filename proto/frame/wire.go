package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// The wire types of protobuf, the low three bits of a field's key.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wireGroup  = 3
	wireEnd    = 4
	wire32     = 5
)

const (
	maxFieldNumber = 1<<29 - 1
	maxGroups      = 32 // nested groups that are skipped
)

var (
	errTruncated = errors.New("it ends within a field")
	errVarint    = errors.New("a number has more than 64 bits")
	errNumber    = errors.New("a field number is out of range")
	errWireType  = errors.New("a field has a wire type that does not exist")
	errGroup     = errors.New("the end of a group does not match a start")
	errDeep      = errors.New("groups are nested too deep")
	errUTF8      = errors.New("a string is not valid UTF-8")
)

// TooMany is the error of a frame that repeats a field more often than its reader takes.
type TooMany struct {
	What string // the field, plural
	Max  int
}

func (e *TooMany) Error() string { return fmt.Sprintf("more than %d %s in one frame", e.Max, e.What) }

// Bounds are the most elements that a decoder takes of each repeated field of one frame. A field that is zero means the default in
// its comment. Together with the size of the frame they bound what a decoder allocates.
type Bounds struct {
	Tags         int // 1,024 from clients; 8,192 from servers
	Capabilities int // 64
	Endpoints    int // 64
	Recovered    int // pushes of all tags together: 16,384
}

// The defaults of [Bounds].
const (
	maxClientTags   = 1024
	maxServerTags   = 8192
	maxCapabilities = 64
	maxEndpoints    = 64
	maxRecovered    = 16384
)

// fields walks over the fields of one message. After next has returned true, key tells number and wire type, and num or val the value.
type fields struct {
	rest []byte
	key  uint64 // number<<3 | wire type
	num  uint64 // value of a varint
	val  []byte // value of a length-delimited field; aliases the message, without capacity to spare
	err  error  // why next returned false, nil at the end of the message
}

func (f *fields) next() bool {
	if f.err != nil || len(f.rest) == 0 {
		return false
	}
	if f.key = f.varint(); f.err != nil {
		return false
	}
	if n := f.key >> 3; n == 0 || n > maxFieldNumber {
		return f.fail(errNumber)
	}
	if f.key&7 == wireGroup {
		return f.skipGroup()
	}
	return f.value(f.key & 7)
}

func (f *fields) fail(err error) bool {
	f.err = err
	return false
}

// varint reads a number; on an error it sets err.
func (f *fields) varint() uint64 {
	if len(f.rest) > 0 && f.rest[0] < 0x80 {
		v := f.rest[0]
		f.rest = f.rest[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(f.rest)
	switch {
	case n > 0:
		f.rest = f.rest[n:]
		return v
	case n == 0:
		f.err = errTruncated
	default:
		f.err = errVarint
	}
	return 0
}

// value reads the value of a field that is not a group.
func (f *fields) value(wireType uint64) bool {
	skip := 0
	switch wireType {
	case wireVarint:
		f.num = f.varint()
		return f.err == nil
	case wireBytes:
		n := f.varint()
		switch {
		case f.err != nil:
			return false
		case n > uint64(len(f.rest)):
			return f.fail(errTruncated)
		}
		f.val, f.rest = f.rest[:n:n], f.rest[n:]
		return true
	case wire64:
		skip = 8
	case wire32:
		skip = 4
	case wireEnd:
		return f.fail(errGroup)
	default:
		return f.fail(errWireType)
	}
	if skip > len(f.rest) {
		return f.fail(errTruncated)
	}
	f.rest = f.rest[skip:]
	return true
}

// skipGroup reads to the end of the group that f.key started.
func (f *fields) skipGroup() bool {
	var open [maxGroups]uint64 // numbers of the groups around
	open[0] = f.key >> 3
	for depth := 1; depth > 0; {
		key := f.varint()
		if f.err != nil {
			return false
		}
		n := key >> 3
		if n == 0 || n > math.MaxInt32 { // the bound that protobuf's own readers have within groups
			return f.fail(errNumber)
		}
		switch key & 7 {
		case wireGroup:
			if depth == maxGroups {
				return f.fail(errDeep)
			}
			open[depth] = n
			depth++
		case wireEnd:
			depth--
			if open[depth] != n {
				return f.fail(errGroup)
			}
		default:
			if !f.value(key & 7) {
				return false
			}
		}
	}
	return true
}

// text is the value of a string field, a view.
func (f *fields) text() []byte {
	if !utf8.Valid(f.val) {
		f.err = errUTF8
	}
	return f.val
}

// str is the value of a string field, a copy.
func (f *fields) str() string { return string(f.text()) }

// room reports whether a repeated field that holds n elements may take one more.
func (f *fields) room(n, bound, byDefault int, what string) bool {
	if bound == 0 {
		bound = byDefault
	}
	if n >= bound {
		f.err = &TooMany{what, bound}
		return false
	}
	return true
}

// grow adds one element for the caller to fill. It may hold what an earlier use of the slice left there.
func grow[T any](s []T) []T {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	var zero T
	return append(s, zero)
}
