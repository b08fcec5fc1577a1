package netloop

const (
	wheelTick = 50 // ms
	wheelSize = 256
	maxBucket = 512 // keys for which an empty bucket keeps its room
)

// wheel is a lazy timer wheel: whoever has a deadline is put in once, nothing is taken out, and what comes up is asked for its
// deadline then. Keys are whatever names the owner. The zero wheel begins at time 0.
type wheel struct {
	at      int64 // the last tick that was handled
	next    int64 // no bucket before this tick has a key
	entries int
	buckets [wheelSize][]uint64
}

// add puts key in for a time in ms. A time beyond the wheel comes up earlier; whoever is asked then puts itself in again.
func (w *wheel) add(ms int64, key uint64) {
	tick := (ms + wheelTick - 1) / wheelTick
	tick = min(max(tick, w.at+1), w.at+wheelSize-1)
	b := &w.buckets[tick%wheelSize]
	*b = append(*b, key)
	if w.entries++; w.entries == 1 || tick < w.next {
		w.next = tick
	}
}

// advance brings the wheel up to now and calls due for every key whose tick has passed. due may add.
func (w *wheel) advance(nowMs int64, due func(key uint64)) {
	now := nowMs / wheelTick
	if w.at+wheelSize < now {
		w.at = now - wheelSize // every bucket comes up once
	}
	for w.at < now && w.entries > 0 {
		w.at++
		b := &w.buckets[w.at%wheelSize]
		keys := *b
		if len(keys) == 0 {
			continue
		}
		*b = nil // due may add to this bucket only for a later turn, and add keeps it from that
		w.entries -= len(keys)
		for _, k := range keys {
			due(k)
		}
		if cap(keys) <= maxBucket && *b == nil {
			*b = keys[:0]
		}
	}
	w.at = max(w.at, now)
}

// wait is how many ms after now the next key comes up, -1: there is none.
func (w *wheel) wait(nowMs int64) int {
	if w.entries == 0 {
		return -1
	}
	w.next = max(w.next, w.at+1)
	for len(w.buckets[w.next%wheelSize]) == 0 {
		w.next++
	}
	return int(max(0, w.next*wheelTick-nowMs))
}
