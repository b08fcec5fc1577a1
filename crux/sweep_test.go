package crux

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
)

func logIn(tb testing.TB, e *Embedded, inc klink.Incarnation, user string, slot uint32) {
	tb.Helper()
	out, err := e.Register(tb.Context(), []Registration{{
		App: "shop", User: user, Device: "phone", Incarnation: inc, Handle: klink.MakeHandle(1, slot, 1),
	}})
	if err != nil || out[0].Verdict != Admitted {
		tb.Fatalf("register %s: %+v, %v", user, out, err)
	}
}

func logOut(tb testing.TB, e *Embedded, inc klink.Incarnation, user string, slot uint32) {
	tb.Helper()
	out, err := e.Unregister(tb.Context(), []Unregistration{{
		App: "shop", User: user, Device: "phone", Incarnation: inc, Handle: klink.MakeHandle(1, slot, 1),
	}})
	if err != nil || !out[0].Removed {
		tb.Fatalf("unregister %s: %+v, %v", user, out, err)
	}
}

func known(tb testing.TB, e *Embedded) int {
	tb.Helper()
	st, err := e.Stats(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return st.Known
}

// renewFor lets d pass while inc renews, which is what sweeps.
func renewFor(tb testing.TB, e *Embedded, inc klink.Incarnation, d time.Duration) {
	tb.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(DefaultLease / 5)
		if _, err := e.RenewFE(tb.Context(), inc); err != nil {
			tb.Fatal(err)
		}
	}
}

// Sessions of dead FEs go away by renewals of the living, without anybody asking for their users, and ids of lives are
// used again.
func TestSweepDeadFEs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openStore(t, EmbeddedConfig{})
		fe1, err := e.RegisterFE(t.Context(), FE{ID: "fe1"})
		if err != nil {
			t.Fatal(err)
		}
		const users = 20_000
		for life := range 5 {
			dead, err := e.RegisterFE(t.Context(), FE{ID: fmt.Sprint("dead ", life)})
			if err != nil {
				t.Fatal(err)
			}
			for i := range users / 5 {
				logIn(t, e, dead, fmt.Sprint("user ", life, " ", i), uint32(i))
			}
			renewFor(t, e, fe1, DefaultLease+DefaultLease/2)
		}
		for range 20 {
			renewFor(t, e, fe1, time.Second)
		}
		if _, _, left := e.lives.count(e.now().mono); left != 0 || e.Counters().Reaped != users {
			t.Errorf("%d sessions of dead FEs are left, %d reaped", left, e.Counters().Reaped)
		}
		for range 100 { // each a new life of the same FE
			if _, err = e.RegisterFE(t.Context(), FE{ID: "fe1"}); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(*e.lives.byID.Load()); n > 7 {
			t.Errorf("%d ids for lives, of which one is alive", n)
		}
		if n := len(e.lives.current); n > 1 {
			t.Errorf("%d current lives, want 1", n)
		}
	})
}

// When a lease ended does not depend on when somebody looks.
func TestLeaseEndIsOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openStore(t, EmbeddedConfig{})
		inc, err := e.RegisterFE(t.Context(), FE{ID: "fe1"})
		if err != nil {
			t.Fatal(err)
		}
		logIn(t, e, inc, "early", 1)
		logIn(t, e, inc, "late", 2)
		end := time.Now().Add(DefaultLease)
		time.Sleep(DefaultLease - 1)
		if us, _ := e.Lookup(t.Context(), "shop", []string{"early"}); !us[0].Online() {
			t.Fatal("offline before the lease ended")
		}
		time.Sleep(time.Nanosecond)
		for _, user := range []string{"early", "late"} {
			us, err := e.Lookup(t.Context(), "shop", []string{user})
			if err != nil || us[0].Online() || !us[0].LastSeen.Equal(end) || us[0].Version != klink.Version(end.UnixMilli())<<versionShift {
				t.Errorf("%s: got %+v, %v, want last seen %v and its version", user, us, err, end)
			}
			time.Sleep(time.Hour)
		}
	})
}

// A user on two FEs that die one after the other went offline with the second, whichever session came first.
func TestTwoLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openStore(t, EmbeddedConfig{})
		var incs [2]klink.Incarnation
		for i := range incs {
			var err error
			if incs[i], err = e.RegisterFE(t.Context(), FE{ID: fmt.Sprint("fe", i), Lease: time.Minute + time.Duration(i)*time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		end := time.Now().Add(2 * time.Minute)
		for user, order := range map[string][2]int{"a": {0, 1}, "b": {1, 0}} {
			for _, fe := range order {
				out, err := e.Register(t.Context(), []Registration{{
					App: "shop", User: user, Device: fmt.Sprint(fe), Incarnation: incs[fe], Handle: 1,
				}})
				if err != nil || out[0].Verdict != Admitted {
					t.Fatalf("register: %+v, %v", out, err)
				}
			}
		}
		time.Sleep(24 * time.Hour)
		us, err := e.Lookup(t.Context(), "shop", []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range us {
			if !u.LastSeen.Equal(end) || u.Version != klink.Version(end.UnixMilli())<<versionShift {
				t.Errorf("%s: got %+v, want last seen %v and its version", u.User, u, end)
			}
		}
	})
}

func TestKeepLastSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openStore(t, EmbeddedConfig{KeepLastSeen: time.Hour})
		inc := registerFE(t, e, "fe1")
		for i := range 500 {
			logIn(t, e, inc, fmt.Sprint("gone ", i), uint32(i))
			logOut(t, e, inc, fmt.Sprint("gone ", i), uint32(i))
		}
		logIn(t, e, inc, "online", 1000)
		if _, err := e.ChangeTags(t.Context(), "shop", "tagged", []string{"vip"}, nil); err != nil {
			t.Fatal(err)
		}
		renewFor(t, e, inc, 59*time.Minute)
		if got := known(t, e); got != 502 {
			t.Fatalf("before the time: %d users known, want 502", got)
		}
		was, err := e.Lookup(t.Context(), "shop", []string{"gone 7"})
		if err != nil || was[0].LastSeen.IsZero() {
			t.Fatalf("before the time: %+v, %v", was, err)
		}
		renewFor(t, e, inc, 3*time.Minute)
		if got := known(t, e); got != 2 {
			t.Errorf("after the time: %d users known, want 2", got)
		}
		if got := e.Counters().ForgottenOld; got != 500 {
			t.Errorf("%d users counted as forgotten, want 500", got)
		}
		if n := e.tablePlaces(); n > shardCount*tableMin {
			t.Errorf("the empty tables have %d places", n)
		}
		is, err := e.Lookup(t.Context(), "shop", []string{"gone 7"})
		if err != nil || is[0].Version != 0 || !is[0].LastSeen.IsZero() {
			t.Errorf("a forgotten user reads as %+v, %v", is, err)
		}
		logIn(t, e, inc, "gone 7", 7)
		if is, err = e.Lookup(t.Context(), "shop", []string{"gone 7"}); err != nil || is[0].Version <= was[0].Version {
			t.Errorf("a forgotten user came back as %+v, %v, want a version above %d", is, err, was[0].Version)
		}
	})
}

func (e *Embedded) tablePlaces() int {
	n := 0
	for i := range e.shards {
		n += len(e.shards[i].table.refs)
	}
	return n
}

// A user who was forgotten does not come back with a lower version, even if the clock went back meanwhile.
func TestForgottenVersion(t *testing.T) {
	e := openStore(t, EmbeddedConfig{KeepLastSeen: -1})
	inc := registerFE(t, e, "fe1")
	reg := Registration{App: "shop", User: "alice", Device: "phone", Incarnation: inc, Handle: 1, Floor: 1 << 51}
	if _, err := e.Register(t.Context(), []Registration{reg}); err != nil {
		t.Fatal(err)
	}
	out, err := e.Unregister(t.Context(), []Unregistration{{App: "shop", User: "alice", Device: "phone", Incarnation: inc, Handle: 1}})
	if err != nil || !out[0].Last || known(t, e) != 0 {
		t.Fatalf("logout: %+v, %v, %d known", out, err, known(t, e))
	}
	reg.Floor = 0
	back, err := e.Register(t.Context(), []Registration{reg})
	if err != nil || back[0].Version <= out[0].Version {
		t.Fatalf("got %+v, %v, want a version above %d", back, err, out[0].Version)
	}
}

// The bound of offline users holds, and it is the old ones who are forgotten.
func TestMaxKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 100 * shardCount
		e := openStore(t, EmbeddedConfig{MaxKnown: bound})
		inc := registerFE(t, e, "fe1")
		const users = 3 * bound
		for i := range users {
			logIn(t, e, inc, fmt.Sprint("user ", i), uint32(i))
			logOut(t, e, inc, fmt.Sprint("user ", i), uint32(i))
			time.Sleep(time.Millisecond)
		}
		got := known(t, e)
		if got > bound {
			t.Errorf("%d users known, bound %d", got, bound)
		}
		if c := e.Counters().ForgottenFull; c != uint64(users-got) {
			t.Errorf("%d users counted as forgotten, want %d", c, users-got)
		}
		share := func(from, to int) float64 {
			n := 0
			for i := from; i < to; i++ {
				if us, err := e.Lookup(t.Context(), "shop", []string{fmt.Sprint("user ", i)}); err == nil && us[0].Version != 0 {
					n++
				}
			}
			return float64(n) / float64(to-from)
		}
		if oldest, newest := share(0, bound), share(users-bound/2, users); oldest > 0.05 || newest < 0.9 {
			t.Errorf("known of the oldest third: %.2f, of the newest sixth: %.2f", oldest, newest)
		}
	})
}

func TestCloseList(t *testing.T) {
	var c closeList
	for h := klink.Handle(1); h <= maxCloseItems; h++ {
		if !c.add(h, klink.DisconnectReplaced) {
			t.Fatalf("handle %d was not taken", h)
		}
	}
	if c.add(maxCloseItems+1, klink.DisconnectReplaced) || !c.add(1, klink.DisconnectReplaced) {
		t.Fatal("the bound is not kept, or a handle counts twice")
	}
	if got := c.items(maxRenewItems); len(got) != maxRenewItems || got[0].Handle != 1 || got[maxRenewItems-1].Handle != maxRenewItems {
		t.Fatalf("got %d items from %v", len(got), got[0])
	}
	for h := klink.Handle(1); h <= maxCloseItems-3; h++ {
		c.confirm(h)
		c.confirm(h)
	}
	want := []klink.Handle{maxCloseItems - 2, maxCloseItems - 1, maxCloseItems}
	if got := c.pending(10); !slices.Equal(got, want) || len(c.order) > 2*len(want)+64 {
		t.Fatalf("pending: got %v of %d, want %v", got, len(c.order), want)
	}
	for _, h := range want {
		c.confirm(h)
	}
	if c.items(10) != nil || c.reasons != nil || c.order != nil {
		t.Fatalf("all confirmed, left: %+v", c)
	}
}

// Counters: each refusal and drop is counted under its reason.
func TestCounters(t *testing.T) {
	e := openStore(t, EmbeddedConfig{})
	ctx, inc := t.Context(), registerFE(t, e, "fe1")
	reg := func(user string, h klink.Handle, change func(*Registration)) {
		r := Registration{App: "shop", User: user, Device: "phone", Incarnation: inc, Handle: h, Attempt: 2}
		change(&r)
		if _, err := e.Register(ctx, []Registration{r}); err != nil {
			t.Fatal(err)
		}
	}
	reg("alice", 1, func(*Registration) {})
	reg("alice", 2, func(r *Registration) { r.Attempt = 1 })
	reg("alice", 3, func(r *Registration) { r.Device, r.Policy, r.Winner = "pad", PolicyOnePerUser, OldestWins })
	reg("alice", 4, func(r *Registration) { r.Attempt = 3 })
	reg("alice", 5, func(r *Registration) { r.Incarnation.Num++ })
	if err := e.Revoke(ctx, "shop", "alice", "", time.Unix(10, 0)); err != nil {
		t.Fatal(err)
	}
	reg("alice", 6, func(r *Registration) { r.TokenIssued = time.Unix(1, 0) })
	var tags []string
	for i := range MaxUserTags + 1 {
		tags = append(tags, fmt.Sprint(i))
	}
	if _, err := e.ChangeTags(ctx, "shop", "alice", tags, nil); err == nil {
		t.Fatal("no limit of tags")
	}
	want := Counters{Superseded: 1, TooMany: 1, Replaced: 1, Fenced: 1, Revoked: 1, TagLimit: 1}
	if got := e.Counters(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
