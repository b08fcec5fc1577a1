package loadtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/klinkio/klink/auth"
)

// UnicastOptions are the sizes of Unicast.
type UnicastOptions struct {
	Sessions int
	Rounds   int
	Pushes   int // of a round, at least a batch
}

// unicastBatch is how many pushes a batch holds.
const unicastBatch = 100

// unicastStride spreads the pushes over the users: it has no divisor in common with usual numbers of sessions.
const unicastStride = 7919

// Unicast measures what an acknowledged push to one user costs the server, from the HTTP request to its delivery over WebSocket: single, on four
// connections kept alive, and in batches of 100 on one. The control is a hub of gorilla/websocket and net/http.
func Unicast(ctx context.Context, o *UnicastOptions, r *Recorder) error {
	if o.Sessions < 1 || o.Sessions > MaxSessions || o.Rounds < 1 || o.Pushes < unicastBatch {
		return errSizes
	}
	rig, err := newRig(ctx, r)
	if err != nil {
		return err
	}
	defer rig.close()
	sides, err := rig.unicastSides(o)
	if err != nil {
		return err
	}
	n := o.Pushes / unicastBatch * unicastBatch
	sizes := fmt.Sprintf("n=%d", o.Sessions)
	for _, c := range []struct {
		name string
		push func(s *side, sessions, n int) error
		goal goal
	}{
		{"ws, single", rig.pushSingle, goals(0.75, 0.5)},
		{fmt.Sprintf("ws, batches of %d", unicastBatch), rig.pushBatches, goal{}},
	} {
		before, err := sides[0].counts()
		if err != nil {
			return err
		}
		racers := racersOf(sides, func(s *side) error { return c.push(s, o.Sessions, n) })
		if err := race(o.Rounds, racers...); err != nil {
			return fmt.Errorf("unicast, %s: %w", c.name, err)
		}
		after, err := sides[0].counts()
		if err != nil {
			return err
		}
		r.compare(c.name, racers, n, sizes, "CPU us/push", c.goal)
		wakes := after["klink_fe_wakes_total"] - before["klink_fe_wakes_total"]
		r.Add(c.name+", "+sizes, "wakes_per_push", float64(wakes)/float64(n*(o.Rounds+1)), "writes to a loop's event descriptor", goal{})
	}
	return r.Err()
}

func (r *rig) unicastSides(o *UnicastOptions) ([]*side, error) {
	k, err := r.klink(nil)
	if err != nil {
		return nil, err
	}
	h, err := r.control(roleHub, "ws")
	if err != nil {
		return nil, err
	}
	for _, s := range []*side{k, h} {
		s.firstUser = r.first
		if err := r.fill(s, "ws", auth.HS256, o.Sessions, o.Sessions); err != nil {
			return nil, fmt.Errorf("connect to %s: %w", s.server.role, err)
		}
	}
	return []*side{k, h}, nil
}

// target names the user of the next push in JSON.
func (s *side) target(i, sessions int) string {
	return `{"users":["` + userID(s.firstUser+i*unicastStride%sessions) + `"]}`
}

// pushSingle sends n pushes, each in a request of its own, and waits until all have arrived.
func (r *rig) pushSingle(s *side, sessions, n int) error {
	var wg sync.WaitGroup
	errs := make([]error, backendConns)
	for w := range backendConns {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += backendConns {
				errs[w] = r.pushOne(s, s.target(i, sessions))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.await(n)
}

func (r *rig) pushOne(s *side, to string) error {
	text, err := s.api.post(r.ctx, "/v1/push", pushBody(to))
	if err != nil {
		return err
	}
	reached, err := enqueued(text)
	if err == nil && reached != 1 {
		err = fmt.Errorf("a push to one user reached %d sessions: %.200s", reached, text)
	}
	return err
}

// pushBatches sends n pushes in batches and waits until all have arrived.
func (r *rig) pushBatches(s *side, sessions, n int) error {
	for at := 0; at < n; at += unicastBatch {
		body := batchBody(func(i int) string { return s.target(at+i, sessions) }, unicastBatch)
		text, err := s.api.post(r.ctx, "/v1/push/batch", body)
		if err != nil {
			return err
		}
		if err := allEnqueued(text, unicastBatch, 1); err != nil {
			return err
		}
	}
	return s.await(n)
}
