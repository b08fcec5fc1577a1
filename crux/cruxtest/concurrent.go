package cruxtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

var concurrentTests = []test{
	{"concurrent logins keep the books", books},
	{"concurrent changes of tags are all there", concurrentTags},
}

const (
	bookWorkers = 6
	bookRounds  = 300
	bookUsers   = 4
	bookDevices = 3
)

// page is what one worker knows for sure: each session by its handle, and each version that a change got.
type page struct {
	admitted, gone map[klink.Handle]string // user
	versions       []userVersion
}

type userVersion struct {
	user    string
	version klink.Version
}

// books lets workers log in and out at random. At the end each session that was admitted is either replaced or removed,
// once, or it is there; each change of a user has a version of its own; and nobody ever saw two sessions of one device.
func books(p *play) {
	fes := []klink.Incarnation{p.begin("fe1"), p.begin("fe2"), p.begin("fe3")}
	pages := make([]page, bookWorkers)
	var wg sync.WaitGroup
	for w := range pages {
		pages[w] = page{admitted: make(map[klink.Handle]string), gone: make(map[klink.Handle]string)}
		wg.Go(func() { p.keepBooks(&pages[w], fes, rand.New(rand.NewPCG(1, uint64(w)))) })
	}
	wg.Wait()
	if p.Failed() {
		return
	}
	open := make(map[klink.Handle]string)
	versions := make(map[userVersion]bool)
	top := make(map[string]klink.Version)
	for i := range pages {
		maps.Copy(open, pages[i].admitted)
		for _, v := range pages[i].versions {
			if versions[v] {
				p.Errorf("version %d of %s was given twice", v.version, v.user)
			}
			versions[v] = true
			top[v.user] = max(top[v.user], v.version)
		}
	}
	for i := range pages {
		for h, user := range pages[i].gone {
			if open[h] != user {
				p.Errorf("session %v of %s ended twice or never began", h, user)
			}
			delete(open, h)
		}
	}
	total := 0
	for u := range bookUsers {
		user := fmt.Sprint("user ", u)
		got := p.lookup(user)
		total += len(got.Sessions)
		for _, s := range got.Sessions {
			if open[s.Handle] != user {
				p.Errorf("%s has session %v, which ended", user, s.Handle)
			}
			delete(open, s.Handle)
		}
		if got.Version != top[user] {
			p.Errorf("%s: version %d, the highest that a change got is %d", user, got.Version, top[user])
		}
	}
	if len(open) != 0 {
		p.Errorf("%d sessions are lost: %v", len(open), open)
	}
	if st, err := p.Stats(p.Context()); err != nil || st.Sessions != total || st.FEs != len(fes) {
		p.Errorf("stats: got %+v, %v, want %d sessions", st, err, total)
	}
}

func (p *play) keepBooks(pg *page, fes []klink.Incarnation, rnd *rand.Rand) {
	var mine []crux.Registration
	seen := make(map[string]klink.Version)
	for range bookRounds {
		user, device := fmt.Sprint("user ", rnd.IntN(bookUsers)), fmt.Sprint("device ", rnd.IntN(bookDevices))
		switch rnd.IntN(4) {
		case 0, 1:
			winner := crux.Winner(rnd.IntN(2))
			r := p.login(fes[rnd.IntN(len(fes))], user, device, attempt(rnd.Uint64N(4)), policy(crux.PolicyAllowAll, winner, 1+rnd.IntN(bookDevices)))
			out, err := p.Register(p.Context(), []crux.Registration{r})
			if err != nil {
				p.Errorf("register: %v", err)
				return
			}
			if out[0].Verdict == crux.Admitted {
				mine = append(mine, r)
				pg.admitted[r.Handle] = user
				pg.versions = append(pg.versions, userVersion{user, out[0].Version})
			}
			for _, old := range out[0].Replaced {
				pg.gone[old.Handle] = user
			}
		case 2:
			if len(mine) == 0 {
				continue
			}
			r := mine[rnd.IntN(len(mine))]
			out, err := p.Unregister(p.Context(), []crux.Unregistration{logout(r)})
			if err != nil {
				p.Errorf("unregister: %v", err)
				return
			}
			if out[0].Removed {
				pg.gone[r.Handle] = r.User
				pg.versions = append(pg.versions, userVersion{r.User, out[0].Version})
			}
		case 3:
			out, err := p.Lookup(p.Context(), app, []string{user})
			if err != nil {
				p.Errorf("lookup: %v", err)
				return
			}
			p.checkUser(&out[0], seen[user])
			seen[user] = out[0].Version
		}
	}
}

func (p *play) checkUser(u *crux.User, last klink.Version) {
	if u.Version < last {
		p.Errorf("%s: version went from %d back to %d", u.User, last, u.Version)
	}
	devices := make(map[string]bool)
	for _, s := range u.Sessions {
		if devices[s.Device] || s.Version > u.Version {
			p.Errorf("%s: got %+v", u.User, u)
		}
		devices[s.Device] = true
	}
	if len(devices) > bookDevices {
		p.Errorf("%s has %d sessions", u.User, len(devices))
	}
}

// concurrentTags has each worker add tags of its own and take half of them back, with logins in between.
func concurrentTags(p *play) {
	fe1 := p.begin("fe1")
	const workers, each = 4, 20
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				tag := fmt.Sprintf("%d:%02d", w, i)
				if _, err := p.ChangeTags(p.Context(), app, "alice", []string{tag}, nil); err != nil {
					p.Errorf("add: %v", err)
				}
				if out, err := p.Register(p.Context(), []crux.Registration{p.login(fe1, "alice", fmt.Sprint("device ", w))}); err != nil || out[0].Verdict != crux.Admitted {
					p.Errorf("register: %+v, %v", out, err)
				}
				if i%2 == 0 {
					continue
				}
				if _, err := p.ChangeTags(p.Context(), app, "alice", nil, []string{tag}); err != nil {
					p.Errorf("remove: %v", err)
				}
			}
		})
	}
	wg.Wait()
	var want []string
	for w := range workers {
		for i := 0; i < each; i += 2 {
			want = append(want, fmt.Sprintf("%d:%02d", w, i))
		}
	}
	p.equal("tags", p.lookup("alice").Tags, want)
	if u := p.lookup("alice"); len(u.Sessions) != workers {
		p.Errorf("got %d sessions, want %d", len(u.Sessions), workers)
	}
}
