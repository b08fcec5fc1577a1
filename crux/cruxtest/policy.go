package cruxtest

import (
	"fmt"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

var policyTests = []test{
	{"one per user, newest wins", onePerUserNewest},
	{"one per user, oldest wins", onePerUserOldest},
	{"the bound of devices", maxDevices},
	{"the default and the highest bound of devices", deviceBounds},
	{"oldest wins does not protect the dead", oldestDead},
	{"a session that comes back does not push out a newer one", backUnderPolicy},
	{"a device has one session under every policy", oneOfDevice},
}

func onePerUserNewest(p *play) {
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	one := policy(crux.PolicyOnePerUser, crux.NewestWins, 0)
	a := p.login(fe1, "alice", "phone", one)
	in := p.admit(a)
	b := p.login(fe2, "alice", "pad", one)
	out := p.admit(b)
	if len(out.Replaced) != 1 || out.Replaced[0].Handle != a.Handle || out.Replaced[0].Device != "phone" || out.Version <= in.Version {
		p.Fatalf("second device: got %+v", out)
	}
	p.sessions("alice", b)
	p.closes(fe1, crux.CloseItem{Handle: a.Handle, Reason: klink.DisconnectReplaced})
}

func onePerUserOldest(p *play) {
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	one := policy(crux.PolicyOnePerUser, crux.OldestWins, 0)
	a := p.login(fe1, "alice", "phone", one)
	in := p.admit(a)
	p.verdict(p.register(p.login(fe2, "alice", "pad", one)), crux.TooMany)
	if u := p.lookup("alice"); u.Version != in.Version {
		p.Errorf("a refused device changed the version: got %d, want %d", u.Version, in.Version)
	}
	p.sessions("alice", a)
	// The same device takes over from itself.
	a2 := p.login(fe2, "alice", "phone", one)
	if out := p.admit(a2); len(out.Replaced) != 1 || out.Replaced[0].Handle != a.Handle {
		p.Fatalf("same device: got %+v", out)
	}
	p.sessions("alice", a2)
	p.unregister(logout(a2))
	b := p.login(fe2, "alice", "pad", one)
	p.admit(b)
	p.sessions("alice", b)
}

func maxDevices(p *play) {
	fe1 := p.begin("fe1")
	for _, c := range []struct {
		winner crux.Winner
		want   crux.Verdict
	}{{crux.NewestWins, crux.Admitted}, {crux.OldestWins, crux.TooMany}} {
		user := fmt.Sprint("user ", c.winner)
		var in []crux.Registration
		for i := range 3 {
			r := p.login(fe1, user, fmt.Sprint("device ", i), policy(crux.PolicyAllowAll, c.winner, 3))
			p.admit(r)
			in = append(in, r)
			p.h.Advance(p.h.Lease / 100)
			p.renew(fe1)
		}
		fourth := p.login(fe1, user, "device 3", policy(crux.PolicyAllowAll, c.winner, 3))
		out := p.register(fourth)
		p.verdict(out, c.want)
		if c.want == crux.TooMany {
			p.sessions(user, in...)
			// Under a lower bound a device still takes its own place, and nobody else's.
			again := p.login(fe1, user, "device 2", policy(crux.PolicyOnePerUser, c.winner, 0))
			if out := p.admit(again); len(out.Replaced) != 1 || out.Replaced[0].Handle != in[2].Handle {
				p.Fatalf("same device under a lower bound: got %+v", out.Replaced)
			}
			p.sessions(user, in[0], in[1], again)
			continue
		}
		if len(out.Replaced) != 1 || out.Replaced[0].Handle != in[0].Handle {
			p.Fatalf("fourth device: got %+v, want the oldest replaced", out.Replaced)
		}
		p.sessions(user, in[1], in[2], fourth)
		// The app lowers its bound: the next login makes room.
		fifth := p.login(fe1, user, "device 4", policy(crux.PolicyAllowAll, c.winner, 2))
		if out := p.admit(fifth); len(out.Replaced) != 2 {
			p.Fatalf("lower bound: got %+v, want two replaced", out.Replaced)
		}
		p.sessions(user, fourth, fifth)
	}
}

func deviceBounds(p *play) {
	fe1 := p.begin("fe1")
	for user, c := range map[string]struct{ asked, want int }{
		"unset": {0, crux.DefaultMaxDevices}, "huge": {1 << 30, crux.MaxDevicesLimit}, "negative": {-1, crux.DefaultMaxDevices},
	} {
		var regs []crux.Registration
		for i := range c.want + 1 {
			regs = append(regs, p.login(fe1, user, fmt.Sprint("device ", i), policy(crux.PolicyAllowAll, crux.OldestWins, c.asked)))
		}
		out, err := p.Register(p.Context(), regs)
		if err != nil {
			p.Fatal(err)
		}
		for i := range c.want {
			p.verdict(out[i], crux.Admitted)
		}
		p.verdict(out[c.want], crux.TooMany)
		p.sessions(user, regs[:c.want]...)
	}
}

func oldestDead(p *play) {
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	one := policy(crux.PolicyOnePerUser, crux.OldestWins, 0)
	p.admit(p.login(fe1, "alice", "phone", one))
	p.pass(p.h.Lease+p.h.Lease/4, fe2)
	b := p.login(fe2, "alice", "pad", one)
	if out := p.admit(b); len(out.Replaced) != 0 {
		p.Errorf("replaced a dead session: %+v", out.Replaced)
	}
	p.sessions("alice", b)
}

func backUnderPolicy(p *play) {
	for _, w := range []crux.Winner{crux.NewestWins, crux.OldestWins} {
		fe1, fe2 := p.begin("fe1"), p.begin("fe2")
		user, one := fmt.Sprint("user ", w), policy(crux.PolicyOnePerUser, w, 0)
		a := p.login(fe1, user, "phone", one)
		in := p.admit(a)
		p.pass(p.h.Lease+p.h.Lease/4, fe2)
		b := p.login(fe2, user, "pad", one)
		p.admit(b)
		a.Incarnation, a.LoginMs = p.begin("fe1"), in.LoginMs
		want := crux.Superseded
		if w == crux.OldestWins {
			want = crux.TooMany
		}
		p.verdict(p.register(a), want)
		p.sessions(user, b)
	}
	// Of two that come back the newer one pushes out the older one.
	fe1, one := p.begin("fe1"), policy(crux.PolicyOnePerUser, crux.NewestWins, 0)
	const ms = 1_700_000_000_000
	p.admit(p.login(fe1, "bob", "phone", one, loginAt(ms)))
	b := p.login(fe1, "bob", "pad", one, loginAt(ms+1))
	p.admit(b)
	p.sessions("bob", b)
}

func oneOfDevice(p *play) {
	fe1 := p.begin("fe1")
	for _, pol := range []crux.Policy{crux.PolicyAllowAll, crux.PolicyOnePerUser} {
		for _, w := range []crux.Winner{crux.NewestWins, crux.OldestWins} {
			user := fmt.Sprintf("user %d %d", pol, w)
			p.admit(p.login(fe1, user, "phone", policy(pol, w, 4)))
			b := p.login(fe1, user, "phone", policy(pol, w, 4))
			p.admit(b)
			p.sessions(user, b)
		}
	}
}
