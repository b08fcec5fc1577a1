package crux

const (
	sweepPlaces  = 512  // places of the table visited under one lock
	sweepRenewal = 8192 // visited by one RenewFE
	evictSample  = 16   // idle users of which the oldest is forgotten
	evictPlaces  = 512  // visited in search of them
	evictSweep   = 256  // users forgotten at the end of a sweep through a shard
)

// sweep visits the next few users: it removes sessions of dead incarnations and forgets who was not seen for long.
func (e *Embedded) sweep(now instant) {
	for left := sweepRenewal; left > 0; left -= sweepPlaces {
		s := &e.shards[e.sweepAt.Load()%shardCount]
		s.mu.Lock()
		done := s.sweep(now, sweepPlaces, e.keepFor.Milliseconds())
		s.mu.Unlock()
		if done {
			e.sweepAt.Add(1)
		}
	}
}

// reap visits all users.
func (e *Embedded) reap(now instant) {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		s.cursor = 0
		s.mu.Unlock()
		for done := false; !done; {
			s.mu.Lock()
			done = s.sweep(now, sweepPlaces, e.keepFor.Milliseconds())
			s.mu.Unlock()
		}
	}
}

// sweep visits n places from the cursor on and reports whether it came to the end.
func (s *shard) sweep(now instant, n int, keepMs int64) (done bool) {
	for ; n > 0; n-- {
		if s.cursor >= len(s.table.refs) {
			s.cursor = 0
			s.trim(evictSweep)
			s.shrink()
			return true
		}
		if s.table.refs[s.cursor] == 0 {
			s.cursor++
			continue
		}
		s.loadAt(s.cursor, now)
		if s.rec.kind().idle() && s.rec.lastMs+keepMs < now.ms() {
			s.stats.forgottenOld.Add(1)
			s.forget() // another record may have moved here: the cursor stays
			continue
		}
		s.save()
		s.cursor++
	}
	return false
}

func (s *shard) shrink() {
	if n := len(s.table.refs); n > tableMin && s.table.n < n/4 {
		s.table.resize(max(tableMin, (s.table.n*3/2)&^15), s)
	}
}

// trim forgets idle users, at most n, while there are more than the bound: of a few that lie next to each other in the
// table, which is to say of a few random ones, the one that was seen the longest ago. No record may be in work.
func (s *shard) trim(n int) {
	for ; n > 0 && s.idle > s.keep; n-- {
		at, oldest, seen := -1, int64(0), 0
		for range min(evictPlaces, len(s.table.refs)) {
			if s.hand++; s.hand >= len(s.table.refs) {
				s.hand = 0
			}
			if s.table.refs[s.hand] == 0 {
				continue
			}
			s.rec.read(s.slab.bytes(s.table.refs[s.hand]))
			if !s.rec.kind().idle() {
				continue
			}
			if at < 0 || s.rec.lastMs < oldest {
				at, oldest = s.hand, s.rec.lastMs
			}
			if seen++; seen == evictSample {
				break
			}
		}
		if at < 0 {
			return // few of many users are idle; the next call searches on
		}
		s.rec.read(s.slab.bytes(s.table.refs[at]))
		s.at, s.was = at, s.rec.kind()
		s.stats.forgottenFull.Add(1)
		s.forget()
	}
}
