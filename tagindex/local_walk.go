package tagindex

import "unsafe"

// Walk is an open fan-out round over the members of one tag. It visits, downwards, each connection that is a member from
// the Start to its visit, exactly once; one that joins later, also again or in a recycled slot, is not
// visited. The zero Walk is finished.
type Walk struct {
	slot uint32 // of walks.open, + 1
	gen  uint32
}

// Open reports whether the walk was started and has neither ended nor been stopped.
func (w *Walk) Open() bool { return w.slot != 0 }

// walks holds the positions of all open walks. Those of one tag form a chain by rising position.
type walks struct {
	open  []walk
	free  uint32 // chain through next; slot + 1
	chain map[ID]chain
}

type walk struct {
	id         ID
	pos        uint32 // members below are still to be visited
	prev, next uint32 // slot + 1
	gen        uint32
}

type chain struct{ low, high uint32 } // slot + 1

// Start opens a walk over the present members. The tag keeps its ID until the walk ends: every walk must be run
// to its end or be stopped. A removal from a tag costs one more move for each open walk that has not passed the member.
func (l *Local) Start(id ID) Walk {
	t := l.tags.at(id)
	if t == nil || t.n == 0 {
		return Walk{}
	}
	ws := &l.walks
	s := ws.free
	if s != 0 {
		ws.free = ws.open[s-1].next
	} else {
		ws.open = append(ws.open, walk{})
		s = uint32(len(ws.open))
	}
	w := &ws.open[s-1]
	w.id, w.pos = id, t.n
	w.prev, w.next = 0, 0
	if ws.chain == nil {
		ws.chain = map[ID]chain{}
	}
	ch := ws.chain[id]
	if ch.high != 0 { // no other position can be above the length
		w.prev = ch.high
		ws.open[ch.high-1].next = s
	} else {
		ch.low = s
	}
	ch.high = s
	ws.chain[id] = ch
	t.walked = true
	return Walk{slot: s, gen: w.gen}
}

// Next fills buf, which must not be empty, with the next connections and says how many. 0 means that the walk has ended.
func (l *Local) Next(w *Walk, buf []uint32) (n int) {
	st := l.walks.at(w)
	if st == nil || len(buf) == 0 {
		return 0
	}
	t := l.tags.get(st.id)
	k := min(st.pos, uint32(len(buf)))
	n = int(k)
	for filled := 0; k > 0; {
		// One piece of the list at a time, from its upper end.
		first := uint32(0)
		if t.class == classPaged {
			first = (st.pos - 1) &^ pageMask
		}
		first = max(first, st.pos-k)
		var run []uint32
		if t.class == 0 {
			run = []uint32{t.ref}
		} else {
			run = l.words.run(t.ref, t.class, first)[:st.pos-first]
		}
		for i := len(run) - 1; i >= 0; i-- {
			buf[filled] = entryConn(run[i])
			filled++
		}
		st.pos = first
		k -= uint32(len(run))
	}
	if st.pos == 0 {
		l.Stop(w)
	} else {
		l.walks.sink(w.slot)
	}
	return n
}

// Stop ends a walk early. A walk that has ended is left alone.
func (l *Local) Stop(w *Walk) {
	st := l.walks.at(w)
	if st == nil {
		*w = Walk{}
		return
	}
	ws := &l.walks
	id, s := st.id, w.slot
	*w = Walk{}
	ch := ws.unlink(s)
	st.gen++
	st.id, st.next = 0, ws.free
	ws.free = s
	if ch.low != 0 {
		return
	}
	delete(ws.chain, id)
	t := l.tags.get(id)
	t.walked = false
	if t.n == 0 {
		l.tags.remove(&l.words, id)
		l.changes++
	}
}

func (ws *walks) at(w *Walk) *walk {
	if w.slot == 0 || ws.open[w.slot-1].gen != w.gen {
		return nil
	}
	return &ws.open[w.slot-1]
}

// unlink takes a walk out of its chain, which it stores and returns.
func (ws *walks) unlink(s uint32) chain {
	w := &ws.open[s-1]
	ch := ws.chain[w.id]
	if w.prev != 0 {
		ws.open[w.prev-1].next = w.next
	} else {
		ch.low = w.next
	}
	if w.next != 0 {
		ws.open[w.next-1].prev = w.prev
	} else {
		ch.high = w.prev
	}
	ws.chain[w.id] = ch
	return ch
}

// sink moves a walk whose position fell to its place in the chain.
func (ws *walks) sink(s uint32) {
	w := &ws.open[s-1]
	if w.prev == 0 || ws.open[w.prev-1].pos <= w.pos {
		return
	}
	ch := ws.unlink(s)
	p := w.prev
	for p != 0 && ws.open[p-1].pos > w.pos {
		p = ws.open[p-1].prev
	}
	w.prev = p
	if p != 0 {
		w.next = ws.open[p-1].next
		ws.open[p-1].next = s
	} else {
		w.next = ch.low
		ch.low = s
	}
	ws.open[w.next-1].prev = s // there is one: the walk that was passed
	ws.chain[w.id] = ch
}

// closeGap moves the gap that a removal at place i leaves to where no open walk will come, and returns its place. The
// positions of the walks cut the list into parts whose members all have the same walks ahead. The last
// member of the gap's part fills it, so the gap is at the lower end of the next part, and the position
// between both goes down by one: nobody is moved across a position, so nobody is skipped or met twice.
func (l *Local) closeGap(id ID, t *tag, i uint32) uint32 {
	ws := &l.walks
	for s := ws.chain[id].low; s != 0; {
		w := &ws.open[s-1]
		s = w.next
		if w.pos <= i {
			continue
		}
		w.pos--
		if w.pos != i {
			l.moveMember(id, t, w.pos, i)
			i = w.pos
		}
	}
	return i
}

// Page lists members without pinning the tag, for lists that people look at. The first cursor is 0, then it is the next
// of the page before. Who stays a member is listed at least once, and twice only if others left meanwhile.
func (l *Local) Page(id ID, cursor uint32, buf []uint32) (n int, next uint32, done bool) {
	t := l.tags.at(id)
	if t == nil || t.n == 0 {
		return 0, 0, true
	}
	pos := t.n
	if cursor != 0 {
		pos = min(cursor, pos)
	}
	for n < len(buf) && pos > 0 {
		pos--
		buf[n] = entryConn(*l.member(t, pos))
		n++
	}
	return n, pos, pos == 0
}

func (ws *walks) bytes() int { return cap(ws.open) * int(unsafe.Sizeof(walk{})) }
