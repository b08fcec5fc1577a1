package tagindex

// Both directions of a membership. A member list holds one word an entry: the connection in the upper 24 bits and
// in the lower 8 its back index, the place of this tag in the connection's reverse list. A reverse list holds two
// words: the tag, and the place of the connection in the tag's member list. Back indexes from farBack
// on are stored as farBack and searched for.
const farBack = 255

// conn is the head of one connection's reverse list.
type conn struct {
	ref  uint32
	meta uint32 // entries in the upper 24 bits, class of the list in the lower 8
}

func (cn *conn) n() uint32    { return cn.meta >> 8 }
func (cn *conn) class() uint8 { return uint8(cn.meta) }

type connChunkInfo struct {
	chunk *[chunkLen]conn
	live  uint32 // connections with a tag
}

func entry(c, back uint32) uint32 { return c<<8 | min(back, farBack) }

func entryConn(e uint32) uint32 { return e >> 8 }

// member is the i-th entry of a tag's member list.
func (l *Local) member(t *tag, i uint32) *uint32 {
	if t.class == 0 {
		return &t.ref
	}
	return l.words.at(t.ref, t.class, i)
}

func (l *Local) addMember(t *tag, e uint32) {
	switch {
	case t.n == 0:
		t.ref, t.class = e, 0
	case t.n == 1 && t.class == 0:
		only := t.ref
		t.ref, t.class = l.words.resize(0, 0, 0, 2)
		*l.member(t, 0) = only
		*l.member(t, 1) = e
	default:
		t.ref, t.class = l.words.resize(t.ref, t.class, t.n, t.n+1)
		*l.member(t, t.n) = e
	}
	t.n++
}

// dropMember takes entry i out: the last entry moves there, or, while walks are open, one from
// within the part that the same walks have not seen yet (see closeGap).
func (l *Local) dropMember(id ID, t *tag, i uint32) {
	if t.walked {
		i = l.closeGap(id, t, i)
	}
	if last := t.n - 1; i != last {
		l.moveMember(id, t, last, i)
	}
	t.n--
	switch {
	case t.class == 0:
	case t.n > 1:
		t.ref, t.class = l.words.resize(t.ref, t.class, t.n, t.n)
	default:
		only := *l.member(t, 0)
		l.words.resize(t.ref, t.class, t.n, 0)
		t.ref, t.class = only, 0
	}
}

func (l *Local) moveMember(id ID, t *tag, from, to uint32) {
	e := *l.member(t, from)
	*l.member(t, to) = e
	cn := l.get(entryConn(e))
	i := e & farBack
	if i == farBack {
		i = l.searchReverse(cn, id, farBack)
	}
	*l.words.at(cn.ref, cn.class(), 2*i+1) = to
}

// searchReverse is the index of a tag in a reverse list from index i on, or the list's length.
func (l *Local) searchReverse(cn *conn, id ID, i uint32) uint32 {
	n := cn.n()
	for i < n {
		run := l.words.run(cn.ref, cn.class(), 2*i)
		for len(run) >= 2 && i < n {
			if run[0] == uint32(id) {
				return i
			}
			run = run[2:]
			i++
		}
	}
	return n
}

// reverseIndex is the index of tag id in c's reverse list. It looks through the shorter of both lists.
func (l *Local) reverseIndex(c uint32, cn *conn, id ID, t *tag) (i uint32, ok bool) {
	n := cn.n()
	if t.n >= n {
		i = l.searchReverse(cn, id, 0)
		return i, i < n
	}
	for p := uint32(0); p < t.n; p++ {
		e := *l.member(t, p)
		if entryConn(e) != c {
			continue
		}
		if i = e & farBack; i == farBack {
			i = l.searchReverse(cn, id, farBack)
		}
		return i, true
	}
	return 0, false
}

func (l *Local) addReverse(c uint32, id ID, pos uint32) (back uint32) {
	k := int(c >> chunkBits)
	for k >= len(l.conns) {
		l.conns = append(l.conns, connChunkInfo{})
	}
	if l.conns[k].chunk == nil {
		if l.spare == nil {
			l.spare = new([chunkLen]conn)
		}
		l.conns[k].chunk, l.spare = l.spare, nil
	}
	cn := l.get(c)
	back = cn.n()
	ref, class := l.words.resize(cn.ref, cn.class(), 2*back, 2*back+2)
	*l.words.at(ref, class, 2*back) = uint32(id)
	*l.words.at(ref, class, 2*back+1) = pos
	cn.ref, cn.meta = ref, (back+1)<<8|uint32(class)
	if back == 0 {
		l.conns[k].live++
	}
	return back
}

// dropReverse takes entry i out of c's reverse list; its last entry moves there.
func (l *Local) dropReverse(c uint32, cn *conn, i uint32) {
	last := cn.n() - 1
	ref, class := cn.ref, cn.class()
	if i != last {
		id, pos := *l.words.at(ref, class, 2*last), *l.words.at(ref, class, 2*last+1)
		*l.words.at(ref, class, 2*i) = id
		*l.words.at(ref, class, 2*i+1) = pos
		*l.member(l.tags.get(ID(id)), pos) = entry(c, i)
	}
	ref, class = l.words.resize(ref, class, 2*last, 2*last)
	cn.ref, cn.meta = ref, last<<8|uint32(class)
	if last == 0 {
		l.forget(c)
	}
}

// forget counts a connection out whose last tag is gone and whose head is zero again.
func (l *Local) forget(c uint32) {
	ci := &l.conns[c>>chunkBits]
	if ci.live--; ci.live == 0 && c>>chunkBits > 0 {
		ci.chunk, l.spare = nil, ci.chunk
	}
}

// get is the head of a connection that has tags.
func (l *Local) get(c uint32) *conn { return &l.conns[c>>chunkBits].chunk[c&chunkMask] }

// conn is the head of any connection, nil if its chunk does not exist.
func (l *Local) conn(c uint32) *conn {
	if k := int(c >> chunkBits); k < len(l.conns) && l.conns[k].chunk != nil {
		return &l.conns[k].chunk[c&chunkMask]
	}
	return nil
}
