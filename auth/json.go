package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// errJSON says that a token's header or claims are not the JSON that is expected.
var errJSON = errors.New("not one JSON object of the form that is expected")

// errTwice says that two readers could understand the object in two ways.
var errTwice = errors.New("a member stands twice")

// maxMembers bounds the members of a header or of claims.
const maxMembers = 64

// scanner reads the JSON of a token in one pass without allocating: encoding/json costs more than the signature. It is as strict as that
// package and stricter where two readers could understand a token in two ways: a member stands once, text is valid UTF-8, and
// half a surrogate pair is no text. Numbers, and what is passed over, go through json.Valid.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// take eats c, after white space.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// object reads one object that is all of the input and calls member for each name with the raw text of its value.
func (s *scanner) object(member func(name, value []byte) error) error {
	if !s.take('{') {
		return errJSON
	}
	var names [maxMembers][]byte
	for n := 0; !s.take('}'); n++ {
		if n == maxMembers || (n > 0 && !s.take(',')) {
			return errJSON
		}
		s.space()
		name, err := s.text()
		if err != nil || !s.take(':') {
			return errJSON
		}
		for _, other := range names[:n] {
			if bytes.Equal(other, name) {
				return errTwice
			}
		}
		names[n] = name
		value, err := s.value()
		if err != nil {
			return err
		}
		if err := member(name, value); err != nil {
			return err
		}
	}
	if s.space(); s.i != len(s.b) {
		return errJSON
	}
	return nil
}

// text reads a string literal and returns what it says: a part of the input, or a copy where it has escapes.
func (s *scanner) text() ([]byte, error) {
	start := s.i
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return nil, errJSON
	}
	plain := true
	for s.i++; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			raw := s.b[start:s.i]
			if !utf8.Valid(raw) {
				return nil, errJSON
			}
			if plain {
				return raw[1 : len(raw)-1], nil
			}
			return unescape(raw)
		case c == '\\':
			plain = false
			s.i++
		case c < 0x20:
			return nil, errJSON
		}
	}
	return nil, errJSON
}

// unescape reads a string literal with escapes. Half a surrogate pair reads as U+FFFD, so that different literals would say the same: whatever
// says U+FFFD is refused.
func unescape(raw []byte) ([]byte, error) {
	var out string
	if json.Unmarshal(raw, &out) != nil || strings.ContainsRune(out, utf8.RuneError) {
		return nil, errJSON
	}
	return []byte(out), nil
}

// value passes over one value and returns its text.
func (s *scanner) value() ([]byte, error) {
	s.space()
	start := s.i
	depth := 0
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case '"':
			if depth == 0 && s.i != start {
				return nil, errJSON
			}
			if _, err := s.text(); err != nil {
				return nil, err
			}
			if depth == 0 {
				return s.b[start:s.i], nil
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return s.scalar(start)
			}
			if depth--; depth == 0 {
				s.i++
				if v := s.b[start:s.i]; json.Valid(v) {
					return v, nil
				}
				return nil, errJSON
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return s.scalar(start)
			}
		}
		s.i++
	}
	return nil, errJSON
}

func (s *scanner) scalar(start int) ([]byte, error) {
	if v := s.b[start:s.i]; json.Valid(v) {
		return v, nil
	}
	return nil, errJSON
}

// textOf is the string that a value says.
func textOf(value []byte) ([]byte, error) {
	s := scanner{b: value}
	t, err := s.text()
	if err == nil && s.i != len(value) {
		err = errJSON
	}
	return t, err
}

// dateOf is a NumericDate (RFC 7519, section 2): seconds, possibly with a fraction.
func dateOf(value []byte) (float64, error) {
	if n := len(value); n > 0 && n < 16 && bytes.IndexFunc(value, notDigit) < 0 {
		v := 0
		for _, c := range value {
			v = v*10 + int(c-'0')
		}
		return float64(v), nil
	}
	v, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return 0, errJSON
	}
	return v, nil
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

// textsOf is a list of strings; with single also one string alone.
func textsOf(value []byte, single bool) ([]string, error) {
	if single && len(value) > 0 && value[0] == '"' {
		t, err := textOf(value)
		if err != nil {
			return nil, err
		}
		return []string{string(t)}, nil
	}
	if string(value) == "null" {
		return nil, nil
	}
	s := scanner{b: value}
	if !s.take('[') {
		return nil, errJSON
	}
	var out []string
	for first := true; !s.take(']'); first = false {
		if !first && !s.take(',') {
			return nil, errJSON
		}
		s.space()
		t, err := s.text()
		if err != nil {
			return nil, err
		}
		out = append(out, string(t))
	}
	return out, nil
}
