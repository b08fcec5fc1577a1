package push_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/svc/push"
	"github.com/klinkio/klink/tagindex"
)

// session is a live session of a front.
type session struct {
	klink.SessionRef
	app    string
	tags   []string
	result string // outcome of every push: sent at once where empty
}

// front is a front end that keeps what it was asked. It answers like the real one: one copy a session, gone sessions counted.
type front struct {
	id  string
	inc klink.Incarnation

	mu         sync.Mutex
	sessions   []*session
	deliveries []klink.Delivery
	changed    [][2][]string
	ended      map[klink.Handle]klink.Disconnect
	late       map[string][]klink.Outcome
	refuse     error
	hold       bool // answers wait for release
	held       []func()
	async      bool
	next       uint32
}

func (f *front) ID() string { return f.id }

func (f *front) Start(d *klink.Delivery, done func(klink.Report)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	f.deliveries = append(f.deliveries, *d)
	rep := f.report(d)
	switch {
	case f.hold:
		f.held = append(f.held, func() { done(rep) })
	case f.async:
		go done(rep)
	default:
		done(rep)
	}
	return nil
}

func (f *front) report(d *klink.Delivery) klink.Report {
	rep := klink.Report{FEs: 1}
	hit := make(map[*session]bool)
	for _, ref := range d.Sessions {
		if s := f.find(ref); s != nil {
			hit[s] = true
			continue
		}
		rep.Matched++
		rep.Dropped[klink.DropGone]++
		rep.AddOutcome(klink.Outcome{
			FE: f.id, User: ref.User, Device: ref.Device, Session: klink.SessionID(ref.Incarnation, ref.Handle),
			Result: klink.DropGone.String(), At: time.Now(),
		})
	}
	for _, s := range f.sessions {
		if s.app == d.Push.App && (hit[s] || fits(s, d)) {
			rep.Matched++
			f.give(s, &rep)
		}
	}
	return rep
}

func (f *front) give(s *session, rep *klink.Report) {
	if s.result == "" {
		rep.Enqueued++
		rep.SentTo = append(rep.SentTo, s.Handle)
		return
	}
	if s.result == klink.OutcomeQueued {
		rep.Enqueued++
		rep.Queued++
	}
	for why := range rep.Dropped {
		if klink.Drop(why).String() == s.result {
			rep.Dropped[why]++
		}
	}
	rep.AddOutcome(klink.Outcome{
		FE: f.id, User: s.User, Device: s.Device, Session: klink.SessionID(s.Incarnation, s.Handle), Result: s.result, At: time.Now(),
	})
}

func fits(s *session, d *klink.Delivery) bool {
	has := func(t string) bool { return slices.Contains(s.tags, t) }
	if slices.ContainsFunc(d.Tags, has) || d.All && d.Expr == "" {
		return true
	}
	if d.Expr == "" {
		return false
	}
	e, err := tagindex.Parse(d.Expr)
	return err == nil && e.Eval(has)
}

func (f *front) find(ref klink.SessionRef) *session {
	for _, s := range f.sessions {
		if s.Handle == ref.Handle && s.Incarnation == ref.Incarnation {
			return s
		}
	}
	return nil
}

func (f *front) ChangeTags(_ context.Context, refs []klink.SessionRef, add, remove []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	for _, ref := range refs {
		if s := f.find(ref); s != nil {
			s.tags = append(s.tags, add...)
			s.tags = slices.DeleteFunc(s.tags, func(t string) bool { return slices.Contains(remove, t) })
		}
	}
	f.changed = append(f.changed, [2][]string{add, remove})
	return nil
}

func (f *front) Disconnect(refs []klink.SessionRef, code klink.Disconnect, _ string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ref := range refs {
		if f.find(ref) != nil {
			f.ended[ref.Handle] = code
		}
	}
}

func (f *front) LateOutcomes(id string) []klink.Outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.late[id])
}

func (f *front) SessionTags(_ context.Context, ref klink.SessionRef) ([]string, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.find(ref); s != nil {
		return slices.Clone(s.tags), true, nil
	}
	return nil, false, nil
}

// take returns the deliveries since the last call.
func (f *front) take() []klink.Delivery {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.deliveries
	f.deliveries = nil
	return d
}

// release lets the held answers go.
func (f *front) release() {
	f.mu.Lock()
	held := f.held
	f.held = nil
	f.mu.Unlock()
	for _, done := range held {
		done()
	}
}

// drop removes a session without telling the store.
func (f *front) drop(s *session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions = slices.DeleteFunc(f.sessions, func(x *session) bool { return x == s })
}

// world is a service over a real store and recording front ends.
type world struct {
	t     testing.TB
	store *countingStore
	fes   []*front
	svc   *push.Service
}

const app = "shop"

// countingStore counts lookups, may hide that it answers from memory, and may fail.
type countingStore struct {
	crux.Store
	mu      sync.Mutex
	lookups [][]string
	slow    bool
	err     error
	onRead  func()
}

func (c *countingStore) NonBlocking() bool { return !c.slow }

func (c *countingStore) Lookup(ctx context.Context, app string, users []string) ([]crux.User, error) {
	c.mu.Lock()
	c.lookups = append(c.lookups, slices.Clone(users))
	err, hook := c.err, c.onRead
	c.mu.Unlock()
	if hook != nil {
		defer hook()
	}
	if err != nil {
		return nil, err
	}
	return c.Store.Lookup(ctx, app, users)
}

func (c *countingStore) take() [][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lookups
	c.lookups = nil
	return l
}

func newWorld(t testing.TB, n int) *world {
	t.Helper()
	store, err := crux.NewEmbedded(crux.EmbeddedConfig{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: &countingStore{Store: store}}
	var dir push.Static
	for i := range n {
		f := &front{id: "fe" + string(rune('1'+i)), ended: make(map[klink.Handle]klink.Disconnect), late: make(map[string][]klink.Outcome)}
		if f.inc, err = store.RegisterFE(t.Context(), crux.FE{ID: f.id, Lease: time.Hour}); err != nil {
			t.Fatal(err)
		}
		w.fes = append(w.fes, f)
		dir = append(dir, f)
	}
	if w.svc, err = push.New(push.Config{Store: w.store, Directory: dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.svc.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// login registers a session on front end i.
func (w *world) login(i int, user, device string, tags ...string) *session {
	w.t.Helper()
	f := w.fes[i]
	f.mu.Lock()
	f.next++
	h := klink.MakeHandle(0, f.next, 1)
	f.mu.Unlock()
	res, err := w.store.Register(context.Background(), []crux.Registration{{
		App: app, User: user, Device: device, Incarnation: f.inc, Handle: h, Transport: klink.TransportTLS,
	}})
	if err != nil || res[0].Verdict != crux.Admitted {
		w.t.Fatalf("register %s/%s: %+v, %v", user, device, res, err)
	}
	s := &session{SessionRef: klink.SessionRef{Incarnation: f.inc, Handle: h, User: user, Device: device}, app: app, tags: tags}
	f.mu.Lock()
	f.sessions = append(f.sessions, s)
	f.mu.Unlock()
	return s
}

// logout ends a session in the store and on its front end.
func (w *world) logout(s *session) {
	w.t.Helper()
	if _, err := w.store.Unregister(context.Background(), []crux.Unregistration{{
		App: app, User: s.User, Device: s.Device, Incarnation: s.Incarnation, Handle: s.Handle,
	}}); err != nil {
		w.t.Fatal(err)
	}
	for _, f := range w.fes {
		f.drop(s)
	}
}

func message(to klink.Target) *klink.Push {
	now := time.Now()
	return &klink.Push{ID: klink.NewID(now), App: app, To: to, Payload: klink.Payload{Kind: klink.DataJSON, Data: []byte(`{"a":1}`)}, Accepted: now}
}

func (w *world) push(to klink.Target) *push.Result {
	w.t.Helper()
	r, err := w.svc.Push(context.Background(), message(to), push.Once{})
	if err != nil {
		w.t.Fatalf("push to %+v: %v", to, err)
	}
	return r
}
