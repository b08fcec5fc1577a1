package connmgr

import "math/bits"

const wheelBuckets = 512 // seconds; a later deadline waits in the last bucket and is looked at again there

// wheel orders the sessions by the second in which something may be due for them: login timeout, heartbeat expiry, token
// expiry. It is lazy: a frame from the client only stores lastSeen in the record, and a session that turns out to be
// alive at its second is put where its new deadline is. The buckets are doubly linked through the records, so adding
// and removing cost a few stores and no memory.
type wheel struct {
	heads [wheelBuckets]uint32 // slot+1
	used  [wheelBuckets / 64]uint64
	now   uint32 // second up to which everything was handled
}

// add puts the session where second at is handled; at in the past means the next second.
func (w *wheel) add(sl *slab, slot uint32, ss *session, at uint32) {
	if ss.bucket != 0 {
		w.remove(sl, ss)
	}
	if at <= w.now {
		at = w.now + 1
	}
	if at-w.now >= wheelBuckets {
		at = w.now + wheelBuckets - 1
	}
	b := at % wheelBuckets
	ss.prev, ss.next = 0, w.heads[b]
	if ss.next != 0 {
		sl.at(ss.next - 1).prev = slot + 1
	}
	w.heads[b] = slot + 1
	w.used[b/64] |= 1 << (b % 64)
	ss.bucket = uint16(b) + 1
}

// remove takes the session out, if it is in.
func (w *wheel) remove(sl *slab, ss *session) {
	if ss.bucket == 0 {
		return
	}
	b := uint32(ss.bucket) - 1
	if ss.next != 0 {
		sl.at(ss.next - 1).prev = ss.prev
	}
	if ss.prev != 0 {
		sl.at(ss.prev - 1).next = ss.next
	} else {
		w.heads[b] = ss.next
		if ss.next == 0 {
			w.used[b/64] &^= 1 << (b % 64)
		}
	}
	ss.next, ss.prev, ss.bucket = 0, 0, 0
}

// advance handles all seconds up to now: due is called for each session of their buckets, which are out of the wheel then.
// due may add and remove sessions.
func (w *wheel) advance(sl *slab, now uint32, due func(slot uint32, ss *session)) {
	if now-w.now > wheelBuckets && now > w.now {
		w.now = now - wheelBuckets
	}
	for w.now < now {
		w.now++
		b := w.now % wheelBuckets
		for w.heads[b] != 0 {
			slot := w.heads[b] - 1
			ss := sl.at(slot)
			w.remove(sl, ss)
			due(slot, ss)
		}
	}
}

// wait is how many seconds from now on nothing is due; false: nothing is in the wheel.
func (w *wheel) wait() (uint32, bool) {
	start := (w.now + 1) % wheelBuckets
	for i := uint32(0); i < wheelBuckets; {
		b := (start + i) % wheelBuckets
		word := w.used[b/64] >> (b % 64)
		if word == 0 {
			i += 64 - b%64
			continue
		}
		return i + uint32(bits.TrailingZeros64(word)) + 1, true
	}
	return 0, false
}
