package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/klinkio/klink/auth"
)

// FanoutOptions are the sizes of Fanout.
type FanoutOptions struct {
	Sessions int
	Rounds   int
	Writes   int      // to each session in a round
	Cases    []string // of FanoutCases
}

// FanoutCases are the cases of Fanout: transport and frames a flush.
func FanoutCases() []string {
	return []string{"tcp 1", "tcp 1 one loop", "tcp 16", "tls 1", "tls 1 all"}
}

// fanoutCase is one case.
type fanoutCase struct {
	name, transport string
	frames          int // that leave in one write
	goal            goal
	settings        map[string]string
	goroutines      bool
}

func fanoutCaseOf(name string) (*fanoutCase, error) {
	switch name {
	case "tcp 1":
		return &fanoutCase{name: name, transport: "tcp", frames: 1, goal: goals(1.18, 1.05), goroutines: true}, nil
	case "tcp 1 one loop": // the floor has one, too: what follows from the second loop is not in this ratio
		return &fanoutCase{name: name, transport: "tcp", frames: 1, goal: goals(1.18, 1.05), settings: map[string]string{"fe.loops": "1"}}, nil
	case "tcp 16":
		return &fanoutCase{name: name, transport: "tcp", frames: 16, goal: goals(1.25, 1.1)}, nil
	case "tls 1":
		return &fanoutCase{name: name, transport: "tls", frames: 1, goal: goals(1.3, 1.1)}, nil
	case "tls 1 all": // cipher objects are kept for all
		return &fanoutCase{
			name: name, transport: "tls", frames: 1, settings: map[string]string{"tls.aead_cache": strconv.Itoa(MaxSessions)},
		}, nil
	}
	return nil, fmt.Errorf("there is no case %q of fan-out, only %q", name, FanoutCases())
}

// Fanout measures what a delivered message costs the server when everyone carries the tag that is pushed to: from the HTTP request to the sockets, against the
// floor, which walks a list.
func Fanout(ctx context.Context, o *FanoutOptions, r *Recorder) error {
	if o.Sessions < 1 || o.Sessions > MaxSessions || o.Rounds < 1 || o.Writes < 1 {
		return errSizes
	}
	for _, name := range o.Cases {
		c, err := fanoutCaseOf(name)
		if err != nil {
			return err
		}
		if err := fanout(ctx, c, o, r); err != nil {
			return fmt.Errorf("fan-out %s: %w", name, err)
		}
	}
	return r.Err()
}

func fanout(ctx context.Context, c *fanoutCase, o *FanoutOptions, r *Recorder) error {
	rig, err := newRig(ctx, r)
	if err != nil {
		return err
	}
	defer rig.close()
	k, err := rig.klink(c.settings)
	if err != nil {
		return err
	}
	roles := []string{roleFloor}
	if c.goroutines {
		roles = append(roles, roleGoroutines)
	}
	sides := []*side{k}
	for _, role := range roles {
		s, err := rig.control(role, c.transport)
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	for _, s := range sides {
		if err := rig.fill(s, c.transport, auth.HS256, o.Sessions, o.Sessions); err != nil {
			return fmt.Errorf("connect to %s: %w", s.server.role, err)
		}
	}
	before, err := k.counts()
	if err != nil {
		return err
	}
	racers := []*contender{{name: "klink", step: func() (time.Duration, error) { return rig.klinkRound(k, c, o) }}}
	for _, s := range sides[1:] {
		racers = append(racers, &contender{name: s.server.role, step: func() (time.Duration, error) { return s.pushRound(c, o, c.frames > 1) }})
	}
	if c.frames > 1 {
		racers = append(racers, &contender{name: "contiguous", step: func() (time.Duration, error) { return sides[1].pushRound(c, o, false) }})
	}
	if err := race(o.Rounds, racers...); err != nil {
		return err
	}
	after, err := k.counts()
	if err != nil {
		return err
	}
	c.report(racers, o, r)
	name := c.name + " n=" + strconv.Itoa(o.Sessions)
	frames := float64((o.Rounds + 1) * o.Writes * c.frames * o.Sessions)
	r.Add(name, "frames_per_write", frames/float64(after["klink_fe_writes_total"]-before["klink_fe_writes_total"]), "frames", goal{})
	return nil
}

func (c *fanoutCase) report(racers []*contender, o *FanoutOptions, r *Recorder) {
	name := c.name
	ops := o.Writes * c.frames * o.Sessions
	r.Add(name, "floor_ratio", racers[0].ratio(racers[1]), "x", c.goal)
	low, high := racers[0].spread(racers[1])
	r.Add(name+" n="+strconv.Itoa(o.Sessions), "floor_ratio_low", low, "x, quartile", goal{})
	r.Add(name+" n="+strconv.Itoa(o.Sessions), "floor_ratio_high", high, "x, quartile", goal{})
	if c.goroutines {
		r.Add(name, "goroutine_ratio", racers[2].ratio(racers[0]), "x", goals(1.35, 1.5))
	}
	if c.frames > 1 { // the floor's frames in one buffer and one send, as klink has them
		r.Add(name+" n="+strconv.Itoa(o.Sessions), "contiguous_ratio", racers[0].ratio(racers[2]), "x", goal{})
	}
	for _, k := range racers {
		r.Add(fmt.Sprintf("%s n=%d", name, o.Sessions), k.name+"_us", k.perOp(ops), "CPU us/message", goal{})
	}
}

// klinkRound pushes through the HTTP API and waits until everyone has everything.
func (rig *rig) klinkRound(s *side, c *fanoutCase, o *FanoutOptions) (time.Duration, error) {
	to := `{"tags":["` + commonTag + `"]}`
	if c.frames == 1 {
		return s.spend(func() error {
			for range o.Writes {
				if err := rig.pushCommon(s, o.Sessions); err != nil {
					return err
				}
			}
			return nil
		})
	}
	body := batchBody(func(int) string { return to }, c.frames)
	return s.spend(func() error {
		for range o.Writes {
			text, err := s.api.post(rig.ctx, "/v1/push/batch", body)
			if err != nil {
				return err
			}
			if err := allEnqueued(text, c.frames, o.Sessions); err != nil {
				return err
			}
			if err := s.await(c.frames * o.Sessions); err != nil {
				return err
			}
		}
		return nil
	})
}

// allEnqueued checks the answer to a batch: each of n items has reached that many sessions.
func allEnqueued(text []byte, n, sessions int) error {
	var a struct {
		Results []struct {
			Status int
			Result struct{ Enqueued int }
		}
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("answer to a batch %.200q: %w", text, err)
	}
	if len(a.Results) != n {
		return fmt.Errorf("a batch of %d got %d answers: %.200q", n, len(a.Results), text)
	}
	for i := range a.Results {
		if it := &a.Results[i]; it.Status != 200 || it.Result.Enqueued != sessions {
			return fmt.Errorf("item %d of a batch to %d sessions: status %d, reached %d", i, sessions, it.Status, it.Result.Enqueued)
		}
	}
	return nil
}

// pushRound lets a control server push as often, in as many writes, and waits until everyone has everything.
func (s *side) pushRound(c *fanoutCase, o *FanoutOptions, vector bool) (time.Duration, error) {
	frame := pushFrame()
	return s.spend(func() error {
		for range o.Writes {
			a, err := s.server.ask(&order{Op: opPush, N: c.frames, Frame: frame, Vector: vector})
			if err != nil {
				return err
			}
			if a.Sessions != o.Sessions {
				return fmt.Errorf("a push of %s to %d sessions reached %d", s.server.role, o.Sessions, a.Sessions)
			}
			if err := s.await(c.frames * o.Sessions); err != nil {
				return err
			}
		}
		return nil
	})
}

// counts are klink's own counters.
func (s *side) counts() (map[string]uint64, error) {
	a, err := s.server.ask(&order{Op: opCounts})
	if err != nil {
		return nil, err
	}
	return a.Counts, nil
}
