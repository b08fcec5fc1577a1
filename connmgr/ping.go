package connmgr

import (
	"context"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

type pongKey struct {
	h  klink.Handle
	id uint64
}

// Ping asks a live device for a Pong over the way that pushes take and returns the time until it came. The error is ctx's, or
// CodeNotFound when the session is gone.
func (m *Manager) Ping(ctx context.Context, h klink.Handle, id uint64) (time.Duration, error) {
	s := m.shardOf(h)
	if s == nil {
		return 0, klink.Errorf(klink.CodeNotFound, "no session %v", h)
	}
	key := pongKey{h, id}
	got := make(chan struct{})
	m.pongMu.Lock()
	m.pongs[key] = got
	m.pongMu.Unlock()
	defer func() {
		m.pongMu.Lock()
		delete(m.pongs, key)
		m.pongMu.Unlock()
	}()
	start := time.Now()
	gone := make(chan struct{})
	s.Post(TaskFunc(func(s *Shard) {
		slot, ss := s.live(h)
		if ss == nil {
			close(gone)
			return
		}
		s.buf = frame.AppendPing(s.buf[:0], &frame.Ping{ID: id})
		s.answerBody(slot, ss, s.buf)
	}))
	select {
	case <-got:
		return time.Since(start), nil
	case <-gone:
		return 0, klink.Errorf(klink.CodeNotFound, "no session %v", h)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// ponged is called on the loop when a Pong came.
func (m *Manager) ponged(h klink.Handle, id uint64) {
	m.pongMu.Lock()
	defer m.pongMu.Unlock()
	if c, ok := m.pongs[pongKey{h, id}]; ok {
		close(c)
		delete(m.pongs, pongKey{h, id})
	}
}
