package connmgr

import "github.com/klinkio/klink/auth"

// grantTable keeps the permission sets of the sessions of one loop, so that a record holds an index and no pointer.
// Equal sets come as equal pointers (package auth interns them); so a million sessions of one kind share one entry.
type grantTable struct {
	sets  []*auth.Grants
	refs  []uint32
	index map[*auth.Grants]uint32
	free  []uint32
}

func (t *grantTable) put(g *auth.Grants) uint32 {
	if i, ok := t.index[g]; ok {
		t.refs[i]++
		return i
	}
	if t.index == nil {
		t.index = make(map[*auth.Grants]uint32)
	}
	var i uint32
	if n := len(t.free); n > 0 {
		i = t.free[n-1]
		t.free = t.free[:n-1]
		t.sets[i], t.refs[i] = g, 1
	} else {
		i = uint32(len(t.sets))
		t.sets = append(t.sets, g)
		t.refs = append(t.refs, 1)
	}
	t.index[g] = i
	return i
}

func (t *grantTable) get(i uint32) *auth.Grants { return t.sets[i] }

func (t *grantTable) drop(i uint32) {
	if t.refs[i]--; t.refs[i] == 0 {
		delete(t.index, t.sets[i])
		t.sets[i] = nil
		t.free = append(t.free, i)
	}
}
