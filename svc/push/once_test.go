package push_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/svc/push"
)

func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.login(0, "ann", "a1")
		to := klink.Target{Users: []string{"ann"}}
		send := func(app, key string, digest byte) (*push.Result, error) {
			p := message(to)
			p.App = app
			return w.svc.Push(t.Context(), p, push.Once{Key: key, Digest: [32]byte{digest}})
		}
		first, err := send(app, "k", 1)
		if err != nil || first.Replayed {
			t.Fatalf("first: %+v, %v", first, err)
		}
		again, err := send(app, "k", 1)
		if err != nil || !again.Replayed || again.Push != first.Push || again.Report.Enqueued != 1 {
			t.Errorf("again: %+v, %v", again, err)
		}
		if _, err := send(app, "k", 2); !errors.Is(err, push.ErrKeyReused) {
			t.Errorf("other push, same key: %v", err)
		}
		if other, err := send("other", "k", 2); err != nil || other.Replayed {
			t.Errorf("same key of another app: %+v, %v", other, err)
		}
		if got := w.fes[0].take(); len(got) != 1 {
			t.Errorf("%d deliveries, want 1", len(got))
		}
		w.fes[0].refuse = klink.Errorf(klink.CodeOverloaded, "full")
		if _, err := send(app, "k2", 1); codeOf(err) != klink.CodeOverloaded {
			t.Errorf("refused: %v", err)
		}
		w.fes[0].refuse = nil
		if r, err := send(app, "k2", 1); err != nil || r.Replayed {
			t.Errorf("after a push of which nothing was done: %+v, %v", r, err)
		}
		time.Sleep(push.OnceTTL - time.Nanosecond)
		if r, err := send(app, "k", 1); err != nil || !r.Replayed {
			t.Errorf("just before its time is over: %+v, %v", r, err)
		}
		time.Sleep(time.Nanosecond)
		if r, err := send(app, "k", 1); err != nil || r.Replayed {
			t.Errorf("after its time: %+v, %v", r, err)
		}
		if _, err := send(app, strings.Repeat("x", 129), 1); codeOf(err) != klink.CodeInvalid {
			t.Errorf("long key: %v", err)
		}
		if st := w.svc.Stats(); st.Replayed != 2 {
			t.Errorf("stats %+v", st)
		}
	})
}

// TestOnceFull: answers are bounded, the oldest finished one goes first, pushes under way stay.
func TestOnceFull(t *testing.T) {
	w := newWorld(t, 1)
	w.login(0, "ann", "a1")
	send := func(key string) (*push.Result, error) {
		return w.svc.Push(t.Context(), message(klink.Target{Users: []string{"ann"}}), push.Once{Key: key})
	}
	w.fes[0].hold = true
	batch := func(from, n int) {
		t.Helper()
		items := make([]push.Item, n)
		for i := range items {
			items[i] = push.Item{Push: message(klink.Target{Users: []string{"ann"}}), Once: push.Once{Key: fmt.Sprint(from + i)}}
		}
		for i, a := range w.svc.PushBatch(cancelled(t), items) {
			if codeOf(a.Err) != klink.CodeTimeout {
				t.Fatalf("item %d: %+v", i, a)
			}
		}
	}
	batch(0, push.MaxOnce-1)
	w.fes[0].mu.Lock()
	held := w.fes[0].held
	w.fes[0].held, w.fes[0].hold = nil, false
	w.fes[0].mu.Unlock()
	for i := range 3 * push.MaxOnce { // one place is left: each takes the one of its predecessor
		if r, err := send(fmt.Sprint("x", i)); err != nil || r.Replayed {
			t.Fatalf("%d: %+v, %v", i, r, err)
		}
	}
	if _, err := send("0"); !errors.Is(err, push.ErrInProgress) {
		t.Errorf("a push under way: %v", err)
	}
	w.fes[0].hold = true
	batch(push.MaxOnce, 1)
	if _, err := send("y"); codeOf(err) != klink.CodeOverloaded {
		t.Errorf("all places are taken by pushes under way: %v", err)
	}
	w.fes[0].hold = false
	for _, done := range held {
		done()
	}
	w.fes[0].release()
	if r, err := send("1"); err != nil || !r.Replayed {
		t.Errorf("ended meanwhile: %+v, %v", r, err)
	}
	if _, err := send("y"); err != nil {
		t.Errorf("a place has become free: %v", err)
	}
	if r, err := send("0"); err != nil || r.Replayed {
		t.Errorf("the oldest answer had to go: %+v, %v", r, err)
	}
}
