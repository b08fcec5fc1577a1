package connmgr

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

// pings are the dial tests that wait for a Pong.
type pings struct {
	n    atomic.Int32 // of waiting, so that the end of a session looks only where there is something
	mu   sync.Mutex
	wait map[pongKey]chan bool // size 1: true for the Pong, false for the end of the session
}

type pongKey struct {
	h  klink.Handle
	id uint64
}

func (p *pings) add(k pongKey) (answer chan bool, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.wait[k]; ok {
		return nil, false
	}
	if p.wait == nil {
		p.wait = make(map[pongKey]chan bool)
	}
	answer = make(chan bool, 1)
	p.wait[k] = answer
	p.n.Add(1)
	return answer, true
}

func (p *pings) remove(k pongKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wait, k)
	p.n.Add(-1)
}

// ponged is called on the loop when a Pong came.
func (p *pings) ponged(h klink.Handle, id uint64) {
	if p.n.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	tell(p.wait[pongKey{h, id}], true)
}

// gone is called on the loop when a session has ended.
func (p *pings) gone(h klink.Handle) {
	if p.n.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, c := range p.wait {
		if k.h == h {
			tell(c, false)
		}
	}
}

// tell gives the first answer; later ones are dropped, as are those that nobody waits for.
func tell(c chan bool, pong bool) {
	select {
	case c <- pong:
	default:
	}
}

// Ping asks a live device for a Pong over the way that pushes take and returns the time until it came. The error is ctx's,
// CodeNotFound when the session is gone or goes, or CodeConflict when this id waits already.
func (m *Manager) Ping(ctx context.Context, h klink.Handle, id uint64) (time.Duration, error) {
	notFound := func() error { return klink.Errorf(klink.CodeNotFound, "no session %v", h) }
	s := m.shardOf(h)
	if s == nil {
		return 0, notFound()
	}
	key := pongKey{h, id}
	answer, ok := m.pings.add(key)
	if !ok {
		return 0, klink.Errorf(klink.CodeConflict, "ping %d of session %v is under way", id, h)
	}
	defer m.pings.remove(key)
	start := time.Now()
	if !s.Post(TaskFunc(func(s *Shard) {
		slot, ss := s.live(h)
		if ss == nil {
			tell(answer, false)
			return
		}
		s.buf = frame.AppendPing(s.buf[:0], &frame.Ping{ID: id})
		s.answerBody(slot, ss, s.buf)
	})) {
		return 0, errStopped()
	}
	select {
	case pong := <-answer:
		if !pong {
			return 0, notFound()
		}
		return time.Since(start), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
