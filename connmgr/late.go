package connmgr

import (
	"sync"

	"github.com/klinkio/klink"
)

// lateCap is how many late outcomes are kept.
const lateCap = 10_000

// lateRing keeps the newest drops of pushes that had counted as enqueued. Writing is rare: only slow readers drop.
type lateRing struct {
	mu   sync.Mutex
	ring []lateEntry
	next int
}

type lateEntry struct {
	push string
	out  klink.Outcome
}

func newLateRing(n int) *lateRing { return &lateRing{ring: make([]lateEntry, 0, n)} }

func (r *lateRing) add(push string, o klink.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := lateEntry{push, o}
	if len(r.ring) < cap(r.ring) {
		r.ring = append(r.ring, e)
		return
	}
	r.ring[r.next] = e
	r.next = (r.next + 1) % len(r.ring)
}

func (r *lateRing) of(push string) []klink.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []klink.Outcome
	for i := range r.ring {
		if e := &r.ring[i]; e.push == push {
			out = append(out, e.out)
		}
	}
	return out
}
