package frame

import (
	"encoding/base64"
	"strconv"
)

// object writes objects as protojson does: members that have their default value are left out, 64-bit numbers are strings.
type object struct {
	b []byte
}

// member begins a member. Names are constants that need no escape.
func (o *object) member(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

func (o *object) open(name string) {
	o.member(name)
	o.b = append(o.b, '{')
}

// element begins an object within an array.
func (o *object) element() {
	if o.b[len(o.b)-1] != '[' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '{')
}

func (o *object) close() { o.b = append(o.b, '}') }

func (o *object) uint32(name string, v uint32) {
	if v != 0 {
		o.member(name)
		o.b = strconv.AppendUint(o.b, uint64(v), 10)
	}
}

func (o *object) uint64(name string, v uint64) {
	if v != 0 {
		o.member(name)
		o.b = append(strconv.AppendUint(append(o.b, '"'), v, 10), '"')
	}
}

func (o *object) int64(name string, v int64) {
	if v != 0 {
		o.member(name)
		o.b = append(strconv.AppendInt(append(o.b, '"'), v, 10), '"')
	}
}

func (o *object) bool(name string, v bool) {
	if v {
		o.member(name)
		o.b = append(o.b, "true"...)
	}
}

// enum writes the name of v, or its number when it has none here.
func (o *object) enum(name string, v int32, names map[int32]string) {
	if v == 0 {
		return
	}
	o.member(name)
	if s, ok := names[v]; ok {
		o.b = appendQuoted(o.b, s)
		return
	}
	o.b = strconv.AppendInt(o.b, int64(v), 10)
}

func (o *object) string(name, v string) {
	if v != "" {
		o.member(name)
		o.b = appendQuoted(o.b, v)
	}
}

func (o *object) bytes(name string, v []byte) {
	if len(v) != 0 {
		o.member(name)
		o.b = appendQuoted(o.b, v)
	}
}

func (o *object) strings(name string, vs []string) {
	if len(vs) == 0 {
		return
	}
	o.member(name)
	o.b = append(o.b, '[')
	for i, v := range vs {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = appendQuoted(o.b, v)
	}
	o.b = append(o.b, ']')
}

// body writes a payload; names are its members by kind.
func (o *object) body(names *[3]string, v Body) {
	switch {
	case v.Kind != 0:
		o.member(names[v.Kind])
		o.b = appendQuoted(o.b, v.Data)
	case v.Data != nil:
		o.member(names[0])
		o.b = append(o.b, '"')
		o.b = base64.StdEncoding.AppendEncode(o.b, v.Data)
		o.b = append(o.b, '"')
	}
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends valid UTF-8 as a JSON string.
func appendQuoted[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	done := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[done:i]...)
		done = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[done:]...)
	return append(dst, '"')
}
