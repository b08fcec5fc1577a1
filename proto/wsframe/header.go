package wsframe

import (
	"strings"
	"unicode/utf8"
)

// Op is a frame's opcode (RFC 6455, section 5.2).
type Op uint8

// The opcodes.
const (
	OpContinuation Op = 0
	OpText         Op = 1
	OpBinary       Op = 2
	OpClose        Op = 8
	OpPing         Op = 9
	OpPong         Op = 10
)

// AppendHeader appends the header of one final, unmasked frame with n bytes of payload: what a server sends. Of a control frame n is at
// most 125. It adds at most 10 bytes.
func AppendHeader(dst []byte, op Op, n int) []byte {
	const fin = 0x80
	switch {
	case n < 126:
		return append(dst, fin|byte(op), byte(n))
	case n < 1<<16:
		return append(dst, fin|byte(op), 126, byte(n>>8), byte(n))
	default:
		v := uint64(n)
		return append(dst, fin|byte(op), 127,
			byte(v>>56), byte(v>>48), byte(v>>40), byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
}

// maxReason is what a close frame's 125 bytes of payload leave for the reason.
const maxReason = 123

// AppendClose appends a close frame. The reason is cut to 123 bytes, between runes; bytes that are not UTF-8 are replaced, because a client
// may fail the connection over them. code must be one that [ValidCloseCode] accepts, or [CodeNone] for a close frame without code and reason.
func AppendClose(dst []byte, code uint16, reason string) []byte {
	if code == CodeNone {
		return AppendHeader(dst, OpClose, 0)
	}
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	if len(reason) > maxReason {
		cut := maxReason
		for !utf8.RuneStart(reason[cut]) {
			cut--
		}
		reason = reason[:cut]
	}
	dst = AppendHeader(dst, OpClose, 2+len(reason))
	dst = append(dst, byte(code>>8), byte(code))
	return append(dst, reason...)
}
