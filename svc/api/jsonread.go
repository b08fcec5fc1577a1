package api

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pathEscaper quotes names in paths.
var pathEscaper = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

// maxDepth bounds arrays and objects within each other.
const maxDepth = 128

// reader walks over one JSON text from front to back and keeps the first error; after that every method returns at once. The
// expected shape is in the calls, so nothing is reflected and nothing is allocated but what the caller keeps.
//
//	var o object
//	for r.open(&o); r.field(&o); {
//		switch string(r.name) {
//		case "user":
//			r.take(&o, 0, "user")
//			user = r.str()
//		default:
//			r.unknown("user")
//		}
//	}
//	r.end()
//
// It is stricter than encoding/json: no field twice, names exactly as written, no null for a missing value, no unpaired surrogates in
// strings that it decodes, UTF-8 everywhere.
type reader struct {
	buf   []byte
	pos   int
	depth int
	name  []byte // of the field that is being read, valid until the next call
	path  []step // to the value that is being read
	err   *failure
	spare []byte // for strings with escapes
}

// step is one part of a path: a field, or an index of an array, or neither where an object or array has begun.
type step struct {
	name  string
	field bool
	index int // -1: none
}

var nowhere = step{index: -1}

// object is the state of one object that is being read.
type object struct {
	seen  uint32 // bits of the fields that were there
	begun bool
}

// list is the state of one array that is being read.
type list struct{ n int }

func (r *reader) reset(buf []byte) {
	r.buf, r.pos, r.depth, r.err, r.path = buf, 0, 0, nil, r.path[:0]
}

// fail keeps the first error; the path is that of the value being read.
func (r *reader) fail(text string) {
	if r.err != nil {
		return
	}
	path := r.where()
	if at := strings.TrimPrefix(path[1:], "."); at != "" {
		text = at + ": " + text
	}
	r.err = &failure{kind: problemInvalid, detail: text, path: path}
}

// syntax is for texts that are no JSON.
func (r *reader) syntax(text string) {
	if r.err != nil {
		return
	}
	if r.pos >= len(r.buf) {
		text += ", but the text ends"
	} else {
		text += ", not " + strconv.QuoteRuneToASCII(firstRune(r.buf[r.pos:]))
	}
	r.err = &failure{kind: problemInvalid, detail: "not JSON at byte " + strconv.Itoa(r.pos) + ": expected " + text, path: r.where()}
}

func firstRune(b []byte) rune {
	c, _ := utf8.DecodeRune(b)
	return c
}

// where is the JSON path (RFC 9535) of the value being read.
func (r *reader) where() string {
	b := []byte{'$'}
	for _, s := range r.path {
		switch {
		case s.index >= 0:
			b = append(b, '[')
			b = strconv.AppendInt(b, int64(s.index), 10)
			b = append(b, ']')
		case plain(s.name):
			b = append(b, '.')
			b = append(b, s.name...)
		case s.field:
			b = append(b, "['"...)
			b = append(b, pathEscaper.Replace(s.name)...)
			b = append(b, "']"...)
		}
	}
	return string(b)
}

// plain reports whether a path may name a field without quotes.
func plain(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && (c < '0' || '9' < c) && (c < 'A' || 'Z' < c) && (c < 'a' || 'z' < c) {
			return false
		}
	}
	return name != "" && (name[0] < '0' || '9' < name[0])
}

func (r *reader) space() {
	for r.pos < len(r.buf) {
		switch r.buf[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// peek is the next byte after white space, 0 at the end.
func (r *reader) peek() byte {
	r.space()
	if r.pos < len(r.buf) {
		return r.buf[r.pos]
	}
	return 0
}

// kind names the value that comes next, as far as its beginning tells; empty: none.
func (r *reader) kind() string {
	rest := r.buf[r.pos:]
	switch c := r.peek(); {
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '"':
		return "a string"
	case bytes.HasPrefix(rest, []byte("true")) || bytes.HasPrefix(rest, []byte("false")):
		return "a boolean"
	case bytes.HasPrefix(rest, []byte("null")):
		return "null"
	case c == '-' || '0' <= c && c <= '9':
		return "a number"
	}
	return ""
}

// wrong reports a value of another type than want. White space has been passed.
func (r *reader) wrong(want string) {
	got := r.kind()
	switch {
	case got == "":
		r.syntax(want)
	case got == "null" && len(r.path) > 0:
		r.fail("expected " + want + ", not null: leave the field out instead")
	default:
		r.fail("expected " + want + ", not " + got)
	}
}

// end checks that nothing follows the value.
func (r *reader) end() {
	if r.err != nil {
		return
	}
	if r.space(); r.pos < len(r.buf) {
		r.syntax("nothing after the value")
	}
}

func (r *reader) enter(open byte, want string) bool {
	if r.err != nil {
		return false
	}
	if r.peek() != open {
		r.wrong(want)
		return false
	}
	if r.depth == maxDepth {
		r.fail("nested deeper than " + strconv.Itoa(maxDepth))
		return false
	}
	r.depth++
	r.pos++
	r.path = append(r.path, nowhere)
	return true
}

func (r *reader) leave() {
	r.depth--
	r.pos++
	r.path = r.path[:len(r.path)-1]
}

// open begins an object.
func (r *reader) open(o *object) {
	*o = object{}
	r.enter('{', "an object")
}

// field reads the name of the next field; false at the end of the object.
func (r *reader) field(o *object) bool {
	if r.err != nil {
		return false
	}
	*r.top() = nowhere
	c := r.peek()
	if c == '}' {
		r.leave()
		return false
	}
	if o.begun {
		if c != ',' {
			r.syntax("a comma or }")
			return false
		}
		r.pos++
		c = r.peek()
	}
	o.begun = true
	if c != '"' {
		r.syntax("the name of a field in quotes")
		return false
	}
	if r.name = r.token(); r.err != nil {
		return false
	}
	if r.peek() != ':' {
		r.syntax("a colon")
		return false
	}
	r.pos++
	return true
}

// top is where the path ends.
func (r *reader) top() *step { return &r.path[len(r.path)-1] }

// take claims the field just named, which has its bit in the object.
func (r *reader) take(o *object, bit int, name string) {
	*r.top() = step{name: name, field: true, index: -1}
	if o.seen&(1<<bit) != 0 {
		r.fail("the field is there twice")
	}
	o.seen |= 1 << bit
}

func (o *object) has(bit int) bool { return o.seen&(1<<bit) != 0 }

// maxNamed bounds what an error repeats of a name that the client made up.
const maxNamed = 64

// unknown refuses the field just named.
func (r *reader) unknown(known string) {
	if r.err != nil {
		return
	}
	name := string(r.name[:min(len(r.name), maxNamed)])
	*r.top() = step{name: name, field: true, index: -1}
	r.fail("unknown field (known: " + known + ")")
}

// each begins an array.
func (r *reader) each(l *list, want string) {
	l.n = -1
	r.enter('[', want)
}

// next goes to the next element; false at the end of the array.
func (r *reader) next(l *list) bool {
	if r.err != nil {
		return false
	}
	*r.top() = nowhere
	c := r.peek()
	if c == ']' {
		r.leave()
		return false
	}
	if l.n++; l.n > 0 {
		if c != ',' {
			r.syntax("a comma or ]")
			return false
		}
		r.pos++
		if r.peek() == ']' {
			r.syntax("a value")
			return false
		}
	}
	r.top().index = l.n
	return true
}

// str reads a string. The result is the caller's.
func (r *reader) str() string {
	if b := r.text(); b != nil {
		return string(b)
	}
	return ""
}

// text reads a string; the result is valid until the next call. It is nil on errors and not nil else.
func (r *reader) text() []byte {
	if r.err != nil {
		return nil
	}
	if r.peek() != '"' {
		r.wrong("a string")
		return nil
	}
	return r.token()
}

// flag reads a boolean.
func (r *reader) flag() bool {
	if r.err != nil {
		return false
	}
	switch r.peek() {
	case 't':
		r.literal("true")
		return true
	case 'f':
		r.literal("false")
	default:
		r.wrong("true or false")
	}
	return false
}

func (r *reader) literal(s string) {
	if len(r.buf)-r.pos >= len(s) && string(r.buf[r.pos:r.pos+len(s)]) == s {
		r.pos += len(s)
		return
	}
	r.syntax(s)
}
