package connmgr

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
	"github.com/klinkio/klink/tagindex"
)

// Manager is all sessions of one front end: a shard for each loop. Its methods may be called from any goroutine.
type Manager struct {
	cfg    Config
	auth   Authority
	late   *lateRing
	queued atomic.Int64 // bytes in send queues of all shards

	incarnation atomic.Pointer[klink.Incarnation]

	mu     sync.Mutex // guards what follows while the transport makes its loops
	shards []*Shard

	pongMu sync.Mutex
	pongs  map[pongKey]chan struct{}
}

// NewManager makes a manager without shards; the transport adds them through [Manager.NewHandler].
func NewManager(cfg Config, a Authority) *Manager {
	m := &Manager{cfg: cfg.withDefaults(), auth: a, late: newLateRing(lateCap), pongs: make(map[pongKey]chan struct{})}
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

// errOverloaded says that a loop's mailbox is full; nothing of the push was done.
func errOverloaded() error {
	return klink.Errorf(klink.CodeOverloaded, "the mailbox of a loop is full")
}

// Deliver gives a push to the sessions it matches and calls done, once, when the last loop has finished: on a loop's goroutine, or on the
// caller's before Deliver returns; done must not block. A push to named sessions must not come from a loop's goroutine. An error means that nothing was done and done is not called.
func (m *Manager) Deliver(k *klink.Delivery, expr *tagindex.Expr, done func(klink.Report)) error {
	d := &Delivery{
		push: k.Push, app: k.Push.App, sessions: k.Sessions, tags: k.Tags, expr: expr, all: k.All, done: done,
		frames: make([]atomic.Pointer[link.Frame], len(k.Tags)+1),
		size:   frame.PushSize(k.Push),
	}
	d.report.FEs = 1
	if expr != nil && !d.all {
		cover, ok := expr.Cover()
		if !ok {
			return klink.Errorf(klink.CodeInvalid, "the expression fits sessions without any of its tags: set all")
		}
		d.cover = cover
	}
	if d.all && expr == nil {
		d.tags, d.sessions = nil, nil // everyone is more than any part of it
		d.frames = d.frames[:1]
	}
	shards := m.loopsOf(d)
	if len(shards) == 0 {
		done(d.report)
		return nil
	}
	for _, s := range shards {
		if !s.box.room(int64(d.size), m.cfg.MailboxBytes) {
			s.stats.Dropped[klink.DropOverloaded].Add(1)
			return errOverloaded()
		}
	}
	d.left.Store(int32(len(shards)))
	for _, s := range shards {
		if !s.box.postPart(&part{d: d}) {
			continue
		}
		if d.direct() && len(d.sessions) <= maxDirect {
			s.loop.WakeHere()
		} else {
			s.loop.Wake()
		}
	}
	return nil
}

// loopsOf are the shards that have to do with a delivery.
func (m *Manager) loopsOf(d *Delivery) []*Shard {
	shards := m.Shards()
	if !d.direct() || len(shards) == 1 {
		if d.direct() && len(d.sessions) == 0 {
			return nil
		}
		return shards
	}
	var need [256]bool
	for i := range d.sessions {
		need[d.sessions[i].Handle.Loop()] = true
	}
	var out []*Shard
	for i, s := range shards {
		if need[i] {
			out = append(out, s)
		}
	}
	return out
}

// ask runs f on every shard, one after the other on their own loops, and waits. It returns early when ctx ends.
func (m *Manager) ask(ctx context.Context, shards []*Shard, f func(s *Shard)) error {
	done := make(chan struct{}, len(shards)) // one a shard: a late one must not block its loop
	for _, s := range shards {
		s.Post(TaskFunc(func(s *Shard) {
			f(s)
			done <- struct{}{}
		}))
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

// Disconnect ends a session with a code. It does nothing when the session is gone.
func (m *Manager) Disconnect(h klink.Handle, code klink.Disconnect, reason string) {
	if s := m.shardOf(h); s != nil {
		s.Post(TaskFunc(func(s *Shard) {
			if slot, ss := s.live(h); ss != nil {
				s.disconnect(slot, ss, code, reason)
			}
		}))
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
