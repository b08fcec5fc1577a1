package connmgr

import (
	"fmt"
	"slices"
	"testing"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/tagindex"
)

// Pushes to a tag that come while a round to it runs, or rests, leave in one write for each connection, in their order.
func TestPushesRideOneRound(t *testing.T) {
	r := newRig(t, 1, Config{})
	l := r.loops[0]
	var hs []klink.Handle
	for i := range largeRound {
		hs = append(hs, r.enter(l, uint32(i), "u", "t"))
	}
	first := r.toTags("p0", "t")
	l.round()
	if first.done != 1 || first.rep.Enqueued != largeRound {
		t.Fatalf("the first push: %+v", first.rep)
	}
	var rest []*pushed
	want := []string{"push p0"}
	for i := range 20 {
		rest = append(rest, r.toTags(fmt.Sprint("p", i+1), "t"))
		want = append(want, fmt.Sprint("push p", i+1))
	}
	other := r.toTags("q", "t2")
	if wait := l.round(); wait < 1 || wait > roundGap {
		t.Errorf("the loop would sleep %d ms with rounds put off", wait)
	}
	if other.done != 1 {
		t.Error("a push to another tag waits for the pace of this one")
	}
	l.now += roundGap - 1
	l.round()
	if rest[0].done != 0 {
		t.Errorf("a round %d ms after the one before", roundGap-1)
	}
	l.now++
	l.round()
	for i, p := range rest {
		if p.done != 1 || p.rep.Matched != largeRound || p.rep.Enqueued != largeRound {
			t.Fatalf("push %d: done %d times, %+v", i, p.done, p.rep)
		}
	}
	for _, h := range hs {
		if n := len(l.conns[h].writes); n != 2 {
			t.Fatalf("21 pushes took %d writes", n)
		}
		if got := l.frames(t, h); !slices.Equal(got, want) {
			t.Fatalf("got %v", got)
		}
	}
	st := &l.shard.stats
	if st.Rounds.Load() != 3 || st.Batched.Load() != 19 || st.Deferred.Load() != 1 || st.Pushed.Load() != 21*largeRound {
		t.Errorf("rounds %d batched %d deferred %d pushed %d", st.Rounds.Load(), st.Batched.Load(), st.Deferred.Load(), st.Pushed.Load())
	}
	r.check()
}

// More pushes than one round takes go with the next ones, none is lost, none overtakes.
func TestRidersAreBounded(t *testing.T) {
	r := newRig(t, 1, Config{})
	l := r.loops[0]
	h := r.enter(l, 0, "u", "t")
	var want []string
	for i := range 3*maxRiders + 5 {
		r.toTags(fmt.Sprint(i), "t")
		want = append(want, fmt.Sprint("push ", i))
	}
	l.round()
	if got := l.frames(t, h); !slices.Equal(got, want) || len(l.conns[h].writes) != 4 {
		t.Errorf("%d writes, %v", len(l.conns[h].writes), got)
	}
	r.check()
}

// A round over many members is done in slices. Who leaves before its turn gets nothing, who joins after the start gets nothing, who
// reconnects gets at most one copy on each connection, and everybody else gets exactly one.
func TestMembersChangeWhileARoundRuns(t *testing.T) {
	const members = 5000
	for _, all := range []bool{false, true} {
		r := newRig(t, 1, Config{})
		l := r.loops[0]
		var hs []klink.Handle
		for i := range members {
			hs = append(hs, r.enter(l, uint32(i), fmt.Sprint("u", i), "t"))
		}
		got := make(map[klink.Handle]int)
		l.quiet = true
		l.onSend = func(h klink.Handle) { got[h]++ }
		p := r.deliver(klink.Delivery{Push: aPush("app", "p"), Tags: []string{"t"}, All: all})
		s := l.shard
		s.drainMailbox()
		lane, _ := s.apps.find("app")
		left := make(map[klink.Handle]bool)
		late := make(map[klink.Handle]bool)
		slices := 0
		next := uint32(members)
		for ; lane.busy(); slices++ {
			s.runLane(lane, testNow) // no time: one chunk
			if slices%3 != 0 || slices > 60 {
				continue
			}
			for k := range 7 {
				h := hs[(slices*131+k*997)%members]
				if s.slab.find(h) == nil {
					continue
				}
				left[h] = got[h] == 0
				l.leave(h)
				l.onSend = nil // Connected of the new ones is no push
				late[r.enter2(l, h.Slot(), "again")] = true
				late[r.enter2(l, next, "new")] = true
				next++
				l.onSend = func(h klink.Handle) { got[h]++ }
			}
		}
		s.runLanes()
		if slices < members/chunk*9/10 {
			t.Fatalf("only %d slices", slices)
		}
		if p.done != 1 || p.rep.Matched != len(got) || p.rep.Enqueued != len(got) {
			t.Fatalf("done %d times, matched %d, enqueued %d, sent to %d", p.done, p.rep.Matched, p.rep.Enqueued, len(got))
		}
		for h, n := range got {
			if n != 1 {
				t.Errorf("%v got %d copies", h, n)
			}
			if late[h] && !all {
				t.Errorf("%v joined later and got one", h)
			}
		}
		for _, h := range hs {
			if left[h] != (got[h] == 0) {
				t.Errorf("%v: left before its turn %v, got %d copies", h, left[h], got[h])
			}
		}
		l.quiet = false
		r.check()
	}
}

// enter2 is enter while nothing is recorded.
func (r *rig) enter2(l *testLoop, slot uint32, user string) klink.Handle {
	h := l.open(slot, link.FormStream)
	r.admitted.Tags = []string{"t"}
	l.shard.OnMessage(h, connectBody(user, "d"))
	r.admitted.Tags = nil
	return h
}

// Whatever parts of a target match a session, it gets one copy.
func TestOneCopyForEachSession(t *testing.T) {
	r := newRig(t, 2, Config{})
	var hs []klink.Handle
	for i := range 40 {
		l := r.loops[i%2]
		hs = append(hs, r.enter(l, uint32(i), fmt.Sprint("u", i), []string{"a", "b", "c", "d"}[i%4:]...))
	}
	expr, err := tagindex.Parse("(a || d) && !c")
	if err != nil {
		t.Fatal(err)
	}
	var refs []klink.SessionRef
	for range 3 {
		for _, h := range hs[:10] {
			refs = append(refs, klink.SessionRef{Incarnation: r.m.inc(), Handle: h})
		}
	}
	for i, all := range []bool{false, true} {
		p := new(pushed)
		d := klink.Delivery{Push: aPush("app", fmt.Sprint("p", i)), Tags: []string{"a", "b", "a"}, Sessions: refs, All: all}
		if err := r.m.Deliver(&d, expr, func(rep klink.Report) { p.rep, p.done = rep, p.done+1 }); err != nil {
			t.Fatal(err)
		}
		for _, l := range r.loops {
			l.round()
		}
		n := 0
		for k, h := range hs {
			l := r.loops[h.Loop()]
			if want := k < 10 || k%4 != 2; (len(l.frames(t, h)) == 1) != want || len(l.frames(t, h)) > 1 {
				t.Errorf("all %v: session %d got %v, want one copy: %v", all, k, l.frames(t, h), want)
			}
			n += len(l.frames(t, h))
			l.conns[h].writes = nil
		}
		if p.done != 1 || p.rep.Matched != n || p.rep.Enqueued != n {
			t.Errorf("all %v: %d got it, report %+v", all, n, p.rep)
		}
	}
	r.check()
}

// An app that floods does not put off another's pushes by more than a few turns.
func TestFloodOfOneAppDoesNotStarveAnother(t *testing.T) {
	r := newRig(t, 1, Config{})
	l := r.loops[0]
	var named []klink.SessionRef
	for i := range 500 {
		r.admitted.App = "flood"
		h := r.enter(l, uint32(i), "u", "t")
		named = append(named, klink.SessionRef{Incarnation: r.m.inc(), Handle: h})
	}
	r.admitted.App = "quiet"
	for i := range 50 {
		r.enter(l, uint32(1000+i), "u", "t")
	}
	l.quiet = true
	for i := range 500 {
		r.deliver(klink.Delivery{Push: aPush("flood", fmt.Sprint(i)), Tags: []string{"t", fmt.Sprint(i)}})
		r.deliver(klink.Delivery{Push: aPush("flood", fmt.Sprint(i)), Sessions: named[i : i+1]})
	}
	round := r.deliver(klink.Delivery{Push: aPush("quiet", "a"), Tags: []string{"t"}})
	s := l.shard
	s.drainMailbox()
	before := l.sends
	for turns := 0; round.done == 0; turns++ {
		if turns > 4 {
			t.Fatalf("not done after %d turns", turns)
		}
		flood, _ := s.apps.find("flood")
		quiet, _ := s.apps.find("quiet")
		s.runLane(flood, testNow)
		s.runLane(quiet, testNow)
	}
	if n := l.sends - before; n > 2*quantum+50 {
		t.Errorf("%d sends of the other app came first", n)
	}
	// Within the app that floods neither kind of push starves the other.
	flood, _ := s.apps.find("flood")
	direct, rounds := len(flood.direct), len(flood.rounds)
	for range 20 {
		s.runLane(flood, testNow)
	}
	if len(flood.direct) >= direct || len(flood.rounds) >= rounds {
		t.Errorf("after 20 turns: %d of %d direct pushes and %d of %d rounds are left", len(flood.direct), direct, len(flood.rounds), rounds)
	}
	l.quiet = false
	r.check()
}

func TestMailboxBound(t *testing.T) {
	r := newRig(t, 2, Config{MailboxBytes: 64 << 10})
	h := r.enter(r.loops[1], 0, "alice", "t")
	push := func(app string) (*pushed, error) {
		p := new(pushed)
		return p, r.m.Deliver(&klink.Delivery{Push: aPush(app, "p"), Tags: []string{"t"}}, nil, func(rep klink.Report) { p.rep, p.done = rep, p.done+1 })
	}
	fill := func(app string) (ok []*pushed) {
		for range 1000 {
			p, err := push(app)
			if err != nil {
				if e := asError(err); e.Code != klink.CodeOverloaded || p.done != 0 {
					t.Fatalf("refused with %v, done %d times", err, p.done)
				}
				return ok
			}
			ok = append(ok, p)
		}
		t.Fatal("the mailbox has no bound")
		return nil
	}
	first := fill("app")
	second := fill("other")
	if len(first) == 0 || len(second) < len(first)/3 {
		t.Errorf("an app that floods took %d places and left %d", len(first), len(second))
	}
	for _, l := range r.loops {
		if l.shard.box.bytes > 64<<10 {
			t.Errorf("%d bytes in a mailbox", l.shard.box.bytes)
		}
		if n := l.shard.stats.Dropped[klink.DropOverloaded].Load(); n != 2 && l.index == 0 {
			t.Errorf("%d pushes are counted as refused", n)
		}
		l.round()
		if l.shard.box.bytes != 0 {
			t.Errorf("%d bytes are held after all is done", l.shard.box.bytes)
		}
	}
	for _, p := range append(first, second...) {
		if p.done != 1 {
			t.Fatalf("an admitted push was done %d times", p.done)
		}
	}
	if got := r.loops[1].frames(t, h); len(got) != len(first) {
		t.Errorf("%d frames for %d admitted pushes", len(got), len(first))
	}
	r.check()
}

// After the loops have ended every push is answered, and so is everything that waits.
func TestPushesAfterTheEnd(t *testing.T) {
	r := newRig(t, 2, Config{})
	h := r.enter(r.loops[0], 0, "alice", "t")
	ref := []klink.SessionRef{{Incarnation: r.m.inc(), Handle: h}, {Incarnation: r.m.inc(), Handle: klink.MakeHandle(7, 1, 1)}}
	posted := []*pushed{
		r.toTags("a", "t"), r.deliver(klink.Delivery{Push: aPush("app", "b"), Sessions: ref}),
		r.deliver(klink.Delivery{Push: aPush("app", "c"), All: true}),
	}
	lane, _ := r.loops[0].shard.apps.find("app")
	r.loops[0].shard.drainMailbox()
	r.loops[0].shard.step(lane, lane.rounds[0], 1) // one has begun
	asked := make(chan error, 1)
	go func() {
		_, err := r.m.Count(t.Context(), "app", "t")
		asked <- err
	}()
	for posted := false; !posted; {
		b := &r.loops[1].shard.box
		b.mu.Lock()
		posted = len(b.tasks) > 0
		b.mu.Unlock()
	}
	r.loops[0].leave(h)
	r.m.Close()
	for i, p := range posted {
		if p.done != 1 {
			t.Errorf("push %d was done %d times", i, p.done)
		}
	}
	if rep := posted[1].rep; rep.Matched != 2 || rep.Dropped[klink.DropGone] != 2 {
		t.Errorf("named sessions that are gone: %+v", rep)
	}
	if err := <-asked; err != nil {
		t.Errorf("a question that was posted: %v", err)
	}
	err := r.m.Deliver(&klink.Delivery{Push: aPush("app", "d"), All: true}, nil, func(klink.Report) { t.Error("done") })
	if asError(err).Code != klink.CodeUnavailable {
		t.Errorf("after the end: %v", err)
	}
	if _, err := r.m.Count(t.Context(), "app", "t"); asError(err).Code != klink.CodeUnavailable {
		t.Errorf("a question after the end: %v", err)
	}
	r.m.Drain(t.Context(), Drain{}) // returns
}

// A push from the done of another, as a second look for sessions that moved, must not run a loop on a loop's goroutine.
func TestDeliverFromDoneDoesNotRunLoops(t *testing.T) {
	r := newRig(t, 2, Config{})
	a, b := r.enter(r.loops[0], 0, "alice", "t"), r.enter(r.loops[1], 0, "bob")
	refs := []klink.SessionRef{{Incarnation: r.m.inc(), Handle: b}}
	second := new(pushed)
	err := r.m.Deliver(&klink.Delivery{Push: aPush("app", "1"), Sessions: []klink.SessionRef{{Incarnation: r.m.inc(), Handle: a}}}, nil,
		func(klink.Report) {
			d := klink.Delivery{Push: aPush("app", "2"), Sessions: refs}
			if err := r.m.Deliver(&d, nil, func(rep klink.Report) { second.rep, second.done = rep, 1 }); err != nil {
				t.Error(err)
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	r.loops[0].round()
	r.loops[1].round()
	if r.loops[0].here != 1 || r.loops[1].here != 0 || r.loops[1].wakes != 1 || second.done != 1 || second.rep.Enqueued != 1 {
		t.Errorf("here %d and %d, wakes %d, second %+v", r.loops[0].here, r.loops[1].here, r.loops[1].wakes, second)
	}
	r.check()
}
