package cruxtest

import (
	"fmt"
	"sync"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

var versionTests = []test{
	{"every change raises the version, reading does not", everyChange},
	{"the floor of an FE is obeyed", floor},
	{"versions grow over fast reconnects by two FEs", fastReconnects},
	{"versions grow over concurrent reconnects by two FEs", concurrentReconnects},
}

func everyChange(p *play) {
	fe1, fe2 := p.begin("fe1"), p.begin("fe2")
	last := klink.Version(0)
	grown := func(what string, v klink.Version) {
		p.Helper()
		if v <= last || v >= 1<<53 {
			p.Fatalf("%s: got version %d, want above %d and below 2^53", what, v, last)
		}
		last = v
		if u := p.lookup("alice"); u.Version != v {
			p.Fatalf("%s: lookup says %d, want %d", what, u.Version, v)
		}
	}
	a := p.login(fe1, "alice", "phone")
	grown("login", p.admit(a).Version)
	grown("tags", p.tags("alice", []string{"vip"}, nil).Version)
	b := p.login(fe2, "alice", "pad")
	grown("second login", p.admit(b).Version)
	c := p.login(fe2, "alice", "phone")
	grown("replaced", p.admit(c).Version)
	if v := p.tags("alice", []string{"vip"}, nil).Version; v != last {
		p.Errorf("tags that change nothing: got version %d, want %d", v, last)
	}
	grown("logout", p.unregister(logout(b)).Version)
	grown("last logout", p.unregister(logout(c)).Version)
	u, err := p.DeleteUser(p.Context(), app, "alice")
	if err != nil || u.Version <= last {
		p.Errorf("delete: got %+v, %v, want a version above %d", u, err, last)
	}
	last = max(last, u.Version)
	grown("login after delete", p.admit(p.login(fe1, "alice", "phone")).Version)
}

func floor(p *play) {
	fe1 := p.begin("fe1")
	a := p.login(fe1, "alice", "phone")
	first := p.admit(a)
	b := p.login(fe1, "alice", "phone")
	b.Floor = first.Version + 1<<30
	second := p.admit(b)
	if second.Version < b.Floor {
		p.Errorf("got version %d, want at least the floor %d", second.Version, b.Floor)
	}
	if out := p.unregister(logout(b)); out.Version <= second.Version {
		p.Errorf("logout: got version %d, want above %d", out.Version, second.Version)
	}
	c := p.login(fe1, "alice", "phone")
	c.Floor = 1
	if out := p.admit(c); out.Version <= second.Version {
		p.Errorf("low floor: got version %d, want above %d", out.Version, second.Version)
	}
	d := p.login(fe1, "bob", "phone")
	d.Floor = 1 << 52
	if out := p.admit(d); out.Version < 1<<52 || out.Version >= 1<<53 {
		p.Errorf("highest floor: got version %d", out.Version)
	}
}

func fastReconnects(p *play) {
	fes := []klink.Incarnation{p.begin("fe1"), p.begin("fe2")}
	last := klink.Version(0)
	var old crux.Registration
	for i := range 1000 {
		r := p.login(fes[i%2], "alice", "phone", attempt(uint64(i+1)))
		out := p.admit(r)
		if out.Version <= last {
			p.Fatalf("reconnect %d: got version %d, want above %d", i, out.Version, last)
		}
		last = out.Version
		if i%3 == 0 && i > 0 { // late, or nothing to do
			p.unregister(logout(old))
		}
		if i%7 == 0 {
			gone := p.unregister(logout(r))
			if !gone.Removed || gone.Version <= last {
				p.Fatalf("logout %d: got %+v, want above %d", i, gone, last)
			}
			last = gone.Version
		}
		old = r
	}
}

// concurrentReconnects lets two FEs fight for one device: each change has a version of its own, and the answers of one FE rise.
func concurrentReconnects(p *play) {
	const rounds = 1000
	var wg sync.WaitGroup
	seen := make([][]klink.Version, 2)
	for f := range seen {
		inc := p.begin(fmt.Sprint("fe", f))
		wg.Go(func() {
			for range rounds {
				out, err := p.Register(p.Context(), []crux.Registration{p.login(inc, "alice", "phone")})
				if err != nil || out[0].Verdict != crux.Admitted {
					p.Errorf("register: %+v, %v", out, err)
					return
				}
				seen[f] = append(seen[f], out[0].Version)
			}
		})
	}
	wg.Wait()
	all := make(map[klink.Version]bool)
	top := klink.Version(0)
	for f, vs := range seen {
		for i, v := range vs {
			if i > 0 && v <= vs[i-1] {
				p.Fatalf("FE %d: version %d after %d", f, v, vs[i-1])
			}
			if all[v] {
				p.Fatalf("version %d was given twice", v)
			}
			all[v] = true
			top = max(top, v)
		}
	}
	if u := p.lookup("alice"); len(all) != 2*rounds || u.Version != top || len(u.Sessions) != 1 || u.Sessions[0].Version != top {
		p.Fatalf("%d versions, the highest %d; user is %+v", len(all), top, u)
	}
}
