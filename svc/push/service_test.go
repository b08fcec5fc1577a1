package push_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/svc/push"
)

func codeOf(err error) klink.Code {
	if e, ok := errors.AsType[*klink.Error](err); ok {
		return e.Code
	}
	return klink.OK
}

// TestPlan checks which front end is asked what, and the sums.
func TestPlan(t *testing.T) {
	w := newWorld(t, 3)
	w.login(0, "ann", "a1", "red")
	w.login(1, "ann", "a2")
	w.login(1, "bob", "b1", "red", "vip")
	w.login(2, "cid", "c1", "blue")
	dev := func(u, d string) klink.DeviceRef { return klink.DeviceRef{User: u, Device: d} }
	tests := []struct {
		name     string
		to       klink.Target
		fes      [3]int // sessions named to each, -1: not asked
		broad    bool
		matched  int
		enqueued int
		offline  int
		asked    int
		lookups  []string
	}{
		{"one user", klink.Target{Users: []string{"bob"}}, [3]int{-1, 1, -1}, false, 1, 1, 0, 1, []string{"bob"}},
		{"two devices", klink.Target{Users: []string{"ann"}}, [3]int{1, 1, -1}, false, 2, 2, 0, 2, []string{"ann"}},
		{"same user twice", klink.Target{Users: []string{"ann", "ann"}}, [3]int{1, 1, -1}, false, 2, 2, 0, 2, []string{"ann"}},
		{"offline", klink.Target{Users: []string{"dan", "eve"}}, [3]int{-1, -1, -1}, false, 0, 0, 2, 0, []string{"dan", "eve"}},
		{"device", klink.Target{Devices: []klink.DeviceRef{dev("ann", "a2")}}, [3]int{-1, 1, -1}, false, 1, 1, 0, 1, []string{"ann"}},
		{"device away", klink.Target{Devices: []klink.DeviceRef{dev("ann", "a3"), dev("ann", "a1"), dev("ann", "a3")}}, [3]int{1, -1, -1}, false, 1, 1, 1, 1, []string{"ann"}},
		{"user and own device", klink.Target{Users: []string{"ann"}, Devices: []klink.DeviceRef{dev("ann", "a3"), dev("cid", "c1")}}, [3]int{1, 1, 1}, false, 3, 3, 0, 3, []string{"ann", "cid"}},
		{"tag", klink.Target{Tags: []string{"red"}}, [3]int{0, 0, 0}, true, 2, 2, 0, 3, nil},
		{"expression", klink.Target{Expr: "red && !vip"}, [3]int{0, 0, 0}, true, 1, 1, 0, 3, nil},
		{"all", klink.Target{All: true}, [3]int{0, 0, 0}, true, 4, 4, 0, 3, nil},
		{"all that fit", klink.Target{All: true, Expr: "!red"}, [3]int{0, 0, 0}, true, 2, 2, 0, 3, nil},
		{"overlap", klink.Target{Users: []string{"ann", "dan"}, Tags: []string{"red", "blue"}}, [3]int{1, 1, 0}, true, 4, 4, 1, 3, []string{"ann", "dan"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := w.push(tc.to)
			rep := r.Report
			if rep.Matched != tc.matched || rep.Enqueued != tc.enqueued || rep.Offline != tc.offline || rep.FEs != tc.asked || rep.DroppedTotal() != 0 {
				t.Errorf("report %+v", rep)
			}
			for i, f := range w.fes {
				got := f.take()
				if tc.fes[i] < 0 {
					if len(got) > 0 {
						t.Errorf("%s was asked %+v", f.id, got)
					}
					continue
				}
				if len(got) != 1 || len(got[0].Sessions) != tc.fes[i] {
					t.Fatalf("%s got %+v, want one delivery with %d sessions", f.id, got, tc.fes[i])
				}
				d := got[0]
				if broad := len(d.Tags) > 0 || d.Expr != "" || d.All; broad != tc.broad {
					t.Errorf("%s: tags %v expr %q all %v", f.id, d.Tags, d.Expr, d.All)
				}
			}
			var want [][]string
			if tc.lookups != nil {
				want = [][]string{tc.lookups}
			}
			if got := w.store.take(); !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("lookups %v, want %v", got, want)
			}
		})
	}
}

// TestMoved plays a device that changes its front end between the lookup and the delivery.
func TestMoved(t *testing.T) {
	for _, slow := range []bool{false, true} {
		t.Run(fmt.Sprintf("blocking store %v", slow), func(t *testing.T) {
			w := newWorld(t, 2)
			w.store.slow = slow
			old := w.login(0, "ann", "a1")
			w.login(0, "ann", "a2")
			lost := w.login(0, "bob", "b1")
			n := 0
			w.store.onRead = func() {
				if n++; n == 1 {
					w.login(1, "ann", "a1") // replaces it in the store
					w.login(1, "ann", "a3") // new: was not there when the push was planned
					w.fes[0].drop(old)
					w.logout(lost)
				}
			}
			r := w.push(klink.Target{Users: []string{"ann", "bob"}})
			if got := r.Report; got.Matched != 3 || got.Enqueued != 2 || got.Dropped[klink.DropGone] != 1 || got.FEs != 2 || len(got.Outcomes) != 1 || got.Outcomes[0].User != "bob" {
				t.Errorf("report %+v", got)
			}
			second := w.fes[1].take()
			if len(second) != 1 || len(second[0].Sessions) != 1 || second[0].Sessions[0].Device != "a1" || second[0].All || second[0].Tags != nil {
				t.Errorf("second round %+v", second)
			}
			if got := w.store.take(); len(got) != 2 {
				t.Errorf("%d lookups, want 2", len(got))
			}
			if st := w.svc.Stats(); st.Moved != 1 || st.Dropped[klink.DropGone] != 1 {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

// TestMovedAtHome: a device that connects to the same front end again; the front end counts once, the second round is in the trace.
func TestMovedAtHome(t *testing.T) {
	w := newWorld(t, 1)
	old := w.login(0, "ann", "a1")
	n := 0
	w.store.onRead = func() {
		if n++; n == 1 {
			w.login(0, "ann", "a1")
			w.fes[0].drop(old)
		}
	}
	r := w.push(klink.Target{Users: []string{"ann"}})
	if got := r.Report; got.FEs != 1 || got.Matched != 1 || got.Enqueued != 1 || got.DroppedTotal() != 0 {
		t.Errorf("report %+v", got)
	}
	if tr, _ := w.svc.Trace(app, r.Push); len(tr.FEs) != 2 || tr.FEs[0].Report.Dropped[klink.DropGone] != 1 || tr.FEs[1].Report.Enqueued != 1 {
		t.Errorf("trace %+v", tr)
	}
}

// TestMovedLookupFails: the first report stands.
func TestMovedLookupFails(t *testing.T) {
	w := newWorld(t, 1)
	s := w.login(0, "ann", "a1")
	w.store.onRead = func() {
		w.fes[0].drop(s)
		w.store.mu.Lock()
		w.store.err = crux.ErrUnavailable
		w.store.mu.Unlock()
	}
	if r := w.push(klink.Target{Users: []string{"ann"}}).Report; r.Matched != 1 || r.Enqueued != 0 || r.Dropped[klink.DropGone] != 1 {
		t.Errorf("report %+v", r)
	}
}

// TestManyGone has more gone sessions than a report names: all that moved are found.
func TestManyGone(t *testing.T) {
	w := newWorld(t, 2)
	var users []string
	var old []*session
	for i := range 3 * klink.MaxOutcomes {
		users = append(users, fmt.Sprintf("u%03d", i))
		old = append(old, w.login(0, users[i], "d"))
	}
	n := 0
	w.store.onRead = func() {
		if n++; n > 1 {
			return
		}
		for i, u := range users {
			w.login(1, u, "d")
			w.fes[0].drop(old[i])
		}
	}
	if r := w.push(klink.Target{Users: users}).Report; r.Matched != len(users) || r.Enqueued != len(users) || r.DroppedTotal() != 0 || len(r.Outcomes) != 0 {
		t.Errorf("matched %d enqueued %d dropped %v outcomes %d", r.Matched, r.Enqueued, r.Dropped, len(r.Outcomes))
	}
}

// TestUnknownFE: a session whose front end is not in view is gone.
func TestUnknownFE(t *testing.T) {
	w := newWorld(t, 2)
	w.login(1, "ann", "a1")
	svc, err := push.New(push.Config{Store: w.store, Directory: push.Static{w.fes[0]}})
	if err != nil {
		t.Fatal(err)
	}
	p := message(klink.Target{Users: []string{"ann"}})
	r, err := svc.Push(t.Context(), p, push.Once{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Report.Matched != 1 || r.Report.Dropped[klink.DropGone] != 1 || r.Report.FEs != 0 {
		t.Errorf("report %+v", r.Report)
	}
	e, ok, err := svc.Explain(t.Context(), app, p.ID, "ann")
	if err != nil || !ok || e.Verdict != push.VerdictDropped || e.Fates[0].Result != klink.DropGone.String() {
		t.Errorf("explanation %+v, %v, %v", e, ok, err)
	}
}

// A push that is being planned can be looked at.
func TestTracesWhileFrontEndsAreOutOfView(t *testing.T) {
	w := newWorld(t, 2)
	for _, dev := range []string{"a1", "a2", "a3"} {
		w.login(1, "ann", dev)
	}
	svc, err := push.New(push.Config{Store: w.store, Directory: push.Static{w.fes[0]}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ids := make(chan string, 300)
	wg.Go(func() {
		defer close(ids)
		for range cap(ids) {
			p := message(klink.Target{Users: []string{"ann"}})
			ids <- p.ID
			if _, err := svc.Push(t.Context(), p, push.Once{}); err != nil {
				t.Error(err)
			}
		}
	})
	for id := range ids {
		if e, ok, err := svc.Explain(t.Context(), app, id, "ann"); err != nil || ok && len(e.Fates) != 0 && len(e.Fates) != 3 {
			t.Errorf("%+v, %v, %v", e, ok, err)
		}
	}
	wg.Wait()
}

func TestUnreached(t *testing.T) {
	w := newWorld(t, 2)
	w.login(0, "ann", "a1", "red")
	w.login(1, "bob", "b1", "red")
	w.fes[1].refuse = klink.Errorf(klink.CodeOverloaded, "the mailbox of a loop is full")
	r := w.push(klink.Target{Tags: []string{"red"}})
	if len(r.Unreached) != 1 || r.Unreached[0].FE != "fe2" || r.Unreached[0].Code != klink.CodeOverloaded || r.Report.FEs != 1 || r.Report.Enqueued != 1 {
		t.Errorf("partial: %+v", r)
	}
	w.fes[0].refuse = w.fes[1].refuse
	_, err := w.svc.Push(t.Context(), message(klink.Target{Tags: []string{"red"}}), push.Once{})
	if codeOf(err) != klink.CodeOverloaded {
		t.Errorf("nobody took it: %v", err)
	}
	if st := w.svc.Stats(); st.Unreached != 3 || st.Refused[klink.CodeOverloaded] != 1 {
		t.Errorf("stats %+v", st)
	}
}

func TestStoreAway(t *testing.T) {
	w := newWorld(t, 1)
	w.login(0, "ann", "a1", "red")
	w.store.err = fmt.Errorf("redis: %w", crux.ErrUnavailable)
	if _, err := w.svc.Push(t.Context(), message(klink.Target{Users: []string{"ann"}}), push.Once{}); codeOf(err) != klink.CodeUnavailable || !errors.Is(err, crux.ErrUnavailable) {
		t.Errorf("user push: %v", err)
	}
	if r := w.push(klink.Target{Tags: []string{"red"}}); r.Report.Enqueued != 1 {
		t.Errorf("a push to a tag does not need the store: %+v", r)
	}
}

// TestTimeout: the caller gets an answer in time, the push goes on and its key gets the answer.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.login(0, "ann", "a1")
		w.fes[0].hold = true
		start := time.Now()
		p := message(klink.Target{Users: []string{"ann"}})
		once := push.Once{Key: "k"}
		_, err := w.svc.Push(t.Context(), p, once)
		if codeOf(err) != klink.CodeTimeout || time.Since(start) != 10*time.Second {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		if tr, ok := w.svc.Trace(app, p.ID); !ok || tr.Ended || len(tr.FEs) != 1 || tr.FEs[0].Ended {
			t.Errorf("trace %+v, %v", tr, ok)
		}
		if e, _, err := w.svc.Explain(t.Context(), app, p.ID, "ann"); err != nil || e.Verdict != push.VerdictPending {
			t.Errorf("explanation %+v, %v", e, err)
		}
		if _, err := w.svc.Push(t.Context(), message(p.To), once); !errors.Is(err, push.ErrInProgress) {
			t.Errorf("same key meanwhile: %v", err)
		}
		w.fes[0].release()
		r, err := w.svc.Push(t.Context(), message(p.To), once)
		if err != nil || !r.Replayed || r.Push != p.ID || r.Report.Enqueued != 1 {
			t.Errorf("same key afterwards: %+v, %v", r, err)
		}
		if tr, _ := w.svc.Trace(app, p.ID); !tr.Ended || tr.Report.Enqueued != 1 {
			t.Errorf("trace %+v", tr)
		}
	})
}

// TestCallerLeaves: the end of ctx is an answer, too.
func TestCallerLeaves(t *testing.T) {
	w := newWorld(t, 1)
	w.login(0, "ann", "a1")
	w.fes[0].hold = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.svc.Push(ctx, message(klink.Target{Tags: []string{"red"}}), push.Once{}); codeOf(err) != klink.CodeTimeout {
		t.Errorf("%v", err)
	}
	w.fes[0].release()
}

func TestBatch(t *testing.T) { synctest.Test(t, testBatch) }

func testBatch(t *testing.T) {
	start := time.Now()
	defer func() {
		if d := time.Since(start); d != 0 {
			t.Errorf("the batch has waited %v for nothing", d)
		}
	}()
	w := newWorld(t, 2)
	w.login(0, "ann", "a1", "red")
	w.login(1, "bob", "b1")
	items := []push.Item{
		{Push: message(klink.Target{Users: []string{"ann"}})},
		{Err: klink.Errorf(klink.CodeInvalid, "of the caller")},
		{Push: message(klink.Target{})},
		{Push: message(klink.Target{Users: []string{"bob", "dan"}})},
		{Push: message(klink.Target{Tags: []string{"red"}})},
		{Push: message(klink.Target{Users: []string{"ann"}}), Once: push.Once{Key: "k"}},
		{Push: message(klink.Target{Users: []string{"ann"}}), Once: push.Once{Key: "k"}},
	}
	got := w.svc.PushBatch(t.Context(), items)
	if l := w.store.take(); len(l) != 1 || !slices.Equal(l[0], []string{"ann", "bob", "dan", "ann"}) {
		t.Errorf("lookups %v", l)
	}
	for i, want := range []klink.Code{0, klink.CodeInvalid, klink.CodeInvalid, 0, 0, 0, klink.CodeConflict} {
		if codeOf(got[i].Err) != want || (want == 0) != (got[i].Result != nil) {
			t.Errorf("item %d: %+v", i, got[i])
		}
		if want == 0 && (got[i].Result.Push != items[i].Push.ID || got[i].Result.Report.Enqueued != 1) {
			t.Errorf("item %d: %+v", i, got[i].Result)
		}
	}
	if r := got[3].Result.Report; r.Offline != 1 {
		t.Errorf("item 3: %+v", r)
	}
	var order []string
	for _, d := range w.fes[0].take() {
		order = append(order, d.Push.ID)
	}
	if want := []string{items[0].Push.ID, items[4].Push.ID, items[5].Push.ID}; !slices.Equal(order, want) {
		t.Errorf("order on fe1 %v, want %v", order, want)
	}
}

func TestBatchStoreAway(t *testing.T) {
	w := newWorld(t, 1)
	w.login(0, "ann", "a1", "red")
	w.store.err = crux.ErrUnavailable
	got := w.svc.PushBatch(t.Context(), []push.Item{
		{Push: message(klink.Target{Users: []string{"ann"}}), Once: push.Once{Key: "k"}}, {Push: message(klink.Target{Tags: []string{"red"}})},
	})
	if codeOf(got[0].Err) != klink.CodeUnavailable || got[1].Err != nil || got[1].Result.Report.Enqueued != 1 {
		t.Errorf("answers %+v", got)
	}
	w.store.err = nil
	if r, err := w.svc.Push(t.Context(), message(klink.Target{Users: []string{"ann"}}), push.Once{Key: "k"}); err != nil || r.Replayed {
		t.Errorf("the key of a push of which nothing was done is free: %+v, %v", r, err)
	}
}

func TestBatchTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.login(0, "ann", "a1")
		w.login(1, "bob", "b1")
		w.fes[1].hold = true
		got := w.svc.PushBatch(t.Context(), []push.Item{
			{Push: message(klink.Target{Users: []string{"ann"}})}, {Push: message(klink.Target{Users: []string{"bob"}})},
		})
		if got[0].Err != nil || got[0].Result.Report.Enqueued != 1 || codeOf(got[1].Err) != klink.CodeTimeout {
			t.Errorf("answers %+v", got)
		}
		w.fes[1].release()
	})
}

func TestPublish(t *testing.T) {
	for _, slow := range []bool{false, true} {
		w := newWorld(t, 1)
		w.store.slow = slow
		w.login(0, "ann", "a1", "red")
		tests := []struct {
			name    string
			to      klink.Target
			payload klink.Payload
			want    klink.Code
		}{
			{"tag", klink.Target{Tags: []string{"red"}}, klink.Payload{Kind: klink.DataText, Data: []byte("hi")}, klink.OK},
			{"user", klink.Target{Users: []string{"ann"}}, klink.Payload{Data: []byte{0xff}}, klink.OK},
			{"bad tag", klink.Target{Tags: []string{""}}, klink.Payload{}, klink.CodeInvalid},
			{"bad text", klink.Target{Tags: []string{"red"}}, klink.Payload{Kind: klink.DataText, Data: []byte{0xff}}, klink.CodeInvalid},
			{"bad JSON", klink.Target{Tags: []string{"red"}}, klink.Payload{Kind: klink.DataJSON, Data: []byte("{")}, klink.CodeInvalid},
			{"JSON with bad UTF-8", klink.Target{Tags: []string{"red"}}, klink.Payload{Kind: klink.DataJSON, Data: []byte("\"\xff\"")}, klink.CodeInvalid},
			{"too large", klink.Target{Tags: []string{"red"}}, klink.Payload{Data: make([]byte, push.MaxPayload+1)}, klink.CodeTooLarge},
		}
		for _, tc := range tests {
			t.Run(fmt.Sprintf("%s, blocking store %v", tc.name, slow), func(t *testing.T) {
				p := message(tc.to)
				p.Payload = tc.payload
				type answer struct {
					rep klink.Report
					err error
				}
				got := make(chan answer, 1)
				w.svc.Publish(p, func(r klink.Report, err error) { got <- answer{r, err} })
				a := <-got
				if codeOf(a.err) != tc.want || tc.want == klink.OK && a.rep.Enqueued != 1 {
					t.Errorf("%+v", a)
				}
			})
		}
	}
}

func TestCheck(t *testing.T) {
	many := func(n int) []string {
		l := make([]string, n)
		for i := range l {
			l[i] = fmt.Sprint(i)
		}
		return l
	}
	long := strings.Repeat("x", 129)
	tests := []struct {
		name  string
		edit  func(*klink.Push)
		field string
		code  klink.Code
		text  string
	}{
		{"nobody", func(p *klink.Push) { p.To = klink.Target{} }, "to", klink.CodeInvalid, "names nobody"},
		{"app", func(p *klink.Push) { p.App = "" }, "app", klink.CodeInvalid, "app is empty"},
		{"empty user", func(p *klink.Push) { p.To.Users = []string{"a", ""} }, "to.users[1]", klink.CodeInvalid, "user is empty"},
		{"long user", func(p *klink.Push) { p.To.Users = []string{long} }, "to.users[0]", klink.CodeInvalid, "129 bytes long, limit 128"},
		{"control", func(p *klink.Push) { p.To.Tags = []string{"a\nb"} }, "to.tags[0]", klink.CodeInvalid, "control character"},
		{"utf8", func(p *klink.Push) { p.To.Tags = []string{"\xff"} }, "to.tags[0]", klink.CodeInvalid, "not valid UTF-8"},
		{"users", func(p *klink.Push) { p.To.Users = many(1001) }, "to.users", klink.CodeLimit, "1001 users, limit 1000"},
		{"tags", func(p *klink.Push) { p.To.Tags = many(1001) }, "to.tags", klink.CodeLimit, "1001 tags, limit 1000"},
		{"devices", func(p *klink.Push) { p.To.Devices = make([]klink.DeviceRef, 1001) }, "to.devices", klink.CodeLimit, "1001 devices, limit 1000"},
		{"device", func(p *klink.Push) { p.To.Devices = []klink.DeviceRef{{User: "a"}} }, "to.devices[0]", klink.CodeInvalid, "device is empty"},
		{"device's user", func(p *klink.Push) { p.To.Devices = []klink.DeviceRef{{Device: "a"}} }, "to.devices[0]", klink.CodeInvalid, "user is empty"},
		{"syntax", func(p *klink.Push) { p.To.Expr = "a &&" }, "to.expr", klink.CodeInvalid, ""},
		{"no cover", func(p *klink.Push) { p.To.Expr = "!a" }, "to.expr", klink.CodeInvalid, "set all"},
		{"payload", func(p *klink.Push) { p.Payload.Data = make([]byte, push.MaxPayload+1) }, "data", klink.CodeTooLarge, "limit 63488"},
		{"collapse key", func(p *klink.Push) { p.CollapseKey = long }, "collapse_key", klink.CodeInvalid, "limit 128"},
		{"expired", func(p *klink.Push) { p.Expires = time.Now().Add(-time.Second) }, "ttl", klink.CodeExpired, "over"},
	}
	w := newWorld(t, 1)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := message(klink.Target{Users: []string{"ann"}})
			tc.edit(p)
			_, err := w.svc.Push(t.Context(), p, push.Once{})
			f, ok := errors.AsType[*push.FieldError](err)
			if !ok || f.Field != tc.field || f.Err.Code != tc.code || !strings.Contains(f.Err.Text, tc.text) {
				t.Errorf("got %v", err)
			}
		})
	}
	if got := w.fes[0].take(); got != nil {
		t.Errorf("a refused push was sent: %+v", got)
	}
	good := message(klink.Target{Users: many(1000), Tags: many(1000), Expr: "!a", All: true})
	good.Payload.Data, good.CollapseKey, good.Expires = make([]byte, push.MaxPayload), long[:128], time.Now().Add(time.Hour)
	for range 2 { // the second time the expression is known
		if err := w.svc.Check(good); err != nil {
			t.Errorf("at the limits: %v", err)
		}
	}
}

// TestConcurrent pushes from many goroutines to front ends that answer on others.
func TestConcurrent(t *testing.T) {
	w := newWorld(t, 2)
	w.store.slow = true
	for i := range 20 {
		w.login(i%2, fmt.Sprintf("u%d", i), "d", "red")
	}
	for _, f := range w.fes {
		f.async = true
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				to := klink.Target{Users: []string{fmt.Sprintf("u%d", (g+i)%20)}, Tags: []string{"red"}}
				r, err := w.svc.Push(t.Context(), message(to), push.Once{})
				if err != nil || r.Report.Enqueued != 20 || r.Report.FEs != 2 {
					t.Errorf("%+v, %v", r, err)
					return
				}
				w.svc.Traces(app, 3)
				w.svc.Recent(app, "red")
			}
		})
	}
	wg.Wait()
	if st := w.svc.Stats(); st.Pushes != 400 || st.Enqueued != 8000 || st.Traces != 400 {
		t.Errorf("stats %+v", st)
	}
}

// TestAllocs bounds what the usual push allocates besides the push itself.
func TestAllocs(t *testing.T) {
	w := newWorld(t, 1)
	w.login(0, "ann", "a1")
	quiet := &quietFront{front: w.fes[0]}
	svc, err := push.New(push.Config{Store: w.store.Store, Directory: push.Static{quiet}})
	if err != nil {
		t.Fatal(err)
	}
	p := message(klink.Target{Users: []string{"ann"}})
	got := testing.AllocsPerRun(1000, func() {
		if r, err := svc.Push(t.Context(), p, push.Once{}); err != nil || r.Report.Enqueued != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
	})
	// op, trace, channel, names, sessions, done, and the store's answer.
	if got > 10 {
		t.Errorf("%v allocations, want at most 10", got)
	}
}

// quietFront answers without keeping anything.
type quietFront struct{ *front }

func (q *quietFront) Start(d *klink.Delivery, done func(klink.Report)) error {
	done(klink.Report{FEs: 1, Matched: len(d.Sessions), Enqueued: len(d.Sessions)})
	return nil
}

func BenchmarkPushUser(b *testing.B) {
	w := newWorld(b, 1)
	w.login(0, "ann", "a1")
	svc, err := push.New(push.Config{Store: w.store.Store, Directory: push.Static{&quietFront{front: w.fes[0]}}})
	if err != nil {
		b.Fatal(err)
	}
	p := message(klink.Target{Users: []string{"ann"}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := svc.Push(b.Context(), p, push.Once{}); err != nil {
			b.Fatal(err)
		}
	}
}
