package push_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/svc/push"
)

func TestChangeTags(t *testing.T) {
	w := newWorld(t, 2)
	one, two := w.login(0, "ann", "a1"), w.login(1, "ann", "a2")
	other := w.login(1, "bob", "b1")
	ut, err := w.svc.ChangeTags(t.Context(), app, "ann", []string{"vip", "beta"}, []string{"none"})
	if err != nil || !slices.Equal(ut.Tags, []string{"beta", "vip"}) {
		t.Fatalf("%+v, %v", ut, err)
	}
	for _, s := range []*session{one, two} {
		if !slices.Equal(s.tags, []string{"beta", "vip"}) {
			t.Errorf("%s carries %v", s.Device, s.tags)
		}
	}
	if other.tags != nil {
		t.Errorf("bob carries %v", other.tags)
	}
	w.fes[0].changed = nil
	if _, err := w.svc.ChangeTags(t.Context(), app, "ann", []string{"vip"}, nil); err != nil || w.fes[0].changed != nil {
		t.Errorf("nothing changed, but %v was told, %v", w.fes[0].changed, err)
	}
	w.fes[1].refuse = klink.Errorf(klink.CodeTimeout, "stuck")
	ut, err = w.svc.ChangeTags(t.Context(), app, "ann", nil, []string{"vip"})
	if codeOf(err) != klink.CodeTimeout || !slices.Equal(ut.Tags, []string{"beta"}) || !slices.Equal(one.tags, []string{"beta"}) {
		t.Errorf("one front end is stuck: %+v, %v; the other has %v", ut, err, one.tags)
	}
}

// slowTags is a front end whose changes of tags take time.
type slowTags struct {
	*front
	gate chan struct{}
}

func (f *slowTags) ChangeTags(ctx context.Context, refs []klink.SessionRef, add, remove []string) error {
	select {
	case <-f.gate:
		return f.front.ChangeTags(ctx, refs, add, remove)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestTagsInOrder: the front ends see the changes of one user in the order of the store, and a hanging one is not waited for for ever.
func TestTagsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		s := w.login(0, "ann", "a1")
		fe := &slowTags{w.fes[0], make(chan struct{}, 2)}
		svc, err := push.New(push.Config{Store: w.store, Directory: push.Static{fe}})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 2)
		go func() {
			_, err := svc.ChangeTags(t.Context(), app, "ann", []string{"vip"}, nil)
			done <- err
		}()
		synctest.Wait() // the first one is at the front end
		go func() {
			_, err := svc.ChangeTags(t.Context(), app, "ann", nil, []string{"vip"})
			done <- err
		}()
		synctest.Wait()
		if u, err := w.store.Lookup(t.Context(), app, []string{"ann"}); err != nil || !slices.Equal(u[0].Tags, []string{"vip"}) {
			t.Errorf("the second change has overtaken the first: %+v, %v", u, err)
		}
		fe.gate <- struct{}{}
		fe.gate <- struct{}{}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if len(s.tags) != 0 || len(w.fes[0].changed) != 2 || w.fes[0].changed[0][0] == nil {
			t.Errorf("the session carries %v after %v", s.tags, w.fes[0].changed)
		}
		go func() {
			_, err := svc.ChangeTags(t.Context(), app, "ann", []string{"vip"}, nil)
			done <- err
		}()
		synctest.Wait()
		_, err = svc.ChangeTags(t.Context(), app, "ann", nil, []string{"vip"})
		if got := []klink.Code{codeOf(err), codeOf(<-done)}; got[0] != klink.CodeTimeout || got[1] != klink.CodeTimeout {
			t.Errorf("both wait for a front end that hangs: %v", got)
		}
	})
}

func TestUserErrors(t *testing.T) {
	w := newWorld(t, 1)
	ctx := t.Context()
	long := strings.Repeat("x", 300)
	many := make([]string, crux.MaxUserTags+1)
	for i := range many {
		many[i] = strings.Repeat("t", i%100+1) + strings.Repeat("u", i/100+1)
	}
	tests := []struct {
		name string
		call func() error
		code klink.Code
	}{
		{"tags: user", func() error { _, err := w.svc.ChangeTags(ctx, app, "", []string{"a"}, nil); return err }, klink.CodeInvalid},
		{"tags: nothing", func() error { _, err := w.svc.ChangeTags(ctx, app, "ann", nil, nil); return err }, klink.CodeInvalid},
		{"tags: add", func() error { _, err := w.svc.ChangeTags(ctx, app, "ann", []string{""}, nil); return err }, klink.CodeInvalid},
		{"tags: remove", func() error { _, err := w.svc.ChangeTags(ctx, app, "ann", nil, []string{long}); return err }, klink.CodeInvalid},
		{"tags: too many", func() error { _, err := w.svc.ChangeTags(ctx, app, "ann", many, nil); return err }, klink.CodeLimit},
		{"kick: user", func() error { _, err := w.svc.Disconnect(ctx, app, push.Kick{}); return err }, klink.CodeInvalid},
		{"kick: device", func() error { _, err := w.svc.Disconnect(ctx, app, push.Kick{User: "a", Device: long}); return err }, klink.CodeInvalid},
		{"kick: reason", func() error { _, err := w.svc.Disconnect(ctx, app, push.Kick{User: "a", Reason: long}); return err }, klink.CodeInvalid},
		{"revoke", func() error { _, err := w.svc.Revoke(ctx, app, "", "", time.Now()); return err }, klink.CodeInvalid},
		{"delete", func() error { _, _, err := w.svc.DeleteUser(ctx, app, "\x00"); return err }, klink.CodeInvalid},
	}
	for _, tc := range tests {
		if err := tc.call(); codeOf(err) != tc.code {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	w.store.err = crux.ErrUnavailable
	if _, err := w.svc.Disconnect(ctx, app, push.Kick{User: "ann"}); codeOf(err) != klink.CodeUnavailable {
		t.Errorf("kick, store away: %v", err)
	}
}

func TestDisconnect(t *testing.T) {
	w := newWorld(t, 2)
	one, two, other := w.login(0, "ann", "a1"), w.login(1, "ann", "a2"), w.login(1, "bob", "b1")
	id := klink.SessionID(two.Incarnation, two.Handle)
	tests := []struct {
		name string
		kick push.Kick
		want []*session
	}{
		{"all of a user", push.Kick{User: "ann"}, []*session{one, two}},
		{"a device", push.Kick{User: "ann", Device: "a1"}, []*session{one}},
		{"a session", push.Kick{User: "ann", Session: id}, []*session{two}},
		{"both, at odds", push.Kick{User: "ann", Device: "a1", Session: id}, nil},
		{"another user's session", push.Kick{User: "bob", Session: id}, nil},
		{"nobody", push.Kick{User: "dan"}, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			n, err := w.svc.Disconnect(t.Context(), app, tc.kick)
			if err != nil || n != len(tc.want) {
				t.Errorf("%d, %v", n, err)
			}
			for i, s := range []*session{one, two, other} {
				f := w.fes[min(i, 1)]
				want := klink.Disconnect(0)
				if slices.Contains(tc.want, s) {
					want = klink.DisconnectKicked
				}
				if got := f.ended[s.Handle]; got != want {
					t.Errorf("%s/%s: %v, want %v", s.User, s.Device, got, want)
				}
			}
			clear(w.fes[0].ended)
			clear(w.fes[1].ended)
		})
	}
}

func TestRevoke(t *testing.T) {
	w := newWorld(t, 1)
	one, two := w.login(0, "ann", "a1"), w.login(0, "ann", "a2")
	issued := time.Now()
	if n, err := w.svc.Revoke(t.Context(), app, "ann", "a2", issued.Add(time.Hour)); err != nil || n != 1 || w.fes[0].ended[two.Handle] != klink.DisconnectRevoked {
		t.Errorf("device: %d, %v, %v", n, err, w.fes[0].ended)
	}
	if n, err := w.svc.Revoke(t.Context(), app, "ann", "", issued.Add(-time.Hour)); err != nil || n != 0 || w.fes[0].ended[one.Handle] != 0 {
		t.Errorf("before the login: %d, %v, %v", n, err, w.fes[0].ended)
	}
	if revoked, err := w.store.Revoked(t.Context(), app, "ann", "a2", issued); err != nil || !revoked {
		t.Errorf("the token is still good: %v, %v", revoked, err)
	}
	if revoked, err := w.store.Revoked(t.Context(), app, "ann", "a1", issued); err != nil || revoked {
		t.Errorf("another device's token was revoked, %v", err)
	}
}

func TestDeleteUser(t *testing.T) {
	w := newWorld(t, 2)
	one, two := w.login(0, "ann", "a1"), w.login(1, "ann", "a2")
	u, n, err := w.svc.DeleteUser(t.Context(), app, "ann")
	if err != nil || n != 2 || len(u.Sessions) != 2 || w.fes[0].ended[one.Handle] != klink.DisconnectDeleted || w.fes[1].ended[two.Handle] != klink.DisconnectDeleted {
		t.Errorf("%+v, %d, %v", u, n, err)
	}
	if r := w.push(klink.Target{Users: []string{"ann"}}); r.Report.Offline != 1 || r.Report.Matched != 0 {
		t.Errorf("after the deletion: %+v", r)
	}
}

func TestRecent(t *testing.T) {
	w := newWorld(t, 1)
	w.login(0, "ann", "a1", "red")
	w.login(0, "bob", "b1", "red").result = klink.DropSlow.String()
	var last string
	for range push.RecentPushes + 8 {
		last = w.push(klink.Target{Tags: []string{"red"}}).Push
	}
	w.push(klink.Target{Tags: []string{"blue"}})
	w.fes[0].late[last] = []klink.Outcome{{Result: klink.DropExpired.String()}}
	r := w.svc.Recent(app, "red")
	n := push.RecentPushes
	if r.Pushes != n || r.Matched != 2*n || r.Enqueued != n || r.Dropped[klink.DropSlow] != uint32(n) || r.Dropped[klink.DropExpired] != 1 {
		t.Errorf("%+v", r)
	}
	if r := w.svc.Recent("other", "red"); r != (push.Recent{}) {
		t.Errorf("another app sees %+v", r)
	}
	list := w.svc.Traces(app, 2)
	if len(list) != 2 || list[1].Push != last || list[0].To.Tags[0] != "blue" || list[1].PayloadBytes != 7 || !list[1].FEs[0].Broad {
		t.Errorf("traces %+v", list)
	}
}

func TestConfig(t *testing.T) {
	if _, err := push.New(push.Config{}); err == nil {
		t.Error("a service without store was made")
	}
}
