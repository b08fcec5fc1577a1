package api_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/svc/api"
	"github.com/klinkio/klink/svc/presence"
	"github.com/klinkio/klink/svc/push"
)

const app = "shop"

// session is a live session of the front.
type session struct {
	klink.SessionRef
	tags   []string
	result string // of every push: taken at once where empty
	since  time.Time
}

// front is a front end of one app that keeps what it was asked and answers like the real one.
type front struct {
	inc klink.Incarnation

	mu         sync.Mutex
	sessions   []*session
	deliveries []klink.Delivery
	ended      map[klink.Handle]klink.Disconnect
	late       []klink.Outcome
	err        error // of every question
	refuse     error // of pushes and changes of tags
	hold       bool
	held       []func()
}

func (f *front) ID() string { return "fe1" }

// answers says what becomes of pushes to the session.
func (f *front) answers(s *session, result string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.result = result
}

func (f *front) Start(d *klink.Delivery, done func(klink.Report)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	f.deliveries = append(f.deliveries, *d)
	rep := klink.Report{FEs: 1}
	for _, s := range f.sessions {
		named := slices.ContainsFunc(d.Sessions, func(r klink.SessionRef) bool { return r.Handle == s.Handle })
		tagged := slices.ContainsFunc(d.Tags, func(t string) bool { return slices.Contains(s.tags, t) })
		if !named && !tagged && !d.All {
			continue
		}
		rep.Matched++
		if s.result == "" || s.result == klink.OutcomeQueued {
			rep.Enqueued++
		}
		if s.result == "" {
			rep.SentTo = append(rep.SentTo, s.Handle)
			continue
		}
		if s.result == klink.OutcomeQueued {
			rep.Queued++
		}
		for why := range rep.Dropped {
			if klink.Drop(why).String() == s.result {
				rep.Dropped[why]++
			}
		}
		rep.AddOutcome(f.outcome(s, s.result))
	}
	if f.hold {
		f.held = append(f.held, func() { done(rep) })
		return nil
	}
	done(rep)
	return nil
}

func (f *front) outcome(s *session, result string) klink.Outcome {
	return klink.Outcome{FE: f.ID(), User: s.User, Device: s.Device, Session: klink.SessionID(s.Incarnation, s.Handle), Result: result, At: time.Now()}
}

func (f *front) release() {
	f.mu.Lock()
	held := f.held
	f.held, f.hold = nil, false
	f.mu.Unlock()
	for _, done := range held {
		done()
	}
}

func (f *front) take() []klink.Delivery {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.deliveries
	f.deliveries = nil
	return d
}

func (f *front) set(err, refuse error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.refuse = err, refuse
}

func (f *front) ChangeTags(_ context.Context, refs []klink.SessionRef, add, _ []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	for _, s := range f.sessions {
		for _, r := range refs {
			if r.Handle == s.Handle {
				s.tags = append(s.tags, add...)
			}
		}
	}
	return nil
}

func (f *front) Disconnect(refs []klink.SessionRef, code klink.Disconnect, _ string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range refs {
		f.ended[r.Handle] = code
	}
}

func (f *front) LateOutcomes(string) []klink.Outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.late)
}

func (f *front) SessionTags(_ context.Context, r klink.SessionRef) ([]string, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if s.Handle == r.Handle {
			return slices.Clone(s.tags), true, nil
		}
	}
	return nil, false, nil
}

func (f *front) members(tag string) (list []klink.Member) {
	for _, s := range f.sessions {
		if slices.Contains(s.tags, tag) {
			list = append(list, klink.Member{SessionRef: s.SessionRef, Transport: klink.TransportWSS, Since: s.since, Version: 7})
		}
	}
	return list
}

func (f *front) TagCount(_ context.Context, _, tag string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.members(tag)), f.err
}

func (f *front) Members(_ context.Context, _, tag string, cursor uint64, limit int) ([]klink.Member, uint64, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.members(tag)
	from := min(int(cursor), len(all))
	to := min(from+limit, len(all))
	return all[from:to], uint64(to), to == len(all), f.err
}

// deadFront is a front end that answers nothing.
type deadFront struct{ *front }

func (deadFront) ID() string { return "fe2" }

func (deadFront) Start(*klink.Delivery, func(klink.Report)) error {
	return klink.Errorf(klink.CodeOverloaded, "the mailbox of a loop is full")
}

func (deadFront) TagCount(context.Context, string, string) (int, error) {
	return 0, errors.New("link down")
}

// store is the real one, until err is set.
type store struct {
	crux.Store
	mu    sync.Mutex
	err   error
	stale bool
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *store) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *store) Lookup(ctx context.Context, app string, users []string) ([]crux.User, error) {
	if err := s.broken(); err != nil {
		return nil, err
	}
	list, err := s.Store.Lookup(ctx, app, users)
	for i := range list {
		list[i].Stale = s.stale
	}
	return list, err
}

func (s *store) ChangeTags(ctx context.Context, app, user string, add, remove []string) (crux.UserTags, error) {
	if err := s.broken(); err != nil {
		return crux.UserTags{}, err
	}
	return s.Store.ChangeTags(ctx, app, user, add, remove)
}

func (s *store) Revoke(ctx context.Context, app, user, device string, before time.Time) error {
	if err := s.broken(); err != nil {
		return err
	}
	return s.Store.Revoke(ctx, app, user, device, before)
}

func (s *store) DeleteUser(ctx context.Context, app, user string) (crux.User, error) {
	if err := s.broken(); err != nil {
		return crux.User{}, err
	}
	return s.Store.DeleteUser(ctx, app, user)
}

// key is an API key of the tests.
type key struct {
	name, app string
	scopes    []string
	budget    int // requests left; negative: no limit
	burst     int
	asked     int // calls of Allow
	mu        sync.Mutex
}

func (k *key) charged() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

func (k *key) Name() string          { return k.name }
func (k *key) App() string           { return k.app }
func (k *key) Has(scope string) bool { return slices.Contains(k.scopes, scope) }

func (k *key) Allow(n int, _ time.Time) (bool, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	switch {
	case k.budget < 0:
		return true, 0
	case n > k.burst:
		return false, 1<<63 - 1
	case n > k.budget:
		return false, 1500 * time.Millisecond
	}
	k.budget -= n
	return true, 0
}

type keyring map[string]*key

func (r keyring) check(header string) (*key, error) {
	if k := r[header]; k != nil {
		return k, nil
	}
	return nil, errors.New("the API key is not known")
}

// world is an API server on a loopback port over the real services and store.
type world struct {
	t      testing.TB
	store  *store
	fe     *front
	keys   keyring
	svc    *push.Service
	server *api.Server
	hot    *api.Hot
	url    string
	client *http.Client
	log    *syncBuffer
	ready  error
	// timeout of pushes, for serve; 0: the usual one
	timeout time.Duration
	next    uint32
}

// syncBuffer keeps what is logged.
type syncBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b = append(s.b, p...)
	return len(p), nil
}

func (s *syncBuffer) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := string(s.b)
	s.b = nil
	return b
}

type option func(*api.Config)

func newWorld(t testing.TB, opts ...option) *world {
	t.Helper()
	inner, err := crux.NewEmbedded(crux.EmbeddedConfig{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, store: &store{Store: inner}, fe: &front{ended: make(map[klink.Handle]klink.Disconnect)}, log: new(syncBuffer),
		keys: keyring{
			"Bearer all":  {name: "all", app: app, scopes: []string{"push", "presence", "tags", "admin"}, budget: -1},
			"Bearer none": {name: "none", app: app, budget: -1},
			"Bearer slow": {name: "slow", app: app, scopes: []string{"push", "presence", "tags", "admin"}, budget: 0, burst: 5},
			"Bearer five": {name: "five", app: app, scopes: []string{"push"}, budget: 5, burst: 5},
			"Bearer else": {name: "else", app: "other", scopes: []string{"push", "presence", "tags", "admin"}, budget: -1},
		},
	}
	if w.fe.inc, err = inner.RegisterFE(t.Context(), crux.FE{ID: "fe1", Lease: time.Hour}); err != nil {
		t.Fatal(err)
	}
	w.serve([]push.FrontEnd{w.fe}, []presence.FrontEnd{w.fe}, opts...)
	t.Cleanup(func() {
		w.svc.Close()
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// serve makes the services over the front ends and the server.
func (w *world) serve(fes []push.FrontEnd, same []presence.FrontEnd, opts ...option) {
	w.t.Helper()
	var err error
	if w.svc, err = push.New(push.Config{Store: w.store, Directory: push.Static(fes), Timeout: w.timeout}); err != nil {
		w.t.Fatal(err)
	}
	pres, err := presence.New(presence.Config{Store: w.store, Directory: presence.Static(same)})
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := api.Config{
		Push: w.svc, Presence: pres, Keys: api.KeyFunc[*key](w.keys.check), Registry: prometheus.NewRegistry(),
		Log: slog.New(slog.NewJSONHandler(w.log, nil)),
		Endpoints: func() []api.Endpoint {
			return []api.Endpoint{{Transport: "wss", URL: "wss://127.0.0.1:7443/connect"}, {Transport: "tls", URL: "tls://127.0.0.1:7443"}}
		},
		Ready:    []api.Check{{Name: "fe", Func: func(context.Context) error { return w.ready }}},
		Page:     fstest.MapFS{"index.html": {Data: []byte("<!doctype html>page")}, "demo.js": {Data: []byte("let a")}},
		PageJSON: func() ([]byte, error) { return []byte(`{"token":"t"}`), nil },
	}
	for _, o := range opts {
		o(&cfg)
	}
	if w.server, err = api.New(cfg); err != nil {
		w.t.Fatal(err)
	}
	w.listen()
}

// listen serves as a process does: the hot calls on their loop, the rest by net/http.
func (w *world) listen() {
	w.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	hot, err := w.server.Hot(ln)
	if err != nil || hot == nil {
		w.t.Fatal(hot, err)
	}
	rest := w.server.HTTP()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := hot.Serve(); err != nil {
			w.t.Errorf("hot: %v", err)
		}
	})
	wg.Go(func() { _ = rest.Serve(hot.Fallback()) }) // ends by Close
	w.client = &http.Client{Transport: &http.Transport{}}
	w.url, w.hot = "http://"+ln.Addr().String(), hot
	w.t.Cleanup(func() {
		w.client.CloseIdleConnections()
		_ = hot.Close()
		_ = rest.Close()
		wg.Wait()
	})
}

// login registers a session.
func (w *world) login(user, device string, tags ...string) *session {
	w.t.Helper()
	w.next++
	h := klink.MakeHandle(0, w.next, 1)
	res, err := w.store.Register(context.Background(), []crux.Registration{{
		App: app, User: user, Device: device, Incarnation: w.fe.inc, Handle: h, Transport: klink.TransportWSS,
	}})
	if err != nil || res[0].Verdict != crux.Admitted {
		w.t.Fatalf("register: %+v, %v", res, err)
	}
	s := &session{SessionRef: klink.SessionRef{Incarnation: w.fe.inc, Handle: h, User: user, Device: device}, tags: tags, since: time.Now()}
	w.fe.mu.Lock()
	w.fe.sessions = append(w.fe.sessions, s)
	w.fe.mu.Unlock()
	return s
}

func (w *world) logout(s *session) {
	w.t.Helper()
	if _, err := w.store.Unregister(context.Background(), []crux.Unregistration{{
		App: app, User: s.User, Device: s.Device, Incarnation: s.Incarnation, Handle: s.Handle,
	}}); err != nil {
		w.t.Fatal(err)
	}
	w.fe.mu.Lock()
	defer w.fe.mu.Unlock()
	w.fe.sessions = slices.DeleteFunc(w.fe.sessions, func(x *session) bool { return x == s })
}
