package cruxtest

import (
	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

var leaseTests = []test{
	{"lease end makes all sessions offline at once", leaseEnd},
	{"renewals keep sessions", leaseRenewed},
	{"a fenced incarnation changes nothing", fenced},
	{"numbers of incarnations grow", numbersGrow},
	{"a new incarnation ends the sessions of the old one", newIncarnation},
	{"a released lease ends at once", released},
	{"an FE hangs, the device moves, the FE returns", hangAndReturn},
	{"renewal lists replaced sessions until confirmed", replacedUntilConfirmed},
	{"replaced sessions of a dead incarnation are nobody's task", replacedOfDead},
	{"an unknown incarnation is fenced", unknownIncarnation},
}

func leaseEnd(p *play) {
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	a, b, c := p.login(fe1, "alice", "phone"), p.login(fe1, "alice", "pad"), p.login(fe2, "alice", "tv")
	d := p.login(fe1, "bob", "phone")
	for _, r := range []crux.Registration{a, b, c, d} {
		p.admit(r)
	}
	before := p.lookup("bob")
	p.pass(p.h.Lease+p.h.Lease/4, fe2)
	p.sessions("alice", c)
	p.sessions("bob")
	bob := p.lookup("bob")
	if bob.Version < before.Version {
		p.Errorf("version after the lease ended: got %d, want at least %d", bob.Version, before.Version)
	}
	if !bob.LastSeen.After(before.Sessions[0].Since) {
		p.Errorf("last seen: got %v, want a time after the login at %v", bob.LastSeen, before.Sessions[0].Since)
	}
	// Nobody who looks later sees another end.
	p.pass(p.h.Lease, fe2)
	if again := p.lookup("bob"); !again.LastSeen.Equal(bob.LastSeen) || again.Version != bob.Version {
		p.Errorf("offline user changed by itself: got %+v, was %+v", again, bob)
	}
	out := p.admit(p.login(fe2, "bob", "phone"))
	if out.Version <= bob.Version {
		p.Errorf("version of the next login: got %d, want above %d", out.Version, bob.Version)
	}
	if len(out.Replaced) != 0 {
		p.Errorf("the next login replaced a dead session: %+v", out.Replaced)
	}
}

func leaseRenewed(p *play) {
	fe1 := p.begin("fe1")
	a := p.login(fe1, "alice", "phone")
	in := p.admit(a)
	p.pass(4*p.h.Lease, fe1)
	p.sessions("alice", a)
	if v := p.lookup("alice").Version; v != in.Version {
		p.Errorf("renewals changed the version: got %d, want %d", v, in.Version)
	}
	r := p.renew(fe1)
	if r.Expires.IsZero() || len(r.Replaced) != 0 {
		p.Errorf("renewal: got %+v", r)
	}
}

func fenced(p *play) {
	fe1 := p.begin("fe1")
	a := p.login(fe1, "alice", "phone")
	p.admit(a)
	p.pass(p.h.Lease + p.h.Lease/4)
	_, err := p.RenewFE(p.Context(), fe1)
	p.is(err, crux.ErrFenced)
	p.is(p.ReleaseFE(p.Context(), fe1), crux.ErrFenced)
	p.verdict(p.register(p.login(fe1, "alice", "phone")), crux.Fenced)
	was := p.lookup("alice")
	if out := p.unregister(logout(a)); out.Removed || out.Last {
		p.Errorf("late logout: got %+v, want nothing removed", out)
	}
	if is := p.lookup("alice"); is.Version != was.Version || is.Online() {
		p.Errorf("late writes changed the user: got %+v, was %+v", is, was)
	}
	// The lease does not come back by itself.
	_, err = p.RenewFE(p.Context(), fe1)
	p.is(err, crux.ErrFenced)
	p.admit(p.login(p.begin("fe1"), "alice", "phone"))
}

func numbersGrow(p *play) {
	last := uint64(0)
	for range 50 {
		inc := p.begin("fe1")
		if inc.Num <= last {
			p.Fatalf("number: got %d, want above %d", inc.Num, last)
		}
		last = inc.Num
	}
	p.pass(2 * p.h.Lease)
	if inc := p.begin("fe1"); inc.Num <= last {
		p.Fatalf("number after the lease ended: got %d, want above %d", inc.Num, last)
	}
}

func newIncarnation(p *play) {
	old := p.begin("fe1")
	p.admit(p.login(old, "alice", "phone"))
	fe1 := p.begin("fe1")
	p.sessions("alice")
	_, err := p.RenewFE(p.Context(), old)
	p.is(err, crux.ErrFenced)
	p.is(p.ReleaseFE(p.Context(), old), crux.ErrFenced)
	p.verdict(p.register(p.login(old, "alice", "phone")), crux.Fenced)
	b := p.login(fe1, "alice", "phone")
	p.admit(b)
	// Same handle, older life: not the same session.
	late := logout(b)
	late.Incarnation = old
	if out := p.unregister(late); out.Removed {
		p.Error("a logout of the old incarnation removed a session of the new one")
	}
	p.sessions("alice", b)
}

func released(p *play) {
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	p.admit(p.login(fe1, "alice", "phone"))
	b := p.login(fe2, "bob", "phone")
	p.admit(b)
	if err := p.ReleaseFE(p.Context(), fe1); err != nil {
		p.Fatal(err)
	}
	p.sessions("alice")
	p.sessions("bob", b)
	p.is(p.ReleaseFE(p.Context(), fe1), crux.ErrFenced)
	_, err := p.RenewFE(p.Context(), fe1)
	p.is(err, crux.ErrFenced)
	if p.lookup("alice").LastSeen.IsZero() {
		p.Error("last seen is unknown after the lease was released")
	}
}

// hangAndReturn is the sequence that re-registration must not break: what moved away stays away.
func hangAndReturn(p *play) {
	for _, c := range []struct {
		name        string
		first, next uint64 // attempts
	}{{"with attempts", 5, 6}, {"without attempts", 0, 0}} {
		user := "user " + c.name
		fe1, fe2 := p.begin("fe1"), p.begin("fe2")
		a, stays := p.login(fe1, user, "phone", attempt(c.first)), p.login(fe1, user, "pad", attempt(c.first))
		in, stayed := p.admit(a), p.admit(stays)
		p.pass(p.h.Lease+p.h.Lease/4, fe2)
		b := p.login(fe2, user, "phone", attempt(c.next))
		p.admit(b)
		p.sessions(user, b)

		fe1 = p.begin("fe1")
		a.Incarnation, a.LoginMs, a.Floor = fe1, in.LoginMs, in.Version
		stays.Incarnation, stays.LoginMs, stays.Floor = fe1, stayed.LoginMs, stayed.Version
		p.verdict(p.register(a), crux.Superseded)
		if out := p.admit(stays); out.LoginMs != stayed.LoginMs {
			p.Errorf("%s: login time of the session that came back: got %d, want %d", c.name, out.LoginMs, stayed.LoginMs)
		}
		p.sessions(user, b, stays)
		if r := p.renew(fe2); len(r.Replaced) != 0 {
			p.Errorf("%s: FE2 has to close %+v", c.name, r.Replaced)
		}
	}
}

func replacedUntilConfirmed(p *play) {
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	a, b := p.login(fe1, "alice", "phone"), p.login(fe1, "bob", "phone")
	p.admit(a)
	p.admit(b)
	p.admit(p.login(fe2, "alice", "phone"))
	p.admit(p.login(fe2, "bob", "phone"))
	want := []crux.CloseItem{{Handle: a.Handle, Reason: klink.DisconnectReplaced}, {Handle: b.Handle, Reason: klink.DisconnectReplaced}}
	for range 2 { // told again until it is confirmed
		p.closes(fe1, want...)
	}
	if out := p.unregister(logout(a)); out.Removed {
		p.Error("the logout of a replaced session removed something")
	}
	p.closes(fe1, want[1])
	p.closes(fe2)
	p.unregister(logout(b))
	p.closes(fe1)
}

// closes wants the renewal to list exactly these sessions.
func (p *play) closes(inc klink.Incarnation, want ...crux.CloseItem) {
	p.Helper()
	got := p.renew(inc).Replaced
	if len(got) != len(want) {
		p.Fatalf("to close: got %+v, want %+v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			p.Fatalf("to close: got %+v, want %+v", got, want)
		}
	}
}

func replacedOfDead(p *play) {
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	p.admit(p.login(fe1, "alice", "phone"))
	p.admit(p.login(fe2, "alice", "phone"))
	p.closes(p.begin("fe1"))
}

func unknownIncarnation(p *play) {
	fe1 := p.begin("fe1")
	for _, inc := range []klink.Incarnation{{FE: "nobody", Num: 1}, {FE: "fe1", Num: fe1.Num + 1}, {FE: "fe1", Num: fe1.Num - 1}, {}} {
		p.verdict(p.register(p.login(inc, "alice", "phone")), crux.Fenced)
		_, err := p.RenewFE(p.Context(), inc)
		p.is(err, crux.ErrFenced)
		p.is(p.ReleaseFE(p.Context(), inc), crux.ErrFenced)
	}
	p.sessions("alice")
	p.renew(fe1)
}
