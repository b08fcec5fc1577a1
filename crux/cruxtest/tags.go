package cruxtest

import (
	"fmt"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

var tagTests = []test{
	{"tags of back ends", changeTags},
	{"tags survive reconnects and offline times", tagsSurvive},
	{"too many tags change nothing", tagLimit},
	{"impossible tags change nothing", tagInvalid},
	{"a deleted user is unknown", deleteUser},
	{"tags and revocations survive a restart", restart},
}

func changeTags(p *play) {
	fe1 := p.begin("fe1")
	a := p.login(fe1, "alice", "phone")
	in := p.admit(a)
	for i, c := range []struct{ add, remove, tags, added, removed []string }{
		{add: []string{"b", "a", "b"}, tags: []string{"a", "b"}, added: []string{"a", "b"}},
		{add: []string{"a"}, tags: []string{"a", "b"}},
		{add: []string{"c"}, remove: []string{"a", "x"}, tags: []string{"b", "c"}, added: []string{"c"}, removed: []string{"a"}},
		{add: []string{"b", "d"}, remove: []string{"b", "d"}, tags: []string{"c"}, removed: []string{"b"}}, // removing wins
		{tags: []string{"c"}},
		{remove: []string{"c"}, removed: []string{"c"}},
		{remove: []string{"c"}},
	} {
		before := p.lookup("alice").Version
		ut := p.tags("alice", c.add, c.remove)
		p.equal(fmt.Sprint(i, " tags"), ut.Tags, c.tags)
		p.equal(fmt.Sprint(i, " added"), ut.Added, c.added)
		p.equal(fmt.Sprint(i, " removed"), ut.Removed, c.removed)
		u := p.lookup("alice")
		p.equal(fmt.Sprint(i, " lookup"), u.Tags, c.tags)
		if changed := len(c.added)+len(c.removed) > 0; (ut.Version > before) != changed || u.Version != ut.Version {
			p.Fatalf("%d: version %d after %d, lookup says %d", i, ut.Version, before, u.Version)
		}
		if len(ut.Sessions) != 1 || ut.Sessions[0].Handle != a.Handle || ut.Sessions[0].Incarnation != fe1 || ut.Sessions[0].Version != in.Version {
			p.Fatalf("%d: got sessions %+v", i, ut.Sessions)
		}
	}
}

func tagsSurvive(p *play) {
	fe1 := p.begin("fe1")
	set := p.tags("alice", []string{"vip", "berlin"}, nil) // before the first login
	if len(set.Sessions) != 0 {
		p.Errorf("sessions of an offline user: %+v", set.Sessions)
	}
	want := []string{"berlin", "vip"}
	a := p.login(fe1, "alice", "phone")
	out := p.admit(a)
	p.equal("at login", out.Tags, want)
	if out.Version <= set.Version {
		p.Errorf("login: got version %d, want above %d", out.Version, set.Version)
	}
	p.equal("second device", p.admit(p.login(fe1, "alice", "pad")).Tags, want)
	p.equal("again", p.admit(a).Tags, want)
	p.pass(2 * p.h.Lease)
	p.sessions("alice")
	p.equal("after the lease", p.lookup("alice").Tags, want)
	p.equal("next login", p.admit(p.login(p.begin("fe1"), "alice", "phone")).Tags, want)
	p.equal("other user", p.admit(p.login(p.begin("fe1"), "bob", "phone")).Tags, nil)
}

func tagLimit(p *play) {
	fe1 := p.begin("fe1")
	p.admit(p.login(fe1, "alice", "phone"))
	var tags []string
	for i := range crux.MaxUserTags {
		tags = append(tags, fmt.Sprintf("%s%03d", long(klink.MaxTagLen-3), i))
	}
	full := p.tags("alice", tags, nil)
	p.equal("full", full.Tags, tags)
	_, err := p.ChangeTags(p.Context(), app, "alice", []string{"one more"}, []string{"not there"})
	p.code(err, klink.CodeLimit)
	u := p.lookup("alice")
	p.equal("after the refusal", u.Tags, tags)
	if u.Version != full.Version || !u.Online() {
		p.Errorf("a refused change left %+v", u)
	}
	// What comes and what goes are counted together.
	swapped := p.tags("alice", []string{"one more"}, tags[:1])
	p.equal("swapped", swapped.Tags, append(tags[1:len(tags):len(tags)], "one more"))
	_, err = p.ChangeTags(p.Context(), app, "bob", append(tags[:len(tags):len(tags)], "x"), nil)
	p.code(err, klink.CodeLimit)
	if u := p.lookup("bob"); u.Version != 0 || len(u.Tags) != 0 {
		p.Errorf("a refused change made a user: %+v", u)
	}
}

func tagInvalid(p *play) {
	p.tags("alice", []string{"vip"}, nil)
	for _, bad := range []string{"", "a\tb", "\xff", long(klink.MaxTagLen + 1)} {
		_, err := p.ChangeTags(p.Context(), app, "alice", []string{"ok", bad}, nil)
		p.code(err, klink.CodeInvalid)
		_, err = p.ChangeTags(p.Context(), app, "alice", []string{"ok"}, []string{bad})
		p.code(err, klink.CodeInvalid)
	}
	_, err := p.ChangeTags(p.Context(), app, "", []string{"ok"}, nil)
	p.code(err, klink.CodeInvalid)
	_, err = p.ChangeTags(p.Context(), "", "alice", []string{"ok"}, nil)
	p.code(err, klink.CodeInvalid)
	p.equal("after refusals", p.lookup("alice").Tags, []string{"vip"})
}

func deleteUser(p *play) {
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	a, b := p.login(fe1, "alice", "phone"), p.login(fe2, "alice", "pad")
	p.admit(a)
	p.admit(b)
	p.tags("alice", []string{"vip"}, nil)
	issued := p.lookup("alice").Sessions[0].Since
	p.revoke("alice", "", issued.Add(1))
	was := p.lookup("alice")
	u, err := p.DeleteUser(p.Context(), app, "alice")
	if err != nil || u.User != "alice" || len(u.Sessions) != 2 || u.Version <= was.Version {
		p.Fatalf("delete: got %+v, %v", u, err)
	}
	p.equal("deleted tags", u.Tags, []string{"vip"})
	for _, s := range u.Sessions {
		if s.Handle != a.Handle && s.Handle != b.Handle || s.Incarnation != fe1 && s.Incarnation != fe2 {
			p.Errorf("delete: got session %+v", s)
		}
	}
	gone := p.lookup("alice")
	if gone.Online() || len(gone.Tags) != 0 || !gone.LastSeen.IsZero() {
		p.Errorf("after delete: got %+v", gone)
	}
	p.closes(fe1, crux.CloseItem{Handle: a.Handle, Reason: klink.DisconnectDeleted})
	p.closes(fe2, crux.CloseItem{Handle: b.Handle, Reason: klink.DisconnectDeleted})
	if out := p.unregister(logout(a)); out.Removed {
		p.Errorf("logout of a deleted session: got %+v", out)
	}
	p.closes(fe1)
	p.revoked("alice", "phone", issued, true) // revocations stay
	out := p.admit(p.login(fe1, "alice", "phone"))
	if len(out.Tags) != 0 || out.Version <= u.Version {
		p.Errorf("login after delete: got %+v, want no tags and a version above %d", out, u.Version)
	}
	none, err := p.DeleteUser(p.Context(), app, "nobody")
	if err != nil || none.User != "nobody" || none.Online() || none.Version != 0 {
		p.Errorf("delete of an unknown user: got %+v, %v", none, err)
	}
}

func restart(p *play) {
	if p.h.Reopen == nil {
		return // nothing to survive in, and the engine says so
	}
	fe1 := p.begin("fe1")
	a := p.login(fe1, "alice", "phone")
	in := p.admit(a)
	p.tags("alice", []string{"vip", "berlin", "gone"}, nil)
	p.tags("alice", nil, []string{"gone"})
	p.tags("bob", []string{"x"}, nil)
	p.tags("bob", nil, []string{"x"})
	p.tags("carol", []string{"y"}, nil)
	if _, err := p.DeleteUser(p.Context(), app, "carol"); err != nil {
		p.Fatal(err)
	}
	issued := p.lookup("alice").Sessions[0].Since
	p.revoke("alice", "", issued)
	p.revoke("alice", "phone", issued.Add(p.h.Lease))
	out := p.unregister(logout(a))

	p.Store = p.h.Reopen(p.T, p.Store)
	p.equal("alice", p.lookup("alice").Tags, []string{"berlin", "vip"})
	p.equal("bob", p.lookup("bob").Tags, nil)
	p.equal("carol", p.lookup("carol").Tags, nil)
	p.revoked("alice", "pad", issued.Add(-1), true)
	p.revoked("alice", "pad", issued, false)
	p.revoked("alice", "phone", issued, true)
	p.revoked("alice", "phone", issued.Add(p.h.Lease), false)
	if v := p.lookup("alice").Version; v < out.Version {
		p.Errorf("version after the restart: got %d, want at least %d", v, out.Version)
	}
	again := p.begin("fe1")
	if again.Num <= fe1.Num {
		p.Errorf("incarnation after the restart: got %d, want above %d", again.Num, fe1.Num)
	}
	if re := p.admit(p.login(again, "alice", "phone")); re.Version <= out.Version || re.Version <= in.Version {
		p.Errorf("login after the restart: got version %d, want above %d", re.Version, out.Version)
	}
}
