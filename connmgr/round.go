package connmgr

import (
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/tagindex"
)

const (
	// sliceTime bounds how long fan-out keeps the loop from its events, to within chunk sends.
	sliceTime = 2 * time.Millisecond
	// quantum is how many sends a lane does before the next lane's turn.
	quantum = 256
	chunk   = 64 // sends between two looks at the clock
	// After a round to at least largeRound members a tag rests for roundGap ms (overloadGap while the
	// mailbox is more than half full): pushes that come in between ride the next round as one write per connection.
	largeRound  = 256
	roundGap    = 5  // ms
	overloadGap = 20 // ms
	maxRiders   = 64 // pushes in one round
	maxRideLen  = 64 << 10
	maxRecent   = 1024
)

// round is one walk over the sessions that a push goes to, done in slices. Pushes to the same tag that arrive before it
// starts ride along: one write per connection carries them all.
type round struct {
	tag      string // set: goes to this tag only, and may take riders
	parts    []*part
	bytes    int
	started  bool
	deferred bool // counted as put off

	frame *link.Frame // what a connection that is not blocked gets
	tagAt int         // index of the tag whose frame is in frame, -1: none
	phase phase
	at    int // index within the phase
	walk  tagindex.Walk
	open  bool // walk is in use
	next  uint32
	expr  tagindex.Bound
	seen  *slotSet // sessions that have their copy; nil where no session can be met twice
	sent  int      // sessions that took the frame at once
	first []klink.Handle
}

type phase uint8

const (
	phaseSessions phase = iota
	phaseTags
	phaseCover
	phaseAll
	phaseDone
)

// addRound queues a part that needs a walk, as a rider where one waits for the same tag.
func (l *lane) addRound(s *Shard, p *part) {
	tag, single := p.d.singleTag()
	if single {
		if r := l.open[tag]; r != nil && len(r.parts) < maxRiders && r.bytes+p.d.size <= maxRideLen {
			r.parts = append(r.parts, p)
			r.bytes += p.d.size
			s.stats.Batched.Add(1)
			return
		}
	}
	r := &round{tag: tag, parts: []*part{p}, bytes: p.d.size, tagAt: -1}
	l.rounds = append(l.rounds, r)
	if single {
		l.open[tag] = r
	}
}

// start fixes the riders and the frame.
func (s *Shard) start(l *lane, r *round) {
	r.started = true
	s.stats.Rounds.Add(1)
	if r.tag != "" {
		if l.open[r.tag] == r {
			delete(l.open, r.tag)
		}
		frames := make([]*link.Frame, len(r.parts))
		for i, p := range r.parts {
			frames[i] = p.d.frame(0)
		}
		r.frame, r.tagAt, r.phase = link.NewBatch(frames), 0, phaseTags
		return
	}
	d := r.parts[0].d
	r.phase = phaseSessions
	if len(d.sessions) > 0 || len(d.tags) > 1 || (len(d.tags) > 0 && d.expr != nil) || len(d.cover) > 1 {
		r.seen = s.takeSet()
	}
}

// step does up to quota sends of the round and returns how many it did.
func (s *Shard) step(l *lane, r *round, quota int) (did int) {
	if !r.started {
		s.start(l, r)
	}
	d := r.parts[0].d
	if d.expr != nil {
		// Tags that came and went since the last slice may have changed their ids.
		r.expr = d.expr.Bind(s.index, string(l.prefix))
	}
	for did < quota && r.phase != phaseDone {
		switch r.phase {
		case phaseSessions:
			did += s.stepSessions(r, d, quota-did)
		case phaseTags:
			did += s.stepWalk(l, r, d.tags, quota-did, false)
		case phaseCover:
			did += s.stepWalk(l, r, d.cover, quota-did, true)
		case phaseAll:
			did += s.stepAll(l, r, d, quota-did)
		case phaseDone:
		}
	}
	return did
}

func (r *round) enter(p phase) { r.phase, r.at = p, 0 }

func (s *Shard) stepSessions(r *round, d *Delivery, quota int) (did int) {
	r.use(d, -1)
	for ; r.at < len(d.sessions); r.at++ {
		if did >= quota {
			return did
		}
		ref := &d.sessions[r.at]
		if ref.Handle.Loop() != s.loop.Index() {
			continue
		}
		did++
		s.giveRef(r, ref)
	}
	r.enter(phaseTags)
	return did
}

// giveRef gives the frame to a session that was looked up before; it may be gone.
func (s *Shard) giveRef(r *round, ref *klink.SessionRef) {
	rep := &r.parts[0].report
	ss := s.slab.find(ref.Handle)
	if ss == nil || ss.state != stateLive || ref.Incarnation != s.mgr.inc() {
		rep.Matched++
		rep.Dropped[klink.DropGone]++
		s.stats.Dropped[klink.DropGone].Add(1)
		rep.AddOutcome(s.refOutcome(ref, klink.DropGone.String()))
		return
	}
	if r.seen != nil && !r.seen.add(ref.Handle.Slot()) {
		return
	}
	s.give(r, ref.Handle.Slot(), ss)
}

func (s *Shard) stepWalk(l *lane, r *round, tags []string, quota int, fit bool) (did int) {
	d := r.parts[0].d
	for r.at < len(tags) && did < quota {
		if !r.open {
			id, ok := s.index.Lookup(s.key(l, tags[r.at]))
			if !ok {
				r.at++
				continue
			}
			r.walk, r.open = s.index.Start(id), true
			if fit {
				r.use(d, -1)
			} else if r.tagAt != r.at {
				r.use(d, r.at)
			}
		}
		n := s.index.Next(&r.walk, s.walkBuf[:min(quota-did, len(s.walkBuf))])
		if n == 0 {
			r.open = false
			r.at++
			continue
		}
		did += n
		for _, slot := range s.walkBuf[:n] {
			ss := s.slab.at(slot)
			if ss.state != stateLive || (fit && !r.expr.Match(s.index, slot)) || (r.seen != nil && !r.seen.add(slot)) {
				continue
			}
			s.give(r, slot, ss)
		}
	}
	if r.at >= len(tags) {
		switch {
		case fit:
			r.enter(phaseDone)
		case d.all:
			r.enter(phaseAll)
			r.next = s.slab.slots()
		case d.expr != nil:
			r.enter(phaseCover)
		default:
			r.enter(phaseDone)
		}
	}
	return did
}

func (s *Shard) stepAll(l *lane, r *round, d *Delivery, quota int) (did int) {
	r.use(d, -1)
	for r.next > 0 && did < quota {
		r.next--
		did++
		ss := s.slab.at(r.next)
		if ss.state != stateLive || s.apps.at(ss.app) != l {
			continue
		}
		if d.expr != nil && !r.expr.Match(s.index, r.next) {
			continue
		}
		if r.seen != nil && !r.seen.add(r.next) {
			continue
		}
		s.give(r, r.next, ss)
	}
	if r.next == 0 {
		r.enter(phaseDone)
	}
	return did
}

// use makes the frame of tag i (-1: the one without a tag) the one that is given out.
func (r *round) use(d *Delivery, i int) {
	if r.frame == nil || r.tagAt != i {
		r.frame, r.tagAt = d.frame(i), i
	}
}

// give hands the round's frame to one session: to its connection, or to its queue when that is blocked.
func (s *Shard) give(r *round, slot uint32, ss *session) {
	h := s.handle(slot, ss)
	if ss.queue == 0 {
		switch s.loop.Send(h, r.frame) {
		case link.Accepted:
			r.sent++
			if len(r.first) < klink.MaxOutcomes {
				r.first = append(r.first, h)
			}
			return
		case link.Queued:
			s.block(ss)
			for _, p := range r.parts {
				s.tookLater(p, slot, ss)
			}
			return
		case link.Refused:
			s.block(ss)
		}
	}
	for _, p := range r.parts {
		s.giveQueue(r, p, slot, ss)
	}
}

// giveQueue puts a part's frame behind what waits. The session may have ended over the part before it.
func (s *Shard) giveQueue(r *round, p *part, slot uint32, ss *session) {
	why := klink.DropSlow
	if ss.state == stateLive {
		f, tag := p.d.frame(r.tagAt), ""
		if r.tagAt >= 0 {
			tag = p.d.tags[r.tagAt]
		}
		// Who a session was is not known any more when it has ended.
		var out klink.Outcome
		wants := wantsDrop(&p.report)
		if wants {
			out = s.outcome(slot, ss, "")
		}
		why = s.enqueue(slot, ss, queued{f: f, push: p.d.push, tag: tag, bytes: int32(len(f.Bytes(link.Form(ss.form))))})
		if why == klink.DropNone {
			s.tookLater(p, slot, ss)
			return
		}
		if wants {
			out.Result = why.String()
			p.report.AddOutcome(out)
		}
	} else {
		s.stats.Dropped[why].Add(1)
	}
	p.report.Matched++
	p.report.Dropped[why]++
}

// tookLater accounts for a session that will get the push when its reader has caught up.
func (s *Shard) tookLater(p *part, slot uint32, ss *session) {
	s.stats.Enqueued.Add(1)
	rep := &p.report
	rep.Matched++
	rep.Enqueued++
	rep.Queued++
	if len(rep.Outcomes) < klink.MaxOutcomes {
		rep.AddOutcome(s.outcome(slot, ss, klink.OutcomeQueued))
	}
}

// wantsDrop says that the report would keep the outcome of a drop. Outcomes cost more than all else that is done for a blocked session.
func wantsDrop(rep *klink.Report) bool {
	if len(rep.Outcomes) < klink.MaxOutcomes {
		return true
	}
	for i := range rep.Outcomes {
		if rep.Outcomes[i].Result == klink.OutcomeQueued {
			return true
		}
	}
	return false
}

// end closes the books of a round that is done, or whose loop ends.
func (s *Shard) end(l *lane, r *round) {
	if r.open {
		s.index.Stop(&r.walk)
		r.open = false
	}
	if r.seen != nil {
		s.putSet(r.seen)
		r.seen = nil
	}
	s.stats.Pushed.Add(uint64(r.sent * len(r.parts)))
	if r.tag != "" && r.sent >= largeRound {
		if len(l.recent) >= maxRecent {
			clear(l.recent)
		}
		l.recent[r.tag] = s.nowMs
	}
	for _, p := range r.parts {
		p.report.Matched += r.sent
		p.report.Enqueued += r.sent
		p.report.SentTo = r.first
		for why, n := range p.report.Dropped {
			l.drops[why] += uint64(n)
		}
		s.box.release(p.d.app, p.d.cost)
		p.d.finish(p)
	}
}

// slotSet is a set of slots, for rounds that could meet a session twice.
type slotSet struct{ bits []uint64 }

// add reports whether slot was not in the set.
func (b *slotSet) add(slot uint32) bool {
	i, m := slot/64, uint64(1)<<(slot%64)
	for int(i) >= len(b.bits) {
		b.bits = append(b.bits, 0)
	}
	if b.bits[i]&m != 0 {
		return false
	}
	b.bits[i] |= m
	return true
}

func (s *Shard) takeSet() *slotSet {
	if n := len(s.sets); n > 0 {
		b := s.sets[n-1]
		s.sets = s.sets[:n-1]
		clear(b.bits)
		return b
	}
	return new(slotSet)
}

func (s *Shard) putSet(b *slotSet) {
	if len(s.sets) < 8 {
		s.sets = append(s.sets, b)
	}
}
