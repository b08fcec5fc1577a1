package crux

const (
	sweepPlaces  = 512  // places of the table visited under one lock
	sweepRenewal = 8192 // visited by one RenewFE
	evictSample  = 16   // offline users of which the oldest is forgotten
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
			s.shrink()
			return true
		}
		if s.table.refs[s.cursor] == 0 {
			s.cursor++
			continue
		}
		s.loadAt(s.cursor, now)
		if s.idle() && s.rec.lastMs+keepMs < now.ms() {
			s.stats.forgottenOld.Add(1)
			s.forget() // another record may have moved here: the cursor stays
			continue
		}
		s.save()
		s.cursor++
	}
	return false
}

// idle reports whether nothing but the time of the last session is known of the user.
func (s *shard) idle() bool { return len(s.rec.sessions) == 0 && len(s.rec.tags) == 0 }

func (s *shard) shrink() {
	if n := len(s.table.refs); n > tableMin && s.table.n < n/4 {
		s.table.resize(max(tableMin, s.table.n*3/2&^15), s.hashOf)
	}
}

// evict forgets one idle user if there are too many: of a few that lie next to each other, which is to say of a few
// random ones, the one that was seen the longest ago.
func (s *shard) evict() {
	if s.known()-s.users-s.tags <= s.keep {
		return
	}
	var oldest record
	at, seen := -1, 0
	for i := range s.table.refs {
		i = (s.cursor + i) % len(s.table.refs)
		if s.table.refs[i] == 0 {
			continue
		}
		s.rec.read(s.slab.bytes(s.table.refs[i]))
		if !s.idle() {
			continue
		}
		if at < 0 || s.rec.lastMs < oldest.lastMs {
			at, oldest.lastMs = i, s.rec.lastMs
		}
		if seen++; seen == evictSample {
			break
		}
	}
	_ = at
}
