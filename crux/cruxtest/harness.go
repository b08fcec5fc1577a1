package cruxtest

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

// Harness is how the suite gets at an engine. Each test opens its own store, which is empty.
type Harness struct {
	// Run runs the body of a test, inside a bubble if the engine wants that. Nil: in the calling goroutine.
	Run func(t *testing.T, body func(t *testing.T))

	// Open opens an empty store. It is called inside Run and arranges for the store's Close.
	Open func(t *testing.T) crux.Store

	// Reopen closes the store and opens what it left. Nil: nothing survives.
	Reopen func(t *testing.T, old crux.Store) crux.Store

	// Advance lets at least d pass on the store's clock.
	Advance func(d time.Duration)

	// Lease is the lease that the tests use: long enough that one is not lost between two calls.
	Lease time.Duration
}

// TestStore runs the suite; open is called once for each of its tests.
func TestStore(t *testing.T, open func(t *testing.T) Harness) {
	for _, group := range [][]test{leaseTests, loginTests, policyTests, versionTests, tagTests, revokeTests, lookupTests, concurrentTests} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				h := open(t)
				if h.Run == nil {
					h.Run = func(t *testing.T, body func(t *testing.T)) { body(t) }
				}
				h.Run(t, func(t *testing.T) { c.body(&play{T: t, h: h, Store: h.Open(t)}) })
			})
		}
	}
}

type test struct {
	name string
	body func(p *play)
}

// play is one test under way, with short words for what it does. Each fails the test on an error that is not asked for.
type play struct {
	*testing.T
	crux.Store
	h     Harness
	slots atomic.Uint32
}

// app is the app of tests that need only one.
const app = "shop"

func (p *play) begin(fe string) klink.Incarnation {
	p.Helper()
	inc, err := p.RegisterFE(p.Context(), crux.FE{ID: fe, Endpoints: []string{"tls://127.0.0.1:7443"}, Lease: p.h.Lease})
	if err != nil {
		p.Fatalf("register FE %s: %v", fe, err)
	}
	if inc.FE != fe || inc.Num == 0 {
		p.Fatalf("register FE %s: got %+v", fe, inc)
	}
	return inc
}

func (p *play) renew(inc klink.Incarnation) crux.Renewal {
	p.Helper()
	r, err := p.RenewFE(p.Context(), inc)
	if err != nil {
		p.Fatalf("renew %+v: %v", inc, err)
	}
	return r
}

// pass lets d pass while the FEs named renew their leases.
func (p *play) pass(d time.Duration, alive ...klink.Incarnation) {
	p.Helper()
	step := p.h.Lease / 4
	for ; d > 0; d -= step {
		p.h.Advance(min(d, step))
		for _, inc := range alive {
			p.renew(inc)
		}
	}
}

func (p *play) handle() klink.Handle { return klink.MakeHandle(3, p.slots.Add(1), 7) }

// login is a registration with a new handle; each change is made to it before it is sent.
func (p *play) login(inc klink.Incarnation, user, device string, change ...func(*crux.Registration)) crux.Registration {
	r := crux.Registration{
		App: app, User: user, Device: device, Incarnation: inc, Handle: p.handle(), Transport: klink.TransportTLS,
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func attempt(n uint64) func(*crux.Registration) { return func(r *crux.Registration) { r.Attempt = n } }

func loginAt(ms int64) func(*crux.Registration) { return func(r *crux.Registration) { r.LoginMs = ms } }

func policy(pol crux.Policy, w crux.Winner, devices int) func(*crux.Registration) {
	return func(r *crux.Registration) { r.Policy, r.Winner, r.MaxDevices = pol, w, devices }
}

func (p *play) register(r crux.Registration) crux.Registered {
	p.Helper()
	out, err := p.Register(p.Context(), []crux.Registration{r})
	if err != nil {
		p.Fatalf("register %s/%s: %v", r.User, r.Device, err)
	}
	if len(out) != 1 {
		p.Fatalf("register %s/%s: got %d answers, want 1", r.User, r.Device, len(out))
	}
	return out[0]
}

// admit registers r and wants it to be admitted.
func (p *play) admit(r crux.Registration) crux.Registered {
	p.Helper()
	out := p.register(r)
	p.verdict(out, crux.Admitted)
	if out.Version == 0 || out.Version >= 1<<53 || out.LoginMs == 0 {
		p.Fatalf("register %s/%s: version %d, login %d", r.User, r.Device, out.Version, out.LoginMs)
	}
	return out
}

func (p *play) verdict(out crux.Registered, want crux.Verdict) {
	p.Helper()
	if out.Verdict != want {
		p.Fatalf("verdict: got %d, want %d", out.Verdict, want)
	}
	if want != crux.Admitted && len(out.Replaced) > 0 {
		p.Fatalf("a refused registration replaced %+v", out.Replaced)
	}
}

func logout(r crux.Registration) crux.Unregistration {
	return crux.Unregistration{App: r.App, User: r.User, Device: r.Device, Incarnation: r.Incarnation, Handle: r.Handle}
}

func (p *play) unregister(u crux.Unregistration) crux.Unregistered {
	p.Helper()
	out, err := p.Unregister(p.Context(), []crux.Unregistration{u})
	if err != nil || len(out) != 1 {
		p.Fatalf("unregister %s/%s: %+v, %v", u.User, u.Device, out, err)
	}
	return out[0]
}

func (p *play) lookup(user string) crux.User {
	p.Helper()
	return p.lookupIn(app, user)
}

func (p *play) lookupIn(app, user string) crux.User {
	p.Helper()
	out, err := p.Lookup(p.Context(), app, []string{user})
	if err != nil || len(out) != 1 || out[0].User != user {
		p.Fatalf("look up %s: %+v, %v", user, out, err)
	}
	return out[0]
}

// sessions wants the user to have exactly these sessions.
func (p *play) sessions(user string, want ...crux.Registration) {
	p.Helper()
	u := p.lookup(user)
	if len(u.Sessions) != len(want) || u.Online() != (len(want) > 0) {
		p.Fatalf("%s: got sessions %+v, want %d", user, u.Sessions, len(want))
	}
	for _, w := range want {
		if !slices.ContainsFunc(u.Sessions, func(s crux.Session) bool {
			return s.Device == w.Device && s.Incarnation == w.Incarnation && s.Handle == w.Handle && s.Transport == w.Transport
		}) {
			p.Fatalf("%s: got sessions %+v, want also %+v", user, u.Sessions, w)
		}
	}
}

func (p *play) tags(user string, add, remove []string) crux.UserTags {
	p.Helper()
	ut, err := p.ChangeTags(p.Context(), app, user, add, remove)
	if err != nil {
		p.Fatalf("change tags of %s: %v", user, err)
	}
	return ut
}

func (p *play) equal(what string, got, want []string) {
	p.Helper()
	if !slices.Equal(got, want) {
		p.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

// code wants err to be a klink.Error with that code.
func (p *play) code(err error, want klink.Code) {
	p.Helper()
	if ke, ok := errors.AsType[*klink.Error](err); !ok || ke.Code != want {
		p.Fatalf("got error %v, want code %s", err, want)
	}
}

func (p *play) is(err, want error) {
	p.Helper()
	if !errors.Is(err, want) {
		p.Fatalf("got error %v, want %v", err, want)
	}
}
