package fe

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/fe/netloop"
	"github.com/klinkio/klink/proto/frame"
)

// hookStore is a user state that can be away, and that a test can look into while it is called.
type hookStore struct {
	*crux.Embedded
	blocks bool        // has to be waited for
	down   atomic.Bool // answers nothing but ErrUnavailable

	onRenew      func()
	onRegister   func(regs []crux.Registration) error // before it takes effect
	onUnregister func(outs []crux.Unregistration)     // after it has taken effect
}

func (s *hookStore) NonBlocking() bool { return !s.blocks }

func (s *hookStore) away() error {
	if s.down.Load() {
		return fmt.Errorf("test: %w", crux.ErrUnavailable)
	}
	return nil
}

func (s *hookStore) RenewFE(ctx context.Context, inc klink.Incarnation) (crux.Renewal, error) {
	if s.onRenew != nil {
		s.onRenew()
	}
	if err := s.away(); err != nil {
		return crux.Renewal{}, err
	}
	return s.Embedded.RenewFE(ctx, inc)
}

func (s *hookStore) Register(ctx context.Context, regs []crux.Registration) ([]crux.Registered, error) {
	if s.onRegister != nil {
		if err := s.onRegister(regs); err != nil {
			return nil, err
		}
	}
	if err := s.away(); err != nil {
		return nil, err
	}
	return s.Embedded.Register(ctx, regs)
}

func (s *hookStore) Unregister(ctx context.Context, outs []crux.Unregistration) ([]crux.Unregistered, error) {
	if err := s.away(); err != nil {
		return nil, err
	}
	res, err := s.Embedded.Unregister(ctx, outs)
	if s.onUnregister != nil {
		s.onUnregister(outs)
	}
	return res, err
}

// startHooked starts a node of one loop, with a short lease, on a store with hooks.
func startHooked(t *testing.T, s *hookStore, change func(*Config)) *node {
	t.Helper()
	return startNode(t, func(c *Config) {
		s.Embedded = c.Store.(*crux.Embedded)
		c.Store, c.Lease, c.Net.Loops = s, time.Second, 1
		c.Apps["soft"] = App{Degraded: true}
		if change != nil {
			change(c)
		}
	})
}

func TestLoginStormIsBatched(t *testing.T) {
	const devices = 300
	first, release := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	s := &hookStore{blocks: true}
	s.onRegister = func([]crux.Registration) error {
		if calls.Add(1) == 1 {
			close(first)
			<-release
		}
		return nil
	}
	n := startHooked(t, s, nil)
	var all []*device
	open := func(i int) {
		d := dial(t, n.addr)
		d.connect(token(t, auth.Claims{User: fmt.Sprint("u", i), Subscribe: []string{"*"}}), "d", "t")
		all = append(all, d)
	}
	open(0)
	<-first
	for i := range devices - 1 {
		open(i + 1)
	}
	for queued := 0; queued < devices-1; { // all have said who they are
		n.batch.mu.Lock()
		queued = len(n.batch.logins)
		n.batch.mu.Unlock()
		runtime.Gosched()
	}
	close(release)
	for _, d := range all {
		d.want(frame.ServerConnected)
	}
	if c := calls.Load(); c != 2 {
		t.Errorf("%d logins took %d calls, want 2", devices, c)
	}
	if r := n.push(t, klink.Target{Tags: []string{"t"}}, "x", nil); r.Enqueued != devices {
		t.Errorf("reached %d", r.Enqueued)
	}
}

// A device that went away while its login waited must leave nothing in the user state, nor a replaced session of its own open.
func TestGoneDuringItsLogin(t *testing.T) {
	entered, release, out := make(chan struct{}), make(chan struct{}), make(chan crux.Unregistration, 4)
	var calls atomic.Int32
	s := &hookStore{blocks: true, onUnregister: func(outs []crux.Unregistration) {
		for _, u := range outs {
			out <- u
		}
	}}
	s.onRegister = func([]crux.Registration) error {
		if calls.Add(1) == 2 {
			close(entered)
			<-release
		}
		return nil
	}
	n := startHooked(t, s, nil)
	old := enter(t, n, "alice", "t")
	d := dial(t, n.addr)
	d.connect(token(t, auth.Claims{User: "alice"}), "alice-phone")
	<-entered
	d.c.Close()
	for n.NetStats().Conns > 1 { // the loop has seen it
		runtime.Gosched()
	}
	close(release)
	for range 2 { // the login that came to nothing, and the session that it has replaced
		if u := <-out; u.User != "alice" {
			t.Errorf("logged out %+v", u)
		}
	}
	if f := old.want(frame.ServerDisconnect).Disconnect; klink.Disconnect(f.Code) != klink.DisconnectReplaced {
		t.Errorf("the old session was told %+v", f)
	}
	if st, err := n.store.Stats(t.Context()); err != nil || st.Sessions != 0 {
		t.Errorf("%d sessions are left, %v", st.Sessions, err)
	}
}

func TestUserStateIsAway(t *testing.T) {
	out := make(chan crux.Unregistration, 16)
	s := &hookStore{blocks: true, onUnregister: func(outs []crux.Unregistration) {
		for _, u := range outs {
			out <- u
		}
	}}
	n := startHooked(t, s, func(c *Config) { c.Lease = time.Minute })
	live := enter(t, n, "alice", "t")
	s.down.Store(true)

	strict := dial(t, n.addr)
	strict.connect(token(t, auth.Claims{User: "bob"}), "d")
	if f := strict.want(frame.ServerDisconnect).Disconnect; klink.Disconnect(f.Code) != klink.DisconnectUnavailable || !f.Retry {
		t.Errorf("an app that wants the user state: %+v", f)
	}
	soft := dial(t, n.addr)
	soft.connect(token(t, auth.Claims{App: "soft", User: "carol", Subscribe: []string{"*"}}), "d", "t")
	if c := soft.want(frame.ServerConnected).Connected; !c.Degraded {
		t.Errorf("Connected says %+v", c)
	}
	revoked := dial(t, n.addr) // admitted without the check of revocation, which comes with the registration
	revoked.connect(token(t, auth.Claims{App: "soft", User: "dave", Issued: time.Now().Add(-time.Minute)}), "d")
	revoked.want(frame.ServerConnected)
	if err := n.store.Revoke(t.Context(), "soft", "dave", "", time.Now()); err != nil {
		t.Fatal(err)
	}
	if r := n.push(t, klink.Target{Tags: []string{"t"}}, "still here", nil); r.Enqueued != 1 {
		t.Errorf("a push meanwhile: %+v", r)
	}
	live.want(frame.ServerPush)

	live.c.Close() // its logout is repeated until it is recorded
	if _, err := n.store.ChangeTags(t.Context(), "soft", "carol", []string{"vip"}, nil); err != nil {
		t.Fatal(err)
	}
	for n.Sessions().Sessions() > 2 {
		runtime.Gosched()
	}
	s.down.Store(false)
	seen := map[string]bool{}
	for range 2 { // alice's, and that of bob's login, about whose effect nothing was known
		seen[(<-out).User] = true
	}
	if !seen["alice"] || !seen["bob"] {
		t.Errorf("logged out: %v", seen)
	}
	n.fenced() // do not wait for the next renewal
	if m := soft.want(frame.ServerTagsChanged).TagsChanged; len(m.Added) != 1 || m.Added[0] != "vip" {
		t.Errorf("told %+v", m)
	}
	if f := revoked.want(frame.ServerDisconnect).Disconnect; klink.Disconnect(f.Code) != klink.DisconnectRevoked {
		t.Errorf("a revoked token: %+v", f)
	}
	users, err := n.store.Lookup(t.Context(), "soft", []string{"carol"})
	if err != nil || !users[0].Online() {
		t.Errorf("the degraded session is not registered: %+v %v", users, err)
	}
}

// A lease that was lost ends no session: they are registered again with what they had, at once or after the store's failures. One whose device is
// elsewhere by now is ended.
func TestLostLease(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		t.Run(fmt.Sprint("blocking ", blocks), func(t *testing.T) {
			gate := make(chan struct{})
			var once sync.Once
			var failed atomic.Bool
			s := &hookStore{blocks: blocks, onRenew: func() { <-gate }}
			attempts := make(chan uint64, 64)
			s.onRegister = func(regs []crux.Registration) error {
				for _, r := range regs {
					if r.LoginMs != 0 {
						attempts <- r.Attempt
					}
				}
				if regs[0].LoginMs != 0 && !failed.Swap(true) {
					return fmt.Errorf("test: %w", crux.ErrUnavailable)
				}
				return nil
			}
			n := startHooked(t, s, nil)
			defer once.Do(func() { close(gate) })
			login := func(user string, attempt uint64) *device {
				d := dial(t, n.addr)
				tok := token(t, auth.Claims{User: user, Subscribe: []string{"*"}, Issued: time.Now().Add(-time.Minute)})
				d.send(frame.AppendConnect(nil, &frame.Connect{Token: []byte(tok), Device: []byte("d"), Attempt: attempt, Tags: [][]byte{[]byte("t")}}))
				d.want(frame.ServerConnected)
				return d
			}
			alice, bob := login("alice", 5), login("bob", 9)

			ctx := t.Context()
			if _, err := n.store.RegisterFE(ctx, crux.FE{ID: "fe-1"}); err != nil { // as if it had been dead
				t.Fatal(err)
			}
			other, err := n.store.RegisterFE(ctx, crux.FE{ID: "fe-2", Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			moved := crux.Registration{App: klink.DefaultApp, User: "alice", Device: "d", Incarnation: other, Handle: 1, Transport: klink.TransportTCP, Attempt: 6}
			if res, err := n.store.Register(ctx, []crux.Registration{moved}); err != nil || res[0].Verdict != crux.Admitted {
				t.Fatal(res, err)
			}
			if err := n.store.Revoke(ctx, klink.DefaultApp, "bob", "", time.Now()); err != nil { // ends no session that goes on
				t.Fatal(err)
			}
			if _, err := n.store.ChangeTags(ctx, klink.DefaultApp, "bob", []string{"missed"}, nil); err != nil {
				t.Fatal(err)
			}
			late := dial(t, n.addr) // a login before it knows is refused, to be tried again
			late.connect(token(t, auth.Claims{User: "carol"}), "d")
			if f := late.want(frame.ServerDisconnect).Disconnect; klink.Disconnect(f.Code) != klink.DisconnectUnavailable || !f.Retry {
				t.Errorf("a login meanwhile: %+v", f)
			}
			once.Do(func() { close(gate) })

			if f := alice.want(frame.ServerDisconnect).Disconnect; klink.Disconnect(f.Code) != klink.DisconnectSuperseded {
				t.Errorf("the session whose device has moved was told %+v", f)
			}
			if m := bob.want(frame.ServerTagsChanged).TagsChanged; len(m.Added) != 1 || m.Added[0] != "missed" {
				t.Errorf("told %+v", m)
			}
			got := map[uint64]int{}
			for range 4 { // two sessions, twice: the first try failed
				got[<-attempts]++
			}
			if got[5] != 2 || got[9] != 2 {
				t.Errorf("attempts %v", got)
			}
			if r := n.push(t, klink.Target{Users: []string{"bob"}}, "x", nil); r.Enqueued != 1 {
				t.Errorf("a push to the user: %+v", r)
			}
			bob.want(frame.ServerPush)
			users, _ := n.store.Lookup(ctx, klink.DefaultApp, []string{"alice"})
			if len(users[0].Sessions) != 1 || users[0].Sessions[0].Incarnation != other {
				t.Errorf("alice is at %+v", users[0].Sessions)
			}
			if _, err := n.store.Unregister(ctx, []crux.Unregistration{{App: klink.DefaultApp, User: "alice", Device: "d", Incarnation: other, Handle: 1}}); err != nil {
				t.Error(err)
			}
			enter(t, n, "carol")
		})
	}
}

// A session that ends while it is registered again must not come back to life in the user state.
func TestEndsWhileRegisteredAgain(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	var outs atomic.Int32
	s := &hookStore{blocks: true, onUnregister: func([]crux.Unregistration) {
		switch outs.Add(1) {
		case 1:
			close(first)
		case 2:
			close(second)
		}
	}}
	var d *device
	s.onRegister = func(regs []crux.Registration) error {
		if regs[0].LoginMs != 0 {
			d.c.Close()
			<-first // its logout is recorded before it is registered
		}
		return nil
	}
	n := startHooked(t, s, nil)
	d = enter(t, n, "alice")
	if _, err := n.store.RegisterFE(t.Context(), crux.FE{ID: "fe-1"}); err != nil {
		t.Fatal(err)
	}
	<-second
	if st, err := n.store.Stats(t.Context()); err != nil || st.Sessions != 0 {
		t.Errorf("%d sessions, %v", st.Sessions, err)
	}
}

// More logouts than can be kept while the store is away are made good by a new life, not forgotten.
func TestForgottenLogoutsBeginANewLife(t *testing.T) {
	s := &hookStore{blocks: true}
	n := startHooked(t, s, nil)
	d := enter(t, n, "alice", "t")
	before := n.incarnation()
	n.batch.mu.Lock()
	n.batch.outs = make([]crux.Unregistration, maxLogouts)
	n.batch.retryAt = time.Now().Add(time.Hour)
	n.batch.mu.Unlock()
	n.batch.unregister(crux.Unregistration{User: "bob"})
	n.batch.mu.Lock()
	kept := len(n.batch.outs)
	n.batch.mu.Unlock()
	if kept != 0 {
		t.Fatalf("%d logouts are kept, bound %d", kept, maxLogouts)
	}
	n.fenced()
	for n.incarnation() == before {
		runtime.Gosched()
	}
	for users := []crux.User{{}}; !users[0].Online(); {
		var err error
		if users, err = n.store.Lookup(t.Context(), klink.DefaultApp, []string{"alice"}); err != nil {
			t.Fatal(err)
		}
	}
	d.send(nil)
	d.want(frame.ServerPong)
}

func TestStoppedNodeAnswers(t *testing.T) {
	n := startNode(t, nil)
	d := enter(t, n, "alice", "t")
	n.stop()
	for {
		if _, err := d.next(); err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			break
		}
	}
	for err := error(nil); err == nil; { // until the loops have ended pushes reach nobody, then they are refused
		var r klink.Report
		r, err = n.Deliver(t.Context(), klink.Delivery{Push: &klink.Push{ID: "p", App: klink.DefaultApp}, Tags: []string{"t"}})
		if r.Enqueued != 0 {
			t.Errorf("%+v", r)
		}
	}
	n.Drain(t.Context())
	if err := n.Ready(); err == nil {
		t.Error("ready after its end")
	}
}

func TestNodeWithoutUserStateDoesNotStart(t *testing.T) {
	store, err := crux.NewEmbedded(crux.EmbeddedConfig{})
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	key, _ := auth.NewSecretKey("k1", testSecret)
	v, err := auth.NewVerifier(auth.VerifierConfig{}, []*auth.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{ID: "fe-1", Store: store, Verifier: v, Apps: map[string]App{klink.DefaultApp: {}}}
	cfg.Net.Listeners = append(cfg.Net.Listeners, netloop.Listener{Addr: "127.0.0.1:0", Insecure: true})
	n, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	addr := n.Addrs()[0].String()
	if err := n.Run(t.Context()); err == nil {
		t.Fatal("it runs without user state")
	}
	cfg.Net.Listeners[0] = netloop.Listener{Addr: addr, Insecure: true} // the port is free again
	if n, err = Listen(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	n.Close()
}
