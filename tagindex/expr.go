package tagindex

import (
	"strings"
	"unicode"
)

// Expr is a tag expression, for example `room:1 && !vip`. It is immutable and safe for concurrent use. Use [Parse].
type Expr struct {
	root node
	tags []string // distinct, in order of appearance
	prog []step
}

type op uint8

const (
	opTag op = iota
	opNot    // one kid, never opNot
	opAnd    // two kids or more
	opOr     // two kids or more
)

type node struct {
	op   op
	tag  int // index of Expr.tags
	kids []node
}

// step is one test of the compiled expression: go on at yes or no. Steps are laid out backwards, so both are lower
// than the step itself and every run ends.
type step struct {
	tag     uint8
	yes, no int16
}

const (
	stepFits   = -1
	stepMisses = -2
)

// compile appends the steps that test n and returns where to enter them.
func (e *Expr) compile(n *node, yes, no int16) int16 {
	switch n.op {
	case opTag:
		e.prog = append(e.prog, step{uint8(n.tag), yes, no})
		return int16(len(e.prog) - 1)
	case opNot:
		return e.compile(&n.kids[0], no, yes)
	}
	last := len(n.kids) - 1
	enter := e.compile(&n.kids[last], yes, no)
	for i := last - 1; i >= 0; i-- {
		if n.op == opAnd {
			enter = e.compile(&n.kids[i], enter, no)
		} else {
			enter = e.compile(&n.kids[i], yes, enter)
		}
	}
	return enter
}

// Eval evaluates the expression for whoever has the tags that has reports. It asks for as few as it needs.
func (e *Expr) Eval(has func(tag string) bool) bool {
	pc := int16(len(e.prog) - 1)
	for pc >= 0 {
		s := e.prog[pc]
		if has(e.tags[s.tag]) {
			pc = s.yes
		} else {
			pc = s.no
		}
	}
	return pc == stepFits
}

// Tags are the distinct tags of the expression in order of appearance, the caller's.
func (e *Expr) Tags() []string { return append([]string(nil), e.tags...) }

// Cover is a set of tags of which every session that fits carries at least one, so that only their members need to be
// looked at; of the ways to build one from the parts of the expression it takes a shortest. ok is false if
// there is no such set: exactly when a session with none of the tags fits.
func (e *Expr) Cover() (tags []string, ok bool) {
	set, ok := e.root.cover(false)
	if !ok {
		return nil, false
	}
	for i, t := range e.tags {
		if set&(1<<i) != 0 {
			tags = append(tags, t)
		}
	}
	return tags, true
}

// cover works on the negation normal form: negated means that an odd number of nots is above n.
func (n *node) cover(negated bool) (set uint32, ok bool) {
	switch n.op {
	case opTag:
		return 1 << n.tag, !negated
	case opNot:
		return n.kids[0].cover(!negated)
	}
	if (n.op == opAnd) == negated { // or: all kids must be covered
		for i := range n.kids {
			s, ok := n.kids[i].cover(negated)
			if !ok {
				return 0, false
			}
			set |= s
		}
		return set, true
	}
	for i := range n.kids { // and: any kid will do
		s, kidOK := n.kids[i].cover(negated)
		if kidOK && (!ok || count(s) < count(set)) {
			set, ok = s, true
		}
	}
	return set, ok
}

// String is the canonical form, which parses to an equal expression: no needless parentheses or quotes, spaces around
// && and || unless these would carry it over [MaxExprLen].
func (e *Expr) String() string {
	var b strings.Builder
	e.write(&b, &e.root, " ")
	if b.Len() > MaxExprLen {
		b.Reset()
		e.write(&b, &e.root, "") // never longer than what was parsed
	}
	return b.String()
}

func (e *Expr) write(b *strings.Builder, n *node, space string) {
	switch n.op {
	case opTag:
		writeTag(b, e.tags[n.tag])
	case opNot:
		b.WriteByte('!')
		e.writeKid(b, n, &n.kids[0], space)
	default:
		for i := range n.kids {
			if i > 0 {
				b.WriteString(space)
				b.WriteString([...]string{opAnd: "&&", opOr: "||"}[n.op])
				b.WriteString(space)
			}
			e.writeKid(b, n, &n.kids[i], space)
		}
	}
}

// writeKid puts parentheses around what binds less than its parent.
func (e *Expr) writeKid(b *strings.Builder, parent, kid *node, space string) {
	if kid.op > parent.op {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	e.write(b, kid, space)
}

func writeTag(b *strings.Builder, tag string) {
	if strings.IndexFunc(tag, endsTag) < 0 {
		b.WriteString(tag)
		return
	}
	b.WriteByte('"')
	for i := range len(tag) {
		if tag[i] == '"' || tag[i] == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(tag[i])
	}
	b.WriteByte('"')
}

// endsTag reports whether r can't stand in a tag without quotes.
func endsTag(r rune) bool {
	switch r {
	case '(', ')', '!', '&', '|', '"':
		return true
	}
	return unicode.IsSpace(r)
}
