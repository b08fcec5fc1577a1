package tagindex

import "math/bits"

func count(set uint32) int { return bits.OnesCount32(set) }

// Bound is an expression prepared for one [Local]; like that it belongs to the Local's loop.
type Bound struct {
	prog    []step
	keys    []string
	ids     []ID   // 0: no member now
	changes uint64 // of the Local when ids were looked up
}

// Bind prepares the expression for l, whose keys are prefix + tag. It may be kept for as long as l: when tags come and go, the next
// Match looks its own up again.
func (e *Expr) Bind(l *Local, prefix string) Bound {
	b := Bound{prog: e.prog, keys: make([]string, len(e.tags)), ids: make([]ID, len(e.tags))}
	for i, t := range e.tags {
		b.keys[i] = prefix + t
	}
	b.lookUp(l)
	return b
}

func (b *Bound) lookUp(l *Local) {
	for i, k := range b.keys {
		b.ids[i] = l.find(k)
	}
	b.changes = l.changes
}

// Match reports whether connection c fits the expression, at the cost of one look through its tags for each tag tested.
func (b *Bound) Match(l *Local, c uint32) bool {
	if b.changes != l.changes {
		b.lookUp(l)
	}
	pc := int16(len(b.prog) - 1)
	for pc >= 0 {
		s := b.prog[pc]
		if id := b.ids[s.tag]; id != 0 && l.Has(c, id) {
			pc = s.yes
		} else {
			pc = s.no
		}
	}
	return pc == stepFits
}
