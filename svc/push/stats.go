package push

import (
	"sync/atomic"

	"github.com/klinkio/klink"
)

// codes is how many [klink.Code] there are.
const codes = int(klink.CodeExpired) + 1

type counters struct {
	pushes, lookups, moved, unreached, replayed atomic.Uint64
	matched, enqueued, queued, offline          atomic.Uint64
	dropped                                     [klink.NumDrops]atomic.Uint64
	refused                                     [codes]atomic.Uint64
}

// Stats are counts since the start.
type Stats struct {
	Pushes    uint64 // planned, with those that clients publish
	Lookups   uint64 // reads of the user state
	Moved     uint64 // sessions that had moved and were found again
	Unreached uint64 // front ends that did not take their part
	Replayed  uint64 // answers given again for an idempotency key

	Matched, Enqueued, Queued, Offline uint64
	Dropped                            [klink.NumDrops]uint64
	Refused                            [codes]uint64 // errors given, by klink.Code
	Traces                             int           // pushes that Trace knows
	TraceBytes                         int           // about what they take
	Forgotten                          uint64        // pushes that Trace knew once
}

func (c *counters) add(r *klink.Report) {
	c.matched.Add(uint64(r.Matched))
	c.enqueued.Add(uint64(r.Enqueued))
	c.queued.Add(uint64(r.Queued))
	c.offline.Add(uint64(r.Offline))
	for i, n := range r.Dropped {
		if n > 0 {
			c.dropped[i].Add(uint64(n))
		}
	}
}

// Stats reads the counters.
func (s *Service) Stats() Stats {
	c := &s.stats
	st := Stats{
		Pushes: c.pushes.Load(), Lookups: c.lookups.Load(), Moved: c.moved.Load(), Unreached: c.unreached.Load(), Replayed: c.replayed.Load(),
		Matched: c.matched.Load(), Enqueued: c.enqueued.Load(), Queued: c.queued.Load(), Offline: c.offline.Load(),
	}
	for i := range c.dropped {
		st.Dropped[i] = c.dropped[i].Load()
	}
	for i := range c.refused {
		st.Refused[i] = c.refused[i].Load()
	}
	st.Traces, st.TraceBytes, st.Forgotten = s.traces.size()
	return st
}
