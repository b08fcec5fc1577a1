package connmgr

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
)

// Manager is all sessions of one front end: a shard for each loop. Its methods may be called from any goroutine.
type Manager struct {
	cfg    Config
	auth   Authority
	late   *lateRing
	queued atomic.Int64 // bytes in send queues of all shards

	finishing atomic.Int32 // calls of a delivery's done that run now

	incarnation atomic.Pointer[klink.Incarnation]

	mu     sync.Mutex // guards what follows while the transport makes its loops
	shards []*Shard

	pings pings
}

// NewManager makes a manager without shards; the transport adds them through [Manager.NewHandler].
func NewManager(cfg Config, a Authority) *Manager {
	m := &Manager{cfg: cfg.withDefaults(), auth: a, late: newLateRing(lateCap)}
	m.incarnation.Store(&klink.Incarnation{})
	return m
}

// Config is the configuration in force.
func (m *Manager) Config() Config { return m.cfg }

// SetIncarnation tells under which incarnation the sessions are registered.
func (m *Manager) SetIncarnation(inc klink.Incarnation) { m.incarnation.Store(&inc) }

func (m *Manager) inc() klink.Incarnation { return *m.incarnation.Load() }

// NewHandler makes the shard of a loop. The transport calls it once a loop, in the order of their indices, before they run.
func (m *Manager) NewHandler(loop link.Loop) link.Handler {
	s := newShard(m, loop)
	m.mu.Lock()
	m.shards = append(m.shards, s)
	m.mu.Unlock()
	return s
}

// Shards are all shards by loop index. Do not change the slice.
func (m *Manager) Shards() []*Shard {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shards
}

// QueuedBytes is what waits in send queues of all sessions.
func (m *Manager) QueuedBytes() int64 { return m.queued.Load() }

// Sessions counts the live sessions.
func (m *Manager) Sessions() int {
	n := int64(0)
	for _, s := range m.Shards() {
		n += s.stats.Sessions.Load()
	}
	return int(n)
}

// ask runs f on every shard, as its loop, and waits. It must not be called on a loop, nor with a lock held that a delivery's done takes: where a
// loop sleeps, this goroutine does its round. It returns early, with an error, when ctx ends or the loops have ended: f may run all the same, later,
// so what it writes must not be looked at then.
func (m *Manager) ask(ctx context.Context, shards []*Shard, f func(s *Shard)) error {
	done := make(chan struct{}, len(shards)) // one a shard: a late one must not block its loop
	for _, s := range shards {
		wake, ok := s.box.post(TaskFunc(func(s *Shard) {
			f(s)
			done <- struct{}{}
		}))
		if !ok {
			return errStopped()
		}
		if wake {
			s.loop.WakeHere() // f is short, and this goroutine waits for it anyway
		}
	}
	for range shards {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// shardOf is the shard that a handle belongs to, or nil.
func (m *Manager) shardOf(h klink.Handle) *Shard {
	if shards := m.Shards(); h.Loop() < len(shards) {
		return shards[h.Loop()]
	}
	return nil
}

// Disconnect ends a session, or the login that would become it, with a code, as soon as its loop gets to it. It does nothing when the session is gone.
func (m *Manager) Disconnect(h klink.Handle, code klink.Disconnect, reason string) {
	if s := m.shardOf(h); s != nil {
		s.Post(TaskFunc(func(s *Shard) { s.End(h, code, reason) }))
	}
}

// Close answers all that is still posted, as nobody else will: pushes are done with, requests refused from now on. Call it when the
// transport's loops have ended and not before: it works on the records of the loops.
func (m *Manager) Close() {
	for _, s := range m.Shards() {
		s.close()
	}
}

// ChangeTags applies a back end's change of a user's tags to sessions of this FE and waits until their loops have done it.
func (m *Manager) ChangeTags(ctx context.Context, handles []klink.Handle, add, remove []string) error {
	byLoop := make(map[*Shard][]klink.Handle)
	for _, h := range handles {
		if s := m.shardOf(h); s != nil {
			byLoop[s] = append(byLoop[s], h)
		}
	}
	shards := make([]*Shard, 0, len(byLoop))
	for s := range byLoop {
		shards = append(shards, s)
	}
	return m.ask(ctx, shards, func(s *Shard) {
		for _, h := range byLoop[s] {
			s.ChangeTags(h, add, remove)
		}
	})
}

// LateOutcomes are the drops that were recorded after the report of the push was given.
func (m *Manager) LateOutcomes(push string) []klink.Outcome { return m.late.of(push) }
