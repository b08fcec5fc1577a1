package cruxtest

import (
	"fmt"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

var loginTests = []test{
	{"attempts decide who holds a device", attempts},
	{"equal attempts race: the first stays", equalAttempts},
	{"a late logout does not remove the newer login", lateLogout},
	{"a logout removes exactly what it names", exactLogout},
	{"registering again changes nothing", registerAgain},
	{"a replaced session is told with its place", replacedPlace},
	{"batches are answered in order", batchOrder},
	{"an impossible registration fails the whole batch", invalidBatch},
}

// attempts plays a holder and a challenger of one device.
func attempts(p *play) {
	const older, same, newer = -1, 1 << 20, 1 // login of the challenger, if it comes again
	for i, c := range []struct {
		holder, challenger uint64
		again              int
		want               crux.Verdict
	}{
		{1, 2, 0, crux.Admitted},
		{2, 2, 0, crux.Superseded},
		{3, 2, 0, crux.Superseded},
		{0, 0, 0, crux.Admitted},
		{5, 0, 0, crux.Admitted},
		{0, 5, 0, crux.Admitted},
		{0, 0, older, crux.Superseded},
		{0, 0, same, crux.Superseded}, // the first holder stays
		{0, 0, newer, crux.Admitted},
		{5, 0, older, crux.Superseded},
		{0, 5, older, crux.Superseded},
		{5, 6, older, crux.Admitted}, // the attempt is the better witness
		{6, 5, newer, crux.Superseded},
		{5, 5, newer, crux.Superseded},
		{1<<64 - 2, 1<<64 - 1, 0, crux.Admitted},
	} {
		fe1, fe2 := p.begin("fe1"), p.begin("fe2")
		user := fmt.Sprint("user ", i)
		holder := p.login(fe1, user, "phone", attempt(c.holder))
		in := p.admit(holder)
		challenger := p.login(fe2, user, "phone", attempt(c.challenger))
		switch c.again {
		case 0:
		case same:
			challenger.LoginMs = in.LoginMs
		default:
			challenger.LoginMs = in.LoginMs + int64(c.again)
		}
		out := p.register(challenger)
		if out.Verdict != c.want {
			p.Fatalf("%+v: got verdict %d", c, out.Verdict)
		}
		if c.want == crux.Admitted {
			p.sessions(user, challenger)
		} else {
			p.sessions(user, holder)
		}
	}
}

func equalAttempts(p *play) {
	fe1 := p.begin("fe1")
	quic, tcp := p.login(fe1, "alice", "phone", attempt(9)), p.login(fe1, "alice", "phone", attempt(9))
	in := p.admit(quic)
	p.verdict(p.register(tcp), crux.Superseded)
	p.sessions("alice", quic)
	if v := p.lookup("alice").Version; v != in.Version {
		p.Errorf("the loser of a race changed the version: got %d, want %d", v, in.Version)
	}
	p.closes(fe1)
	p.unregister(logout(tcp))
	p.sessions("alice", quic)
	// When the winner is gone the same attempt may come in.
	p.unregister(logout(quic))
	p.admit(tcp)
}

func lateLogout(p *play) {
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	a := p.login(fe1, "alice", "phone", attempt(1))
	p.admit(a)
	b := p.login(fe2, "alice", "phone", attempt(2))
	p.admit(b)
	c := p.login(fe1, "alice", "phone", attempt(3))
	in := p.admit(c)
	for _, old := range []crux.Registration{a, b} {
		if out := p.unregister(logout(old)); out.Removed || out.Last || out.Version != in.Version {
			p.Errorf("late logout: got %+v, want nothing removed at version %d", out, in.Version)
		}
	}
	p.sessions("alice", c)
}

func exactLogout(p *play) {
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	a, b := p.login(fe1, "alice", "phone"), p.login(fe1, "alice", "pad")
	p.admit(a)
	in := p.admit(b)
	for what, change := range map[string]func(*crux.Unregistration){
		"handle":      func(u *crux.Unregistration) { u.Handle++ },
		"incarnation": func(u *crux.Unregistration) { u.Incarnation = fe2 },
		"device":      func(u *crux.Unregistration) { u.Device = "pad" },
		"user":        func(u *crux.Unregistration) { u.User = "bob" },
		"app":         func(u *crux.Unregistration) { u.App = "other" },
	} {
		u := logout(a)
		change(&u)
		if out := p.unregister(u); out.Removed || out.Last {
			p.Errorf("logout with another %s: got %+v", what, out)
		}
	}
	p.sessions("alice", a, b)
	out := p.unregister(logout(a))
	if !out.Removed || out.Last || out.Version <= in.Version {
		p.Errorf("logout of one of two: got %+v", out)
	}
	p.sessions("alice", b)
	last := p.unregister(logout(b))
	if !last.Removed || !last.Last || last.Version <= out.Version {
		p.Errorf("logout of the last: got %+v", last)
	}
	p.sessions("alice")
	if again := p.unregister(logout(b)); again.Removed || again.Last || again.Version != last.Version {
		p.Errorf("logout twice: got %+v", again)
	}
	u := p.lookup("alice")
	if u.Version != last.Version || u.LastSeen.UnixMilli() < in.LoginMs {
		p.Errorf("after logout: got %+v", u)
	}
}

func registerAgain(p *play) {
	fe1 := p.begin("fe1")
	a := p.login(fe1, "alice", "phone", attempt(4))
	in := p.admit(a)
	for _, r := range []crux.Registration{a, p.login(fe1, "alice", "phone", attempt(4), loginAt(in.LoginMs))} {
		r.Handle = a.Handle
		out := p.admit(r)
		if out.Version != in.Version || out.LoginMs != in.LoginMs || len(out.Replaced) != 0 {
			p.Fatalf("registered again: got %+v, want %+v", out, in)
		}
	}
	p.sessions("alice", a)
	p.closes(fe1)
	p.stats(1, 1, 1)
	a.Floor = in.Version + 1000
	if out := p.admit(a); out.Version < a.Floor || p.lookup("alice").Version != out.Version {
		p.Fatalf("registered again with floor %d: got %+v", a.Floor, out)
	}
}

func replacedPlace(p *play) {
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	a := p.login(fe1, "alice", "phone")
	in := p.admit(a)
	out := p.admit(p.login(fe2, "alice", "phone"))
	want := crux.Location{Incarnation: fe1, Handle: a.Handle, Device: "phone", Version: in.Version, Reason: klink.DisconnectReplaced}
	if len(out.Replaced) != 1 || out.Replaced[0] != want {
		p.Fatalf("replaced: got %+v, want %+v", out.Replaced, want)
	}
}

func batchOrder(p *play) {
	fe1 := p.begin("fe1")
	regs := []crux.Registration{
		p.login(fe1, "alice", "phone", attempt(2)),
		p.login(klink.Incarnation{FE: "fe1", Num: 1}, "bob", "phone"),
		p.login(fe1, "alice", "phone", attempt(1)),
		p.login(fe1, "carol", "phone"),
		p.login(fe1, "alice", "phone", attempt(3)),
		p.login(fe1, "alice", "pad"),
	}
	out, err := p.Register(p.Context(), regs)
	if err != nil || len(out) != len(regs) {
		p.Fatalf("register: %+v, %v", out, err)
	}
	for i, want := range []crux.Verdict{crux.Admitted, crux.Fenced, crux.Superseded, crux.Admitted, crux.Admitted, crux.Admitted} {
		if out[i].Verdict != want {
			p.Errorf("verdict %d: got %d, want %d", i, out[i].Verdict, want)
		}
	}
	if len(out[4].Replaced) != 1 || out[4].Replaced[0].Handle != regs[0].Handle {
		p.Errorf("answer 4 replaced %+v, want the session of answer 0", out[4].Replaced)
	}
	p.sessions("alice", regs[4], regs[5])
	outs, err := p.Unregister(p.Context(), []crux.Unregistration{
		logout(regs[0]), logout(regs[3]), logout(regs[4]), logout(regs[3]), logout(regs[5]),
	})
	if err != nil || len(outs) != 5 {
		p.Fatalf("unregister: %+v, %v", outs, err)
	}
	for i, want := range []crux.Unregistered{{}, {Removed: true, Last: true}, {Removed: true}, {}, {Removed: true, Last: true}} {
		if outs[i].Removed != want.Removed || outs[i].Last != want.Last {
			p.Errorf("answer %d: got %+v, want %+v", i, outs[i], want)
		}
	}
	for _, n := range []int{0, 1} {
		if out, err := p.Register(p.Context(), regs[:n]); err != nil || len(out) != n {
			p.Errorf("batch of %d: %+v, %v", n, out, err)
		}
	}
}

func invalidBatch(p *play) {
	fe1 := p.begin("fe1")
	for what, change := range map[string]func(*crux.Registration){
		"no app":          func(r *crux.Registration) { r.App = "" },
		"no user":         func(r *crux.Registration) { r.User = "" },
		"no device":       func(r *crux.Registration) { r.Device = "" },
		"long app":        func(r *crux.Registration) { r.App = string(make([]byte, klink.MaxAppLen+1)) },
		"long user":       func(r *crux.Registration) { r.User = long(klink.MaxUserLen + 1) },
		"long device":     func(r *crux.Registration) { r.Device = long(klink.MaxDeviceLen + 1) },
		"bad UTF-8":       func(r *crux.Registration) { r.User = "a\xff" },
		"control":         func(r *crux.Registration) { r.Device = "a\nb" },
		"no handle":       func(r *crux.Registration) { r.Handle = 0 },
		"high floor":      func(r *crux.Registration) { r.Floor = 1<<52 + 1 },
		"negative login":  func(r *crux.Registration) { r.LoginMs = -1 },
		"unheard-of wire": func(r *crux.Registration) { r.Transport = 99 },
	} {
		_, err := p.Register(p.Context(), []crux.Registration{p.login(fe1, "alice", "phone"), p.login(fe1, "bob", "phone", change)})
		if err == nil {
			p.Fatalf("%s: no error", what)
		}
		p.code(err, klink.CodeInvalid)
		p.sessions("alice")
	}
	top := p.login(fe1, long(klink.MaxUserLen), long(klink.MaxDeviceLen))
	p.admit(top)
	p.sessions(top.User, top)
	_, err := p.RegisterFE(p.Context(), crux.FE{ID: "", Lease: p.h.Lease})
	p.code(err, klink.CodeInvalid)
}

func long(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	return string(b)
}
