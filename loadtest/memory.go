package loadtest

import (
	"context"
	"fmt"
	"strconv"

	"github.com/klinkio/klink/auth"
)

// MemoryOptions are the sizes of SessionMemory.
type MemoryOptions struct {
	Transports []string // tcp, tls, ws, wss
	Low, High  int      // sessions at the two ends of the slope
}

// memoryPushes go to everyone before the memory is read.
const memoryPushes = 5

// SessionMemory measures what an idle session costs the server: the slope of its memory between two numbers of sessions, with ids of 16 bytes and two tags of
// 24, read after pushes to all. The server process is front end, push, presence and embedded store together.
func SessionMemory(ctx context.Context, o *MemoryOptions, r *Recorder) error {
	if o.Low < 1 || o.High <= o.Low || o.High > MaxSessions {
		return errSizes
	}
	rig, err := newRig(ctx, r)
	if err != nil {
		return err
	}
	defer rig.close()
	for _, t := range o.Transports {
		if err := rig.sessionMemory(t, t, nil, o, r); err != nil {
			return fmt.Errorf("memory of %s sessions: %w", t, err)
		}
		if t == "tls" {
			all := map[string]string{"tls.aead_cache": strconv.Itoa(MaxSessions)}
			if err := rig.sessionMemory(t, t+", cipher objects kept for all", all, o, r); err != nil {
				return fmt.Errorf("memory of %s sessions with all cipher objects: %w", t, err)
			}
		}
	}
	return r.Err()
}

func memoryGoal(transport string, all bool) goal {
	switch {
	case all:
		return goals(2700, 2200)
	case transport == "tcp":
		return goals(700, 400)
	case secure(transport):
		return goals(1100, 750)
	}
	return goal{}
}

func (rig *rig) sessionMemory(transport, name string, settings map[string]string, o *MemoryOptions, r *Recorder) error {
	defer rig.stop()
	s, err := rig.klink(settings)
	if err != nil {
		return err
	}
	if err := rig.fill(s, transport, auth.HS256, o.Low, o.High); err != nil {
		return err
	}
	low, err := rig.memoryAfterPush(s, o.Low)
	if err != nil {
		return err
	}
	if err := s.grow(o.High); err != nil {
		return err
	}
	high, err := rig.memoryAfterPush(s, o.High)
	if err != nil {
		return err
	}
	slope := func(a, b uint64) float64 { return (float64(b) - float64(a)) / float64(o.High-o.Low) }
	name = fmt.Sprintf("%s, front end and store in one process, slope of %d to %d", name, o.Low, o.High)
	r.Add(name, "user_bytes", slope(low.user(), high.user()), "B/session", memoryGoal(transport, settings != nil))
	r.Add(name, "live_bytes", slope(low.Live+low.Stack, high.Live+high.Stack), "B/session", goal{})
	r.Add(name, "rss_bytes", slope(low.RSS, high.RSS), "B/session", goal{})
	r.Add(name, "goroutines", float64(high.Goroutines-low.Goroutines), "more", goal{})
	return nil
}

// memoryAfterPush pushes to everyone and reads the memory when all have got it.
func (rig *rig) memoryAfterPush(s *side, sessions int) (*memory, error) {
	for range memoryPushes {
		if err := rig.pushCommon(s, sessions); err != nil {
			return nil, err
		}
	}
	return s.memory(sessions)
}

// pushCommon pushes to the tag that all sessions carry and waits until they have it.
func (rig *rig) pushCommon(s *side, sessions int) error {
	text, err := s.api.post(rig.ctx, "/v1/push", pushBody(`{"tags":["`+commonTag+`"]}`))
	if err != nil {
		return err
	}
	n, err := enqueued(text)
	if err == nil && n != sessions {
		err = fmt.Errorf("a push to %d sessions reached %d", sessions, n)
	}
	if err != nil {
		return err
	}
	return s.await(sessions)
}
