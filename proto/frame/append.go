package frame

import (
	"encoding/binary"
	"math/bits"

	"github.com/klinkio/klink"
)

// Fields are written in the order of their numbers, and not at all when they have their default value.

func appendUint(dst []byte, number byte, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return binary.AppendUvarint(append(dst, number<<3|wireVarint), v)
}

func appendBool(dst []byte, number byte, v bool) []byte {
	if !v {
		return dst
	}
	return append(dst, number<<3|wireVarint, 1)
}

func appendField[T string | []byte](dst []byte, number byte, v T) []byte {
	if len(v) == 0 {
		return dst
	}
	return appendElement(dst, number, v)
}

// appendElement writes v even when it is empty: an element of a repeated field, or a member of a oneof.
func appendElement[T string | []byte](dst []byte, number byte, v T) []byte {
	dst = binary.AppendUvarint(append(dst, number<<3|wireBytes), uint64(len(v)))
	return append(dst, v...)
}

func appendElements(dst []byte, number byte, vs [][]byte) []byte {
	for _, v := range vs {
		dst = appendElement(dst, number, v)
	}
	return dst
}

// appendBody writes a payload whose first field has the number first.
func appendBody(dst []byte, first byte, kind klink.DataKind, data []byte) []byte {
	if kind == klink.DataBinary && data == nil {
		return dst
	}
	return appendElement(dst, first+byte(kind), data)
}

// open begins a message within the message: its key and one byte for its length. end is given the start that open returned.
func open(dst []byte, number byte) (_ []byte, start int) {
	return append(dst, number<<3|wireBytes, 0), len(dst) + 2
}

// end writes the length of the message that began at start, and moves it when that needs more than one byte.
func end(dst []byte, start int) []byte {
	n := len(dst) - start
	if n < 0x80 {
		dst[start-1] = byte(n)
		return dst
	}
	var prefix [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(prefix[:], uint64(n))
	dst = append(dst, prefix[:size-1]...)
	copy(dst[start-1+size:], dst[start:start+n])
	copy(dst[start-1:], prefix[:size])
	return dst
}

// sizeVarint is how many bytes v takes.
func sizeVarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// sizeField is how many bytes a field of n bytes takes, with a number below 16.
func sizeField(n int) int { return 1 + sizeVarint(uint64(n)) + n }
