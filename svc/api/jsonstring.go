package api

import (
	"unicode/utf16"
	"unicode/utf8"
)

// token decodes the string at pos, which is a quote.
func (r *reader) token() []byte {
	r.pos++
	start := r.pos
	for ; r.pos < len(r.buf); r.pos++ {
		switch c := r.buf[r.pos]; {
		case c == '"':
			b := r.buf[start:r.pos]
			if !utf8.Valid(b) {
				r.fail("the string is not valid UTF-8")
				return nil
			}
			r.pos++
			return b
		case c == '\\':
			return r.escaped(start)
		case c < 0x20:
			r.syntax("no control character in a string")
			return nil
		}
	}
	r.syntax("the quote that ends the string")
	return nil
}

// escaped goes on with token at the first escape.
func (r *reader) escaped(start int) []byte {
	b := append(r.spare[:0], r.buf[start:r.pos]...)
	for r.pos < len(r.buf) {
		switch c := r.buf[r.pos]; {
		case c == '"':
			r.pos++
			r.spare = b
			if !utf8.Valid(b) {
				r.fail("the string is not valid UTF-8")
				return nil
			}
			return b
		case c < 0x20:
			r.syntax("no control character in a string")
			return nil
		case c != '\\':
			b = append(b, c)
			r.pos++
		default:
			if b = r.escape(b); r.err != nil {
				return nil
			}
		}
	}
	r.syntax("the quote that ends the string")
	return nil
}

// escape decodes one escape sequence.
func (r *reader) escape(b []byte) []byte {
	r.pos++
	if r.pos == len(r.buf) {
		r.syntax("an escape sequence")
		return b
	}
	c := r.buf[r.pos]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return r.unicode(b)
	default:
		r.syntax("an escape sequence")
		return b
	}
	r.pos++
	return append(b, c)
}

// unicode decodes a \u escape of four digits, and a pair of them for what lies beyond 16 bits.
func (r *reader) unicode(b []byte) []byte {
	c, ok := hex4(r.buf[r.pos+1:])
	if !ok {
		r.syntax("\\u and four hexadecimal digits")
		return b
	}
	r.pos += 5
	if utf16.IsSurrogate(c) {
		var low rune
		if len(r.buf)-r.pos >= 6 && r.buf[r.pos] == '\\' && r.buf[r.pos+1] == 'u' {
			low, _ = hex4(r.buf[r.pos+2:])
		}
		if c = utf16.DecodeRune(c, low); c == utf8.RuneError {
			r.fail("half of a surrogate pair in a string")
			return b
		}
		r.pos += 6
	}
	return utf8.AppendRune(b, c)
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	v := rune(0)
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | rune(c)
	}
	return v, true
}
