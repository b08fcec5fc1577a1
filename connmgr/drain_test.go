package connmgr

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
)

// drain starts a Drain in a bubble and waits until the loops have its task.
func (r *rig) drain(ctx context.Context, plan Drain) (done chan struct{}) {
	done = make(chan struct{})
	go func() { r.m.Drain(ctx, plan); close(done) }()
	synctest.Wait()
	return done
}

func over(done chan struct{}) bool {
	synctest.Wait()
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func (r *rig) told() (n int) {
	for _, l := range r.loops {
		for _, c := range l.conns {
			if c.over {
				n++
			}
		}
	}
	return n
}

func TestDrainKeepsItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Config{})
		const sessions = 300
		for i := range sessions {
			r.enter(r.loops[i%3/2], uint32(i), fmt.Sprint("u", i)) // 200 on one loop, 100 on the other
		}
		done := r.drain(t.Context(), Drain{PerSecond: 100, Spread: 10 * time.Second, Target: "tls://b:1"})
		for ms := 0; ms < 2900; ms += 50 {
			for _, l := range r.loops {
				l.round()
				l.now += 50
			}
			if n, most := r.told(), ms/10+2; n > most || n < most-8 {
				t.Fatalf("%d ended after %d ms, want about %d", n, ms, most)
			}
		}
		if over(done) {
			t.Fatal("it returned before the last was told")
		}
		for range 10 {
			for _, l := range r.loops {
				l.now += 50
				l.round()
			}
		}
		if !over(done) || r.told() != sessions {
			t.Fatalf("after 3.4 s %d of %d are told", r.told(), sessions)
		}
		delays := make(map[uint32]bool)
		for _, l := range r.loops {
			for h := range l.conns {
				var f frame.Server
				w := l.conns[h].writes[0]
				_, hdr, _ := frame.Length(w, 1<<20)
				if err := f.Decode(w[hdr:]); err != nil || f.Kind != frame.ServerDisconnect || string(f.Disconnect.Target) != "tls://b:1" {
					t.Fatalf("told %v %+v", err, f.Disconnect)
				}
				if d := f.Disconnect.DelayMs; d < 500 || d >= 10_500 {
					t.Errorf("a slot at %d ms", d)
				}
				delays[f.Disconnect.DelayMs] = true
			}
		}
		if len(delays) < sessions*95/100 {
			t.Errorf("%d clients share %d slots", sessions, len(delays))
		}
		r.check()
	})
}

func TestDrainEndsAtOnceWhenItsContextDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Config{})
		l := r.loops[0]
		for i := range 1000 {
			r.enter(l, uint32(i), "u", "t")
		}
		slow := r.blocked2(l, 2000)
		ctx, cancel := context.WithCancel(t.Context())
		first := r.drain(ctx, Drain{PerSecond: 1})
		second := r.drain(t.Context(), Drain{PerSecond: 1})
		l.pass(500, 50)
		if over(first) || over(second) || r.told() > 5 {
			t.Fatalf("%d ended", r.told())
		}
		cancel()
		if !over(first) {
			t.Fatal("it does not return with its context")
		}
		l.round()
		if r.told() != 1001 || l.conns[slow].code != klink.DisconnectShutdown || !over(second) {
			t.Errorf("%d of 1001 ended", r.told())
		}
		r.check()
	})
}

// blocked2 is a blocked session with a push in its queue.
func (r *rig) blocked2(l *testLoop, slot uint32) klink.Handle {
	h := r.enter(l, slot, "slow", "slow")
	l.conns[h].limit = 0
	r.toTags("1", "slow")
	r.toTags("2", "slow", "slow2")
	l.round()
	return h
}

// A session that is blocked gets what waits for it, and then its Disconnect; a stuck one is ended after the grace.
func TestDrainLetsQueuesBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Config{HeartbeatSeconds: 10})
		l := r.loops[0]
		reads, stuck := r.blocked2(l, 0), r.blocked2(l, 1)
		l.conns[reads].writes = nil
		done := r.drain(t.Context(), Drain{PerSecond: 1000})
		l.pass(1000, 100)
		if over(done) || r.told() != 0 {
			t.Fatal("ended with pushes in the queue")
		}
		r.toTags("3", "slow")
		l.round()
		l.unblock(reads, -1)
		if got := l.frames(t, reads); !slices.Equal(got, []string{"push 2", "push 1", "push 2", "push 3", "disconnect 4000"}) {
			t.Errorf("got %v", got)
		}
		l.shard.OnMessage(stuck, frame.AppendSetHeartbeat(nil, &frame.SetHeartbeat{Seconds: 600}))
		l.pass(lingerGrace*1000, 100)
		if !over(done) || l.conns[stuck].code != klink.DisconnectShutdown {
			t.Error("a stuck session holds the drain up")
		}
		r.check()
	})
}

// A login that was under way when the drain began makes no session that nobody would end.
func TestDrainRefusesLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Config{})
		l := r.loops[0]
		r.hold = true
		before, after := l.open(0, link.FormStream), l.open(5000, link.FormStream)
		l.shard.OnMessage(before, connectBody("alice", "d"))
		done := r.drain(t.Context(), Drain{PerSecond: 1000})
		l.pass(100, 10)
		if !over(done) {
			t.Fatal("connections without a login hold the drain up")
		}
		l.gens[7]++
		late := l.open(7, link.FormStream)
		l.shard.OnMessage(late, connectBody("bob", "d"))
		for _, h := range []klink.Handle{before, late} {
			if r.admit(l.shard, h, "alice", "d") {
				t.Error("admitted")
			}
		}
		for _, h := range []klink.Handle{before, after, late} {
			if l.conns[h].code != klink.DisconnectShutdown {
				t.Errorf("%v was ended with %v", h, l.conns[h].code)
			}
		}
		r.check()
	})
}
