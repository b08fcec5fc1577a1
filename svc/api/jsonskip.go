package api

import (
	"strconv"
	"unicode/utf8"
)

// raw reads any value and returns its text as it is, which stays in the buffer.
func (r *reader) raw() []byte {
	if r.err != nil {
		return nil
	}
	if r.peek() == 0 {
		r.syntax("a value")
		return nil
	}
	start := r.pos
	r.skip()
	if r.err != nil {
		return nil
	}
	b := r.buf[start:r.pos]
	if !utf8.Valid(b) {
		r.fail("the value is not valid UTF-8")
		return nil
	}
	return b
}

// skip checks the grammar of one value. What is open is kept as bits, so depth costs no stack.
func (r *reader) skip() {
	var objects [(maxDepth + 63) / 64]uint64 // bit n: the n-th open thing is an object
	base := r.depth
	for {
		// A value begins here.
		switch c := r.peek(); {
		case c == '{' || c == '[':
			if r.depth == maxDepth {
				r.fail("nested deeper than " + strconv.Itoa(maxDepth))
				return
			}
			r.pos++
			bit := uint64(1) << (r.depth & 63)
			objects[r.depth>>6] &^= bit
			if c == '{' {
				objects[r.depth>>6] |= bit
			}
			r.depth++
			if r.peek() == c+2 { // } and ] follow { and [ by two
				break
			}
			if c == '{' && !r.skipName() {
				return
			}
			continue
		case c == '"':
			r.skipString()
		case c == 't':
			r.literal("true")
		case c == 'f':
			r.literal("false")
		case c == 'n':
			r.literal("null")
		case c == '-' || '0' <= c && c <= '9':
			r.skipNumber()
		default:
			r.syntax("a value")
		}
		// A value has ended, or an empty thing is about to.
		for {
			if r.err != nil || r.depth == base {
				return
			}
			top := r.depth - 1
			object := objects[top>>6]&(1<<(top&63)) != 0
			c := r.peek()
			if object && c == '}' || !object && c == ']' {
				r.pos++
				r.depth--
				continue
			}
			if c != ',' {
				if object {
					r.syntax("a comma or }")
				} else {
					r.syntax("a comma or ]")
				}
				return
			}
			r.pos++
			if object && !r.skipName() {
				return
			}
			break
		}
	}
}

// skipName checks the name of a field and its colon.
func (r *reader) skipName() bool {
	if r.peek() != '"' {
		r.syntax("the name of a field in quotes")
		return false
	}
	if r.skipString(); r.err != nil {
		return false
	}
	if r.peek() != ':' {
		r.syntax("a colon")
		return false
	}
	r.pos++
	return true
}

// skipString checks the string at pos, which is a quote. UTF-8 is checked by raw.
func (r *reader) skipString() {
	for r.pos++; r.pos < len(r.buf); r.pos++ {
		switch c := r.buf[r.pos]; {
		case c == '"':
			r.pos++
			return
		case c < 0x20:
			r.syntax("no control character in a string")
			return
		case c == '\\':
			if !r.skipEscape() {
				return
			}
		}
	}
	r.syntax("the quote that ends the string")
}

// skipEscape leaves pos at the last byte of the escape sequence.
func (r *reader) skipEscape() bool {
	r.pos++
	if r.pos < len(r.buf) {
		switch r.buf[r.pos] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			return true
		case 'u':
			if _, ok := hex4(r.buf[r.pos+1:]); ok {
				r.pos += 4
				return true
			}
		}
	}
	r.syntax("an escape sequence")
	return false
}

// skipNumber checks a number.
func (r *reader) skipNumber() {
	if r.buf[r.pos] == '-' {
		r.pos++
	}
	if r.pos < len(r.buf) && r.buf[r.pos] == '0' {
		r.pos++
	} else if !r.digits() {
		return
	}
	if r.pos < len(r.buf) && r.buf[r.pos] == '.' {
		r.pos++
		if !r.digits() {
			return
		}
	}
	if r.pos < len(r.buf) && (r.buf[r.pos] == 'e' || r.buf[r.pos] == 'E') {
		r.pos++
		if r.pos < len(r.buf) && (r.buf[r.pos] == '+' || r.buf[r.pos] == '-') {
			r.pos++
		}
		r.digits()
	}
}

// digits passes one digit or more.
func (r *reader) digits() bool {
	start := r.pos
	for r.pos < len(r.buf) && '0' <= r.buf[r.pos] && r.buf[r.pos] <= '9' {
		r.pos++
	}
	if r.pos == start {
		r.syntax("a digit")
		return false
	}
	return true
}
