package connmgr

import (
	"context"
	"time"

	"github.com/klinkio/klink"
)

// Drain says how to move all sessions away.
type Drain struct {
	PerSecond int           // sessions ended a second over all loops, at least one a loop; 0: all at once
	Spread    time.Duration // each client gets its own slot within this time to come back; 0: 1 s
	Target    string        // endpoint to use instead, may be empty
	Reason    string
}

const (
	drainBurst  = 64  // a loop that was late does not make up for more
	drainSlice  = 256 // sessions ended in one round of a loop
	lingerGrace = 5   // seconds that a blocked session has to take what waits for it
)

// drainer ends the sessions of one loop at a bounded rate. A session with a send queue is sent away when the queue is written, so that it loses
// no push, but after lingerGrace at the latest.
type drainer struct {
	on        bool
	hurry     bool // nobody waits any more for rates and queues
	plan      Drain
	perMs     float64 // of this loop
	credit    float64
	lastMs    int64
	next      uint32 // slots below are still to do
	slotMs    uint32 // the last slot given out
	stepMs    uint32
	lingering int               // sessions whose queue is awaited
	drained   []chan<- struct{} // who waits for the end
}

// Drain ends all sessions, paced, each with a Disconnect that has its own time slot and the target, and returns when the last
// one is told or ctx ends; then those left are ended at once. From the start no login is admitted. A second Drain takes over
// the pace; both return at the end.
func (m *Manager) Drain(ctx context.Context, plan Drain) {
	if plan.Spread <= 0 {
		plan.Spread = time.Second
	}
	shards := m.Shards()
	total := int64(1)
	for _, s := range shards {
		total += s.stats.Sessions.Load() + s.stats.Open.Load()
	}
	done := make(chan struct{}, len(shards)) // one a shard: none blocks its loop
	for i, s := range shards {
		if !s.Post(TaskFunc(func(s *Shard) { s.drain.start(s, plan, total, i, len(shards), done) })) {
			done <- struct{}{}
		}
	}
	for range shards {
		select {
		case <-done:
		case <-ctx.Done():
			for _, s := range shards {
				s.Post(TaskFunc(func(s *Shard) { s.drain.hurryUp(s) }))
			}
			return
		}
	}
}

func (d *drainer) start(s *Shard, plan Drain, total int64, loop, loops int, done chan<- struct{}) {
	share := float64(s.stats.Sessions.Load()+s.stats.Open.Load()) / float64(total)
	step := uint32(plan.Spread.Milliseconds()/total) + 1
	*d = drainer{
		on: true, hurry: plan.PerSecond == 0, plan: plan, perMs: max(float64(plan.PerSecond)*share, 1) / 1000, lastMs: s.nowMs,
		next: s.slab.slots(), stepMs: step * uint32(loops), slotMs: step * uint32(loop),
		lingering: d.lingering, drained: append(d.drained, done),
	}
}

// hurryUp ends all that are left, also those that linger.
func (d *drainer) hurryUp(s *Shard) { d.hurry, d.next = true, s.slab.slots() }

// step ends the sessions whose turn has come. It returns how long the loop may sleep for it.
func (d *drainer) step(s *Shard) (waitMs int) {
	if len(d.drained) == 0 && !d.hurry {
		return -1
	}
	d.credit = min(d.credit+float64(s.nowMs-d.lastMs)*d.perMs, drainBurst)
	d.lastMs = s.nowMs
	for n := 0; d.next > 0; {
		if !d.hurry && d.credit < 1 {
			return max(1, int((1-d.credit)/d.perMs))
		}
		if n == drainSlice {
			return 0
		}
		d.next--
		ss := s.slab.at(d.next)
		if ss.state == stateFree || ss.state == stateClosing {
			continue
		}
		n++
		d.credit--
		d.end(s, d.next, ss)
	}
	if d.lingering == 0 {
		d.finish()
	}
	return -1
}

func (d *drainer) end(s *Shard, slot uint32, ss *session) {
	switch {
	case ss.state != stateLive:
		d.refuse(s, slot, ss)
	case ss.queue == 0 || d.hurry:
		d.sendAway(s, slot, ss)
	case ss.flags&flagDraining == 0:
		ss.flags |= flagDraining
		d.lingering++
		s.wheel.add(&s.slab, slot, ss, s.seconds()+lingerGrace)
	}
}

// sendAway tells a session when to come back, and where, and ends it.
func (d *drainer) sendAway(s *Shard, slot uint32, ss *session) {
	s.disconnectTo(slot, ss, klink.DisconnectShutdown, d.plan.Reason, d.delayMs(), d.plan.Target)
}

// refuse is sendAway for a connection without a login.
func (d *drainer) refuse(s *Shard, slot uint32, ss *session) {
	s.RefuseTo(s.handle(slot, ss), klink.DisconnectShutdown, d.plan.Reason, d.delayMs(), d.plan.Target)
}

// delayMs is the next client's slot.
func (d *drainer) delayMs() uint32 {
	d.slotMs = (d.slotMs + d.stepMs) % uint32(max(1, d.plan.Spread.Milliseconds()))
	return klink.DisconnectShutdown.Info().DelayMs/2 + d.slotMs
}

// finish tells those who wait that the loop is done.
func (d *drainer) finish() {
	for _, c := range d.drained {
		c <- struct{}{}
	}
	d.drained, d.hurry = nil, false
}
