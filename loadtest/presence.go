package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/klinkio/klink/auth"
)

// PresenceOptions are the sizes of Presence.
type PresenceOptions struct {
	Sessions int
	Rounds   int
	Queries  int // of a round
}

// presenceBatch is how many users the larger query asks for.
const presenceBatch = 100

// Presence measures what questions about presence cost the server, over HTTP: one user, many users, the count of a tag that everyone carries and of one with a
// single member. GET /livez stands for HTTP alone.
func Presence(ctx context.Context, o *PresenceOptions, r *Recorder) error {
	if o.Sessions < presenceBatch || o.Sessions > MaxSessions || o.Rounds < 1 || o.Queries < 1 {
		return errSizes
	}
	rig, err := newRig(ctx, r)
	if err != nil {
		return err
	}
	defer rig.close()
	k, err := rig.klink(nil)
	if err != nil {
		return err
	}
	if err := rig.fill(k, "tcp", auth.HS256, o.Sessions, o.Sessions); err != nil {
		return fmt.Errorf("connect to klink: %w", err)
	}
	repeat := func(f func(i int) error) *contender {
		return racersOf([]*side{k}, func(*side) error {
			for i := range o.Queries {
				if err := f(i); err != nil {
					return err
				}
			}
			return nil
		})[0]
	}
	http := repeat(func(int) error { _, err := k.api.get(rig.ctx, "/livez"); return err })
	one := repeat(func(i int) error { return rig.queryUsers(k, i, o.Sessions, 1) })
	many := repeat(func(i int) error { return rig.queryUsers(k, i, o.Sessions, presenceBatch) })
	large := repeat(func(int) error { return rig.countTag(k, commonTag, o.Sessions) })
	small := repeat(func(i int) error { return rig.countTag(k, ownTag(i%o.Sessions), 1) })
	if err := race(o.Rounds, http, one, many, large, small); err != nil {
		return err
	}
	name := fmt.Sprintf("n=%d", o.Sessions)
	r.Add("tag count of all members, to that of one member", "count_ratio", large.ratio(small), "x", goals(1.5, 1.1))
	r.Add("one user, to GET /livez", "http_ratio", one.ratio(http), "x", goal{})
	r.Add(name+", one user", "query_us", one.perOp(o.Queries), "CPU us/query", goal{})
	r.Add(fmt.Sprintf("%s, %d users", name, presenceBatch), "query_us", many.perOp(o.Queries*presenceBatch), "CPU us/user", goal{})
	r.Add(name+", tag of all", "count_us", large.perOp(o.Queries), "CPU us/query", goal{})
	r.Add(name+", tag of one", "count_us", small.perOp(o.Queries), "CPU us/query", goal{})
	r.Add(name+", GET /livez", "http_us", http.perOp(o.Queries), "CPU us/request", goal{})
	return r.Err()
}

// queryUsers asks for n users from the i-th on and checks that all are online.
func (r *rig) queryUsers(s *side, i, sessions, n int) error {
	body := []byte(`{"users":[`)
	for k := range n {
		if k > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, "%q", userID((i*unicastStride+k)%sessions))
	}
	text, err := s.api.post(r.ctx, "/v1/presence/query", append(body, "]}"...))
	if err != nil {
		return err
	}
	if got := bytes.Count(text, []byte(`"online":true`)); got != n {
		return fmt.Errorf("%d of %d users are online: %.300s", got, n, text)
	}
	return nil
}

func (r *rig) countTag(s *side, tag string, want int) error {
	text, err := s.api.get(r.ctx, "/v1/tags/"+url.PathEscape(tag))
	if err != nil {
		return err
	}
	var a struct{ Members int }
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("count of a tag %.200q: %w", text, err)
	}
	if a.Members != want {
		return fmt.Errorf("a tag of %d members has %d", want, a.Members)
	}
	return nil
}
