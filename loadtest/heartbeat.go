package loadtest

import (
	"context"
	"fmt"
	"time"

	"github.com/klinkio/klink/auth"
)

// HeartbeatOptions are the sizes of Heartbeat.
type HeartbeatOptions struct {
	Transports []string // tcp, tls, ws, wss
	Sessions   int
	Rounds     int
}

// Heartbeat measures what a heartbeat and its answer cost the server: each session sends one in a round. The floor of ws is tcp, that of wss is tls.
func Heartbeat(ctx context.Context, o *HeartbeatOptions, r *Recorder) error {
	if o.Sessions < 1 || o.Sessions > MaxSessions || o.Rounds < 1 {
		return errSizes
	}
	for _, t := range o.Transports {
		if err := heartbeat(ctx, t, o, r); err != nil {
			return fmt.Errorf("heartbeat %s: %w", t, err)
		}
	}
	return r.Err()
}

func heartbeat(ctx context.Context, transport string, o *HeartbeatOptions, r *Recorder) error {
	rig, err := newRig(ctx, r)
	if err != nil {
		return err
	}
	defer rig.close()
	under := "tcp"
	if secure(transport) {
		under = "tls"
	}
	sides, err := rig.pair(&spec{Transport: transport, Alg: string(auth.HS256)}, under, o.Sessions, o.Sessions)
	if err != nil {
		return err
	}
	racers := racersOf(sides, func(s *side) error { return s.beat(o.Sessions) })
	if err := race(o.Rounds, racers...); err != nil {
		return err
	}
	name := transport
	if under != transport {
		name += ", floor of " + under
	}
	r.compare(name, racers, o.Sessions, fmt.Sprintf("n=%d", o.Sessions), "CPU us/heartbeat", goal{})
	return nil
}

// beat lets each of n sessions send a heartbeat and waits for all answers.
func (s *side) beat(n int) error {
	before := s.pongs
	a, err := s.swarm.ask(&order{Op: opBeat, TimeoutMs: int(awaitTime / time.Millisecond)})
	if err != nil {
		return err
	}
	s.pongs = a.Pongs
	if got := a.Pongs - before; got != uint64(n) {
		return fmt.Errorf("%d heartbeats got %d answers; last error: %s", n, got, a.LastErr)
	}
	return nil
}
