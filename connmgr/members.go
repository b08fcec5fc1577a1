package connmgr

import (
	"context"
	"time"

	"github.com/klinkio/klink"
)

// Count is how many sessions of an app carry a tag, read on each loop in O(1).
func (m *Manager) Count(ctx context.Context, app, tag string) (int, error) {
	shards := m.Shards()
	counts := make([]int, len(shards))
	err := m.ask(ctx, shards, func(s *Shard) {
		if l, ok := s.apps.find(app); ok {
			if id, ok := s.index.Lookup(s.key(l, tag)); ok {
				counts[s.loop.Index()] = s.index.Len(id)
			}
		}
	})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, c := range counts {
		n += c
	}
	return n, nil
}

// MemberCursor says where the next page of members begins: on which loop, and where in its list.
type MemberCursor struct {
	Loop int
	At   uint32
}

// Members is one page of at most limit sessions that carry a tag, and where the next begins. done says that there is none.
// Members that come and go between two pages may be missed or met twice, as with any list that changes.
func (m *Manager) Members(ctx context.Context, app, tag string, cur MemberCursor, limit int) (page []klink.Member, next MemberCursor, done bool, err error) {
	type answer struct {
		page []klink.Member
		at   uint32
		more bool
	}
	limit = max(limit, 1)
	shards := m.Shards()
	for cur.Loop >= 0 && cur.Loop < len(shards) {
		a := &answer{page: page} // of its own: a loop that answers after ctx has ended still writes to it
		at := cur.At
		err := m.ask(ctx, shards[cur.Loop:cur.Loop+1], func(s *Shard) {
			a.page, a.at, a.more = s.members(app, tag, at, a.page, limit)
		})
		if err != nil {
			return nil, MemberCursor{}, false, err
		}
		page = a.page
		if a.more {
			return page, MemberCursor{Loop: cur.Loop, At: a.at}, false, nil
		}
		cur = MemberCursor{Loop: cur.Loop + 1}
	}
	return page, cur, true, nil
}

func (s *Shard) members(app, tag string, at uint32, page []klink.Member, limit int) (_ []klink.Member, next uint32, more bool) {
	l, ok := s.apps.find(app)
	if !ok {
		return page, 0, false
	}
	id, ok := s.index.Lookup(s.key(l, tag))
	if !ok {
		return page, 0, false
	}
	for len(page) < limit {
		n, nx, last := s.index.Page(id, at, s.walkBuf[:min(len(s.walkBuf), limit-len(page))])
		for _, slot := range s.walkBuf[:n] {
			page = append(page, s.member(slot))
		}
		if at = nx; last {
			return page, 0, false
		}
	}
	return page, at, true
}

func (s *Shard) member(slot uint32) klink.Member {
	ss := s.slab.at(slot)
	u, d := s.ids.get(ss.ids)
	return klink.Member{
		SessionRef: klink.SessionRef{Incarnation: s.mgr.inc(), Handle: s.handle(slot, ss), User: string(u), Device: string(d)},
		Transport:  ss.transport, Since: time.UnixMilli(ss.sinceMs), Version: klink.Version(ss.version),
	}
}

// SessionInfo is what the FE itself knows of one session, for traces.
type SessionInfo struct {
	klink.Member
	Tags        []string
	QueuedBytes int
	LastHeard   time.Duration // ago
}

// Session describes a live session; false: it is not there.
func (m *Manager) Session(ctx context.Context, h klink.Handle) (SessionInfo, bool, error) {
	s := m.shardOf(h)
	if s == nil {
		return SessionInfo{}, false, nil
	}
	var info SessionInfo
	ok := false
	err := m.ask(ctx, []*Shard{s}, func(s *Shard) {
		slot, ss := s.live(h)
		if ss == nil {
			return
		}
		ok = true
		info = SessionInfo{Member: s.member(slot), LastHeard: s.silent(ss)}
		prefix := len(s.apps.at(ss.app).prefix)
		for _, k := range s.index.AppendKeys(nil, slot) {
			info.Tags = append(info.Tags, k[prefix:])
		}
		if ss.queue != 0 {
			info.QueuedBytes = s.queues.at(ss.queue).bytes + s.loop.PendingBytes(h)
		}
	})
	if err != nil {
		return SessionInfo{}, false, err // the loop may still write to info
	}
	return info, ok, nil
}

// Drops are the pushes of an app that were dropped on this FE, by reason.
func (m *Manager) Drops(ctx context.Context, app string) (drops [klink.NumDrops]uint64, err error) {
	shards := m.Shards()
	per := make([][klink.NumDrops]uint64, len(shards))
	if err := m.ask(ctx, shards, func(s *Shard) {
		if l, ok := s.apps.find(app); ok {
			per[s.loop.Index()] = l.drops
		}
	}); err != nil {
		return drops, err
	}
	for i := range per {
		for j, n := range per[i] {
			drops[j] += n
		}
	}
	return drops, nil
}
