package tagindex

// A table is one shard's slots: 64-bit words, the lower 48 bits of the key above 16 bits of value, never 0. Linear probing
// whose home place grows with the key, and slots kept in order: so the whole table is sorted, the slots of one
// key are neighbours, and it grows in place, page by page, without a second copy. Nothing is left
// for the garbage collector, whose pace would else decide what the index costs.
type table struct {
	pages []*slotPage
	n     uint32 // slots in use
	tail  uint32 // the last places, which are nobody's home: the order pushes slots into them
}

const (
	slotPageBits = 7
	slotPageLen  = 1 << slotPageBits
	slotPageMask = slotPageLen - 1

	// tailLen is the ordinary tail. Keyed hashes do not use more up, but keys that somebody chose might.
	tailLen = 32
)

type slotPage [slotPageLen]uint64

func (t *table) places() uint32 { return uint32(len(t.pages)) << slotPageBits }

func (t *table) at(i uint32) *uint64 { return &t.pages[i>>slotPageBits][i&slotPageMask] }

func (t *table) home(slot uint64) uint32 {
	return uint32((slot >> 32) * uint64(t.places()-t.tail) >> 32)
}

// full reports whether one more slot would make probes long.
func (t *table) full() bool { return uint64(t.n+1)*32 > uint64(t.places()-t.tail+tailLen)*27 }

// seek is the place of the first slot that is not below the given one, or the free place before it.
func (t *table) seek(slot uint64) (i uint32, found uint64) {
	end := t.places()
	if end == 0 {
		return 0, 0
	}
	for i = t.home(slot); i < end; i++ {
		if v := *t.at(i); v == 0 || v >= slot {
			return i, v
		}
	}
	return end, 0
}

// peek is the slot at a place, 0 behind the end.
func (t *table) peek(i uint32) uint64 {
	if i >= t.places() {
		return 0
	}
	return *t.at(i)
}

// insert adds a slot that is not there.
func (t *table) insert(slot uint64) {
	if len(t.pages) == 0 || t.full() {
		t.resize(len(t.pages) + 1 + len(t.pages)/16)
	}
	for {
		i, _ := t.seek(slot)
		free := i
		for free < t.places() && *t.at(free) != 0 {
			free++
		}
		if free < t.places() {
			for ; free > i; free-- {
				*t.at(free) = *t.at(free - 1)
			}
			*t.at(i) = slot
			t.n++
			return
		}
		t.pages = append(t.pages, new(slotPage))
		t.tail += slotPageLen
	}
}

// remove takes the slot at place i out and moves those behind it back, so that no tombstone stays.
func (t *table) remove(i uint32) {
	for end := t.places(); i+1 < end; i++ {
		v := *t.at(i + 1)
		if v == 0 || t.home(v) == i+1 {
			break
		}
		*t.at(i) = v
	}
	*t.at(i) = 0
	t.n--
}

// shrink gives memory back when there is clearly too much: below 5/8 of the places in use, down to 4/5 or so.
func (t *table) shrink() {
	if t.n == 0 {
		*t = table{}
		return
	}
	want := (int(t.n)*41/32 + slotPageLen) >> slotPageBits
	if want < len(t.pages) && uint64(t.n)*8 < uint64(t.places())*5 {
		t.resize(want)
	}
}

// resize lays the slots out over another number of pages, or a few more if their keys crowd at the end.
func (t *table) resize(pages int) {
	t.tail = tailLen
	t.gather(pages)
	for extra := 1; !t.spread(); extra *= 2 {
		t.tail = tailLen + uint32(extra)<<slotPageBits
		t.gather(pages + extra)
	}
}

// gather moves all slots, in order, to the end of the pages that it makes it. Empty places are found by being
// empty, so the invariants of probing need not hold before.
func (t *table) gather(pages int) {
	old := t.places()
	for len(t.pages) < pages {
		t.pages = append(t.pages, new(slotPage))
	}
	to := t.places()
	for i := old; i > 0; i-- {
		p := t.at(i - 1)
		if v := *p; v != 0 {
			*p = 0
			to--
			*t.at(to) = v
		}
	}
	if pages == len(t.pages) {
		return
	}
	gap := uint32(len(t.pages)-pages) << slotPageBits
	for i := to; i < t.places(); i++ {
		*t.at(i - gap) = *t.at(i)
	}
	clear(t.pages[pages:])
	t.pages = append([]*slotPage(nil), t.pages[:pages]...)
}

// spread moves gathered slots to where probing looks for them: home, or next to the slot before. No write passes the
// read position unless the last slots do not fit; then it reports false and all are still there, in order.
func (t *table) spread() bool {
	end := t.places()
	free := uint32(0)
	for i := end - t.n; i < end; i++ {
		v := *t.at(i)
		to := max(t.home(v), free)
		if to > i {
			return false
		}
		if to != i {
			*t.at(i) = 0
			*t.at(to) = v
		}
		free = to + 1
	}
	return true
}
