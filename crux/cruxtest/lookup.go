package cruxtest

import (
	"fmt"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

var lookupTests = []test{
	{"lookups are answered in order", lookupOrder},
	{"a session reads as it was registered", lookupFields},
	{"ids of all scripts", unicodeIDs},
	{"two apps with the same user are apart", twoApps},
	{"answers belong to the caller", answersOwned},
	{"counts", counts},
	{"a closed store says so", closedStore},
}

func lookupOrder(p *play) {
	fe1 := p.begin("fe1")
	p.admit(p.login(fe1, "alice", "phone"))
	p.admit(p.login(fe1, "carol", "phone"))
	users := []string{"carol", "nobody", "alice", "carol", "", long(1000), "\xff"}
	out, err := p.Lookup(p.Context(), app, users)
	if err != nil || len(out) != len(users) {
		p.Fatalf("lookup: %+v, %v", out, err)
	}
	for i, online := range []bool{true, false, true, true, false, false, false} {
		if out[i].User != users[i] || out[i].Online() != online || (out[i].Version != 0) != online {
			p.Errorf("answer %d: got %+v, want %q online %v", i, out[i], users[i], online)
		}
		if !online && (len(out[i].Tags) != 0 || !out[i].LastSeen.IsZero()) {
			p.Errorf("answer %d knows of an unknown user: %+v", i, out[i])
		}
	}
	if out, err := p.Lookup(p.Context(), app, nil); err != nil || len(out) != 0 {
		p.Errorf("empty lookup: %+v, %v", out, err)
	}
	if out, err := p.Lookup(p.Context(), "unheard-of", []string{"alice"}); err != nil || len(out) != 1 || out[0].Online() {
		p.Errorf("unknown app: %+v, %v", out, err)
	}
}

func lookupFields(p *play) {
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	const ms = 1_700_000_000_000
	regs := []crux.Registration{
		{Device: "a", Incarnation: fe1, Handle: klink.MakeHandle(0, 0, 1), Transport: klink.TransportTCP, LoginMs: ms + 30, Attempt: 1},
		{Device: "b", Incarnation: fe2, Handle: klink.MakeHandle(255, 1<<24-1, 1<<32-1), Transport: klink.TransportQUIC, LoginMs: ms + 10, Attempt: 1<<64 - 1},
		{Device: "c", Incarnation: fe1, Handle: klink.MakeHandle(1, 300, 70000), Transport: klink.TransportWSS, LoginMs: ms + 20},
		{Device: "d", Incarnation: fe2, Handle: klink.MakeHandle(0, 0, 1), Transport: klink.TransportUnknown, LoginMs: 1, Floor: 1 << 51},
	}
	versions := make(map[string]klink.Version)
	for i := range regs {
		regs[i].App, regs[i].User = app, "alice"
		out := p.admit(regs[i])
		if out.LoginMs != regs[i].LoginMs {
			p.Errorf("device %s: login %d, want %d", regs[i].Device, out.LoginMs, regs[i].LoginMs)
		}
		versions[regs[i].Device] = out.Version
	}
	p.sessions("alice", regs...)
	u := p.lookup("alice")
	if u.Stale || !u.LastSeen.IsZero() || u.Version != versions["d"] {
		p.Errorf("got %+v", u)
	}
	for i, want := range []int{3, 1, 2, 0} { // by login time
		s := u.Sessions[i]
		if s.Device != regs[want].Device || s.Since.UnixMilli() != regs[want].LoginMs || s.Version != versions[s.Device] {
			p.Errorf("session %d: got %+v, want device %s since %d, version %d", i, s, regs[want].Device, regs[want].LoginMs, versions[s.Device])
		}
	}
}

func unicodeIDs(p *play) {
	fe1 := p.begin("fe-ü")
	ids := []string{"Алиса", "愛麗絲", "أليس", "👩🏽‍💻", "e\u0301", "\u00e9", "a:b/c{d}e", "{p001}", "%s*?[a]", "a b", " ", "'\"\\", "\u2028"}
	var regs []crux.Registration
	for _, id := range ids {
		r := p.login(fe1, id, id)
		r.App = id[:min(len(id), klink.MaxAppLen)]
		p.admit(r)
		regs = append(regs, r)
	}
	for _, r := range regs {
		u := p.lookupIn(r.App, r.User)
		if len(u.Sessions) != 1 || u.Sessions[0].Device != r.Device || u.Sessions[0].Handle != r.Handle || u.Sessions[0].Incarnation.FE != "fe-ü" {
			p.Errorf("%q: got %+v", r.User, u)
		}
	}
	p.equal("tags", p.tags("愛", ids, nil).Added, p.lookup("愛").Tags)
	if got := len(p.lookup("愛").Tags); got != len(ids) {
		p.Errorf("got %d tags, want %d", got, len(ids))
	}
}

func twoApps(p *play) {
	fe1 := p.begin("fe1")
	one := policy(crux.PolicyOnePerUser, crux.NewestWins, 0)
	a := p.login(fe1, "alice", "phone", one)
	b := p.login(fe1, "alice", "phone", one)
	b.App = "bank"
	p.admit(a)
	if out := p.admit(b); len(out.Replaced) != 0 {
		p.Fatalf("one app replaced a session of the other: %+v", out.Replaced)
	}
	p.tags("alice", []string{"vip"}, nil)
	if u := p.lookupIn("bank", "alice"); len(u.Tags) != 0 || len(u.Sessions) != 1 || u.Sessions[0].Handle != b.Handle {
		p.Errorf("bank: got %+v", u)
	}
	if _, err := p.DeleteUser(p.Context(), "bank", "alice"); err != nil {
		p.Fatal(err)
	}
	p.sessions("alice", a)
	// The border between app and user is kept.
	for _, pair := range [][2]string{{"ab", "c"}, {"a", "bc"}} {
		r := p.login(fe1, pair[1], "phone")
		r.App = pair[0]
		p.admit(r)
		if u := p.lookupIn(r.App, r.User); len(u.Sessions) != 1 || u.Sessions[0].Handle != r.Handle {
			p.Errorf("%q: got %+v", pair, u)
		}
	}
}

// stats wants the store to count so many that are alive.
func (p *play) stats(fes, users, sessions int) {
	p.Helper()
	st, err := p.Stats(p.Context())
	if err != nil || st.FEs != fes || st.Users != users || st.Sessions != sessions || st.Known < users {
		p.Fatalf("stats: got %+v, %v, want %d FEs, %d users, %d sessions", st, err, fes, users, sessions)
	}
}

// answersOwned writes all over what the store returned; the store must not have kept it.
func answersOwned(p *play) {
	fe1 := p.begin("fe1")
	a := p.login(fe1, "alice", "phone")
	add := []string{"b", "a"}
	ut := p.tags("alice", add, nil)
	add[0], ut.Tags[0], ut.Added[0] = "x", "x", "x"
	out := p.admit(a)
	out.Tags[0] = "x"
	u := p.lookup("alice")
	u.Tags[0], u.Sessions[0].Device = "x", "x"
	p.equal("tags", p.lookup("alice").Tags, []string{"a", "b"})
	p.sessions("alice", a)
}

func counts(p *play) {
	want := p.stats
	want(0, 0, 0)
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	want(2, 0, 0)
	for i := range 100 {
		user := fmt.Sprint("user ", i)
		p.admit(p.login(fe1, user, "phone"))
		if i%2 == 0 {
			p.admit(p.login(fe2, user, "pad"))
		}
	}
	want(2, 100, 150)
	p.admit(p.login(fe2, "user 0", "phone"))
	want(2, 100, 150)
	p.unregister(logout(p.login(fe2, "user 0", "phone")))
	want(2, 100, 150)
	p.pass(p.h.Lease+p.h.Lease/4, fe2)
	want(1, 50, 51)
	if err := p.ReleaseFE(p.Context(), fe2); err != nil {
		p.Fatal(err)
	}
	want(0, 0, 0)
}

func closedStore(p *play) {
	fe1 := p.begin("fe1")
	a := p.login(fe1, "alice", "phone")
	p.admit(a)
	if err := p.Close(); err != nil {
		p.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"RegisterFE": func() error { _, err := p.RegisterFE(p.Context(), crux.FE{ID: "fe2"}); return err },
		"RenewFE":    func() error { _, err := p.RenewFE(p.Context(), fe1); return err },
		"ReleaseFE":  func() error { return p.ReleaseFE(p.Context(), fe1) },
		"Register":   func() error { _, err := p.Register(p.Context(), []crux.Registration{a}); return err },
		"Unregister": func() error { _, err := p.Unregister(p.Context(), []crux.Unregistration{logout(a)}); return err },
		"Lookup":     func() error { _, err := p.Lookup(p.Context(), app, []string{"alice"}); return err },
		"ChangeTags": func() error { _, err := p.ChangeTags(p.Context(), app, "alice", []string{"x"}, nil); return err },
		"Revoke":     func() error { return p.Revoke(p.Context(), app, "alice", "", boundary()) },
		"Revoked":    func() error { _, err := p.Revoked(p.Context(), app, "alice", "", boundary()); return err },
		"DeleteUser": func() error { _, err := p.DeleteUser(p.Context(), app, "alice"); return err },
		"Stats":      func() error { _, err := p.Stats(p.Context()); return err },
		"Close":      p.Close,
	} {
		if err := call(); err == nil {
			p.Errorf("%s after Close: no error", name)
		} else {
			p.is(err, crux.ErrClosed)
		}
	}
}
