package connmgr

import (
	"slices"
	"time"
)

// maxDirect is how many sessions a push may name to be done at once; more are a round, done in slices.
const maxDirect = 64

// drainMailbox takes what others posted: tasks run at once, pushes go to their app's lane.
func (s *Shard) drainMailbox() {
	s.tasks, s.parts = s.box.take(s.tasks, s.parts)
	for i, t := range s.tasks {
		s.tasks[i] = nil
		t.Run(s)
	}
	for i, p := range s.parts {
		s.parts[i] = nil
		_, l := s.apps.lane(p.d.app)
		if p.d.direct() && len(p.d.sessions) <= maxDirect {
			l.direct = append(l.direct, p)
		} else {
			l.addRound(s, p)
		}
		if !l.listed {
			l.listed = true
			s.ring = append(s.ring, l)
		}
	}
}

// runLanes works on the pushes for at most one slice of time. It returns how long the loop may sleep as far as pushes are
// concerned: 0 when there is more to do now, -1 when there is nothing.
func (s *Shard) runLanes() (waitMs int) {
	if len(s.ring) == 0 {
		return -1
	}
	end := time.Now().Add(sliceTime)
	idle, wait := 0, -1
	for len(s.ring) > 0 && idle < len(s.ring) {
		if s.turn >= len(s.ring) {
			s.turn = 0
		}
		l := s.ring[s.turn]
		did, w := s.runLane(l, end)
		if !l.busy() {
			l.listed = false
			s.ring = append(s.ring[:s.turn], s.ring[s.turn+1:]...)
			continue
		}
		s.turn++
		if did == 0 {
			idle++
			if w >= 0 && (wait < 0 || w < wait) {
				wait = w
			}
			continue
		}
		idle = 0
		if !time.Now().Before(end) {
			return 0
		}
	}
	if len(s.ring) == 0 {
		return -1
	}
	return max(wait, 1)
}

// runLane gives the lane its quantum, half of it to named sessions and the rest to rounds, but no more time than until end; rounds that wait are given a
// chunk in any case. With nothing done it says how many ms to wait.
func (s *Shard) runLane(l *lane, end time.Time) (did, waitMs int) {
	n := 0
	for n < len(l.direct) && did < quantum/2 {
		before := did
		did += s.deliverDirect(l, l.direct[n])
		n++
		if did/chunk != before/chunk && !time.Now().Before(end) {
			break
		}
	}
	l.direct = behind(l.direct, n)

	for quota := quantum; quota > 0; {
		i, w := s.pick(l)
		if i < 0 {
			return did, w
		}
		r := l.rounds[i]
		k := s.step(l, r, min(quota, chunk)) + 1 // a round that meets nobody costs something, too
		quota -= k
		did += k
		if r.phase == phaseDone {
			if i == 0 {
				l.rounds = behind(l.rounds, 1)
			} else {
				l.rounds = slices.Delete(l.rounds, i, i+1)
			}
			s.end(l, r)
		}
		if !time.Now().Before(end) {
			break
		}
	}
	return did, -1
}

// behind is a list without its first n, which are let go of. A long list is not moved for that; an empty one begins anew, if it is not
// too long to keep.
func behind[T any](list []*T, n int) []*T {
	clear(list[:n])
	switch {
	case n < len(list):
		return list[n:]
	case cap(list) > maxSpare:
		return nil
	}
	return list[:0]
}

// pick is the first round that may run now: one that has started, or whose tag's last round is long enough ago.
func (s *Shard) pick(l *lane) (i, waitMs int) {
	wait := -1
	gap := int64(roundGap)
	if s.box.crowded(s.mgr.cfg.MailboxBytes) {
		gap = overloadGap
	}
	for i, r := range l.rounds {
		if r.started || r.tag == "" {
			return i, 0
		}
		last, ok := l.recent[r.tag]
		if !ok || s.nowMs-last >= gap {
			return i, 0
		}
		if !r.deferred {
			r.deferred = true
			s.stats.Deferred.Add(1)
		}
		if w := int(gap - (s.nowMs - last)); wait < 0 || w < wait {
			wait = w
		}
	}
	return -1, wait
}

// deliverDirect does a push to a few named sessions at once.
func (s *Shard) deliverDirect(l *lane, p *part) (did int) {
	r := &s.single
	*r = round{parts: append(r.parts[:0], p), tagAt: -1, first: nil}
	if len(p.d.sessions) > 1 {
		r.seen = s.takeSet()
	}
	did = s.stepSessions(r, p.d, len(p.d.sessions)+1)
	s.end(l, r)
	return did + 1
}
