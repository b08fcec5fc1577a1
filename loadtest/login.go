package loadtest

import (
	"context"
	"fmt"
	"time"

	"github.com/klinkio/klink/auth"
)

// LoginOptions are the sizes of Login.
type LoginOptions struct {
	Sessions int // at the end of a case
	Rounds   int
}

// loginCase is one case.
type loginCase struct {
	name, transport string
	alg             auth.Alg
	apart           bool // Subscribe is a frame of its own
	goal            goal
}

func loginCases() []loginCase {
	return []loginCase{
		{"tcp HS256", "tcp", auth.HS256, true, goals(1.9, 1.4)},
		{"tcp HS256, tags in Connect", "tcp", auth.HS256, false, goals(1.9, 1.4)},
		{"tcp ES256", "tcp", auth.ES256, true, goal{}},
		{"tls HS256, ECDSA P-256 certificate, X25519", "tls", auth.HS256, true, goal{}},
	}
}

// Login measures what a new session costs the server: accept, for TLS the full handshake, Connect with a token of its own, Connected, Subscribe to two tags, Subscribed;
// or Connect with the tags in it, Connected. The floor answers the same exchange with bytes that were made before.
func Login(ctx context.Context, o *LoginOptions, r *Recorder) error {
	if o.Rounds < 1 || o.Sessions <= o.Rounds || o.Sessions > MaxSessions {
		return errSizes
	}
	for _, c := range loginCases() {
		if err := login(ctx, &c, o, r); err != nil {
			return fmt.Errorf("login %s: %w", c.name, err)
		}
	}
	return r.Err()
}

func login(ctx context.Context, c *loginCase, o *LoginOptions, r *Recorder) error {
	rig, err := newRig(ctx, r)
	if err != nil {
		return err
	}
	defer rig.close()
	sides, err := rig.pair(&spec{Transport: c.transport, Alg: string(c.alg), Apart: c.apart}, c.transport, 0, o.Sessions)
	if err != nil {
		return err
	}
	each := o.Sessions / (o.Rounds + 1)
	racers := racersOf(sides, func(s *side) error {
		s.sessions += each
		return s.grow(s.sessions)
	})
	if err := race(o.Rounds, racers...); err != nil {
		return err
	}
	r.compare(c.name, racers, each, fmt.Sprintf("n=%d to %d", each, each*(o.Rounds+1)), "CPU us/login", c.goal)
	return nil
}

// pair starts klink and the floor, each with a swarm as in sp, with n sessions that may grow to limit.
func (r *rig) pair(sp *spec, floorTransport string, n, limit int) ([]*side, error) {
	k, err := r.klink(nil)
	if err != nil {
		return nil, err
	}
	f, err := r.control(roleFloor, floorTransport)
	if err != nil {
		return nil, err
	}
	of := *sp
	if err := r.fillBy(k, sp, n, limit); err != nil {
		return nil, fmt.Errorf("connect to klink: %w", err)
	}
	of.Transport = floorTransport
	if err := r.fillBy(f, &of, n, limit); err != nil {
		return nil, fmt.Errorf("connect to the floor: %w", err)
	}
	return []*side{k, f}, nil
}

// racersOf makes each side a contender that does f in a round.
func racersOf(sides []*side, f func(*side) error) []*contender {
	list := make([]*contender, len(sides))
	for i, s := range sides {
		list[i] = &contender{name: s.server.role, step: func() (time.Duration, error) {
			return s.spend(func() error { return f(s) })
		}}
	}
	return list
}

// compare records the ratio of klink to its control, the first two of racers, and the absolute costs of all.
func (r *Recorder) compare(name string, racers []*contender, ops int, sizes, unit string, g goal) {
	r.Add(name, racers[1].name+"_ratio", racers[0].ratio(racers[1]), "x", g)
	low, high := racers[0].spread(racers[1])
	r.Add(name+", "+sizes, racers[1].name+"_ratio_low", low, "x, quartile", goal{})
	r.Add(name+", "+sizes, racers[1].name+"_ratio_high", high, "x, quartile", goal{})
	for _, c := range racers {
		r.Add(name+", "+sizes, c.name+"_us", c.perOp(ops), unit, goal{})
	}
}
