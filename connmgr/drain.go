package connmgr

import (
	"context"
	"time"

	"github.com/klinkio/klink"
)

// Drain says how to move all sessions away.
type Drain struct {
	PerSecond int           // sessions ended a second over all loops, at least one; 0: all at once
	Spread    time.Duration // each client gets its own slot within this time to come back; 0: 1 s
	Target    string        // endpoint to use instead, may be empty
	Reason    string
}

// drainer ends the sessions of one loop at a bounded rate.
type drainer struct {
	on      bool
	plan    Drain
	perMs   float64 // of this loop
	credit  float64
	lastMs  int64
	next    uint32 // slots below are still to do
	slotMs  uint32 // the last slot given out
	stepMs  uint32
	drained chan<- struct{}
}

// Drain ends all sessions, paced, each with a Disconnect that has its own time slot and the target, and returns when the last
// one is gone or ctx ends; then those left are ended at once. New logins are refused from the start.
func (m *Manager) Drain(ctx context.Context, plan Drain) {
	if plan.Spread <= 0 {
		plan.Spread = time.Second
	}
	shards := m.Shards()
	total := max(1, m.Sessions())
	done := make(chan struct{}, len(shards))
	for _, s := range shards {
		s.Post(TaskFunc(func(s *Shard) {
			share := float64(s.stats.Sessions.Load()) / float64(total)
			step := uint32(plan.Spread.Milliseconds()/int64(total)) + 1
			s.drain = drainer{
				on: true, plan: plan, perMs: max(float64(plan.PerSecond)*share, 1) / 1000, lastMs: s.nowMs,
				next: s.slab.slots(), stepMs: step * uint32(len(shards)), slotMs: step * uint32(s.loop.Index()), drained: done,
			}
		}))
	}
	for range shards {
		select {
		case <-done:
		case <-ctx.Done():
			for _, s := range shards {
				s.Post(TaskFunc(func(s *Shard) { s.drain.plan.PerSecond = 0 }))
			}
			return
		}
	}
}

// step ends the sessions whose turn has come. It returns how long the loop may sleep for it.
func (d *drainer) step(s *Shard) (waitMs int) {
	if !d.on || d.drained == nil {
		return -1
	}
	const burst = 64 // a loop that was late does not make up for more
	d.credit = min(d.credit+float64(s.nowMs-d.lastMs)*d.perMs, burst)
	d.lastMs = s.nowMs
	for d.next > 0 {
		if d.plan.PerSecond > 0 && d.credit < 1 {
			return max(1, int((1-d.credit)/d.perMs))
		}
		d.next--
		ss := s.slab.at(d.next)
		if ss.state == stateFree || ss.state == stateClosing {
			continue
		}
		d.credit--
		d.slotMs = (d.slotMs + d.stepMs) % uint32(max(1, d.plan.Spread.Milliseconds()))
		ss.flags |= flagDraining
		s.disconnectTo(d.next, ss, klink.DisconnectShutdown, d.plan.Reason, klink.DisconnectShutdown.Info().DelayMs/2+d.slotMs, d.plan.Target)
	}
	d.drained <- struct{}{}
	d.drained = nil
	return -1
}
