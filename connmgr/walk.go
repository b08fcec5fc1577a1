package connmgr

import (
	"context"

	"github.com/klinkio/klink"
)

// Registered is a live session as the user state has to know it.
type Registered struct {
	Identity
	Handle    klink.Handle
	Transport klink.Transport
	Attempt   uint64
	LoginMs   int64
	Version   klink.Version
	IssuedSec int64
	Degraded  bool // the user state has never heard of it
}

// Walk calls f with the live sessions of all loops, at most batch at a time. It stops at f's first error. Sessions that come
// while it runs may be left out.
func (m *Manager) Walk(ctx context.Context, batch int, f func([]Registered) error) error {
	type answer struct {
		list []Registered
		next uint32
		end  bool
	}
	for _, s := range m.Shards() {
		for at := uint32(0); ; {
			a := new(answer)
			err := m.ask(ctx, []*Shard{s}, func(s *Shard) {
				a.list, a.next = s.liveFrom(at, batch)
				a.end = a.next >= s.slab.slots()
			})
			if err != nil {
				return err
			}
			if len(a.list) > 0 {
				if err := f(a.list); err != nil {
					return err
				}
			}
			if a.end {
				break
			}
			at = a.next
		}
	}
	return nil
}

func (s *Shard) liveFrom(at uint32, batch int) (list []Registered, next uint32) {
	for ; at < s.slab.slots() && len(list) < batch; at++ {
		ss := s.slab.at(at)
		if ss.state != stateLive {
			continue
		}
		list = append(list, Registered{
			Identity: s.identity(ss), Handle: s.handle(at, ss), Transport: ss.transport, Attempt: ss.attempt,
			LoginMs: ss.sinceMs, Version: klink.Version(ss.version), IssuedSec: int64(ss.issued),
			Degraded: ss.flags&flagDegraded != 0,
		})
	}
	return list, at
}

// Post gives a task to the loop of a handle. False: there is no such loop, or it has ended.
func (m *Manager) Post(h klink.Handle, t Task) bool {
	s := m.shardOf(h)
	return s != nil && s.Post(t)
}

// Known notes that the user state has registered a session again: under which version, and with which tags of back ends, which the session
// joins if it missed one while it was not known. False: the session is not live any more.
func (s *Shard) Known(h klink.Handle, v klink.Version, tags []string) bool {
	slot, ss := s.live(h)
	if ss == nil {
		return false
	}
	ss.version = uint64(v)
	ss.flags &^= flagDegraded
	s.changeTags(slot, ss, tags, nil)
	return true
}

// SetEndpoints changes what Connected tells; before the loops run only.
func (m *Manager) SetEndpoints(e []string) { m.cfg.Endpoints = e }

// Identity is who a live session is; false: it is not there. On the loop only.
func (s *Shard) Identity(h klink.Handle) (Identity, bool) {
	ss := s.slab.find(h)
	if ss == nil || ss.state != stateLive {
		return Identity{}, false
	}
	return s.identity(ss), true
}

// Transport is how a connection travels. On the loop only.
func (s *Shard) Transport(h klink.Handle) klink.Transport {
	if ss := s.slab.find(h); ss != nil {
		return ss.transport
	}
	return klink.TransportUnknown
}
