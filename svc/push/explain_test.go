package push_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/svc/push"
)

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestExplain asks about one push after the other what became of it at a user.
func TestExplain(t *testing.T) {
	tests := []struct {
		name    string
		to      klink.Target
		before  func(w *world)
		after   func(w *world, id string)
		verdict push.Verdict
		result  string
		text    string
	}{
		{
			name: "sent to a user", to: klink.Target{Users: []string{"ann"}},
			before: func(w *world) { w.login(0, "ann", "a1") }, verdict: push.VerdictSent, text: "took it at once",
		},
		{
			name: "queued", to: klink.Target{Users: []string{"ann"}},
			before:  func(w *world) { w.login(0, "ann", "a1").result = klink.OutcomeQueued },
			verdict: push.VerdictQueued, result: "queued", text: "read too slowly",
		},
		{
			name: "queued, then dropped", to: klink.Target{Users: []string{"ann"}},
			before: func(w *world) { w.login(0, "ann", "a1").result = klink.OutcomeQueued },
			after: func(w *world, id string) {
				s := w.fes[0].sessions[0]
				w.fes[0].late[id] = []klink.Outcome{{FE: "fe1", User: "ann", Device: "a1", Session: klink.SessionID(s.Incarnation, s.Handle), Result: klink.DropExpired.String()}}
			},
			verdict: push.VerdictDropped, result: "expired", text: "time to live ended",
		},
		{
			name: "dropped by tag", to: klink.Target{Tags: []string{"red"}},
			before:  func(w *world) { w.login(0, "ann", "a1", "red").result = klink.DropSlow.String() },
			verdict: push.VerdictDropped, result: "slow_consumer", text: "budget",
		},
		{
			name: "best of two", to: klink.Target{Users: []string{"ann"}},
			before: func(w *world) {
				w.login(0, "ann", "a1").result = klink.DropSlow.String()
				w.login(0, "ann", "a2")
			},
			verdict: push.VerdictSent, text: "took it",
		},
		{
			name: "offline", to: klink.Target{Users: []string{"ann"}}, before: func(*world) {},
			verdict: push.VerdictOffline, text: "may never have connected",
		},
		{
			name: "offline since", to: klink.Target{Users: []string{"ann"}},
			before:  func(w *world) { w.logout(w.login(0, "ann", "a1")) },
			verdict: push.VerdictOffline, text: "the last one ended at",
		},
		{
			name: "connected later", to: klink.Target{Users: []string{"ann"}}, before: func(*world) {},
			after:   func(w *world, _ string) { w.login(0, "ann", "a1") },
			verdict: push.VerdictLater, text: "after the push",
		},
		{
			name: "tag, connected later", to: klink.Target{Tags: []string{"red"}}, before: func(*world) {},
			after:   func(w *world, _ string) { w.login(0, "ann", "a1", "red") },
			verdict: push.VerdictLater, text: "after the push",
		},
		{
			name: "other device", to: klink.Target{Devices: []klink.DeviceRef{{User: "ann", Device: "a2"}}},
			before:  func(w *world) { w.login(0, "ann", "a1") },
			verdict: push.VerdictOffline, text: "had one on device a1",
		},
		{
			name: "gone", to: klink.Target{Users: []string{"ann"}},
			before:  func(w *world) { w.fes[0].drop(w.login(0, "ann", "a1")) },
			verdict: push.VerdictDropped, result: "gone", text: "had ended",
		},
		{
			name: "not a member", to: klink.Target{Tags: []string{"red"}},
			before:  func(w *world) { w.login(0, "ann", "a1", "blue", "vip") },
			verdict: push.VerdictNotMember, text: "carries 2 tags: blue, vip",
		},
		{
			name: "member", to: klink.Target{Tags: []string{"red"}},
			before: func(w *world) { w.login(0, "ann", "a1", "red") }, verdict: push.VerdictSent, text: "took it at once",
		},
		{
			name: "expression fits", to: klink.Target{Expr: "red && !vip"},
			before: func(w *world) { w.login(0, "ann", "a1", "red") }, verdict: push.VerdictSent,
		},
		{
			name: "expression does not fit", to: klink.Target{Expr: "red && !vip"},
			before:  func(w *world) { w.login(0, "ann", "a1", "red", "vip") },
			verdict: push.VerdictNotMember,
		},
		{
			name: "all", to: klink.Target{All: true},
			before: func(w *world) { w.login(0, "ann", "a1") }, verdict: push.VerdictSent,
		},
		{
			name: "ended since", to: klink.Target{Tags: []string{"red"}},
			before:  func(w *world) { w.login(0, "ann", "a1", "red") },
			after:   func(w *world, _ string) { w.logout(w.fes[0].sessions[0]) },
			verdict: push.VerdictUnknown, text: "not known any more",
		},
		{
			name: "session on its front end gone, store does not know yet", to: klink.Target{Tags: []string{"blue"}},
			before:  func(w *world) { w.login(0, "ann", "a1", "red") },
			after:   func(w *world, _ string) { w.fes[0].drop(w.fes[0].sessions[0]) },
			verdict: push.VerdictUnknown, text: "the session has ended",
		},
		{
			name: "front end refused", to: klink.Target{Tags: []string{"red"}},
			before: func(w *world) {
				w.login(0, "ann", "a1", "red")
				w.fes[0].refuse = klink.Errorf(klink.CodeOverloaded, "full")
			},
			verdict: push.VerdictUnreached, text: "full",
		},
		{
			name: "not meant", to: klink.Target{Users: []string{"bob"}},
			before: func(w *world) { w.login(0, "ann", "a1") }, verdict: push.VerdictNotTargeted,
		},
		{
			name: "lost among many", to: klink.Target{Tags: []string{"red"}},
			before: func(w *world) {
				for i := range klink.MaxOutcomes + 1 {
					w.login(0, fmt.Sprint("u", i), "d", "red").result = klink.DropSlow.String()
				}
				w.login(0, "ann", "a1", "red").result = klink.DropSlow.String()
			},
			verdict: push.VerdictUnknown, text: "too many to keep",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2)
				tc.before(w)
				time.Sleep(time.Second)
				p := message(tc.to)
				_, err := w.svc.Push(t.Context(), p, push.Once{})
				if err != nil && codeOf(err) != klink.CodeOverloaded {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if tc.after != nil {
					tc.after(w, p.ID)
				}
				e, ok, err := w.svc.Explain(t.Context(), app, p.ID, "ann")
				if err != nil || !ok {
					t.Fatalf("%v, %v", ok, err)
				}
				if e.Verdict != tc.verdict || !strings.Contains(e.Text, tc.text) || e.Text == "" {
					t.Errorf("%s: %q", e.Verdict, e.Text)
				}
				if tc.result != "" && (len(e.Fates) != 1 || e.Fates[0].Result != tc.result) {
					t.Errorf("fates %+v", e.Fates)
				}
			})
		})
	}
}

func TestExplainErrors(t *testing.T) {
	w := newWorld(t, 1)
	r := w.push(klink.Target{Users: []string{"ann"}})
	if _, ok, err := w.svc.Explain(t.Context(), app, "nix", "ann"); ok || err != nil {
		t.Errorf("unknown push: %v, %v", ok, err)
	}
	if _, ok, _ := w.svc.Explain(t.Context(), "other", r.Push, "ann"); ok {
		t.Error("another app's push is visible")
	}
	if _, ok := w.svc.Trace("other", r.Push); ok {
		t.Error("another app's trace is visible")
	}
	w.store.err = context.DeadlineExceeded
	if _, ok, err := w.svc.Explain(t.Context(), app, r.Push, "ann"); !ok || codeOf(err) != klink.CodeTimeout {
		t.Errorf("store away: %v, %v", ok, err)
	}
}
