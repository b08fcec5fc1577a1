package connmgr

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
)

// blocked makes a session whose connection takes no more, with one push in the transport.
func (r *rig) blocked(l *testLoop, slot uint32) klink.Handle {
	h := r.enter(l, slot, fmt.Sprint("u", slot), "t")
	l.conns[h].limit = 0
	p := r.toTags("first", "t")
	l.round()
	if p.rep.Queued != 1 || l.shard.stats.Blocked.Load() == 0 {
		r.t.Fatalf("not blocked: %+v", p.rep)
	}
	return h
}

// big is a push whose frame is a little over n bytes.
func big(id string, n int, change func(*klink.Push)) *klink.Push {
	p := aPush("app", id)
	p.Payload.Data = []byte(strings.Repeat("x", n))
	if change != nil {
		change(p)
	}
	return p
}

func TestPoliciesOfSlowReaders(t *testing.T) {
	droppable := func(p *klink.Push) { p.Droppable = true }
	score := func(p *klink.Push) { p.CollapseKey = "score" }
	tests := []struct {
		name   string
		rules  []func(*klink.Push) // of pushes 0, 1, ... of 300 bytes for a budget of 1 KiB
		frames []string            // after the first
		late   map[string]string   // outcomes that came after the report
		drops  []klink.Drop        // in the reports
	}{
		{"within the budget", []func(*klink.Push){nil, score, droppable}, []string{"push 0", "push 1", "push 2"}, nil, []klink.Drop{0, 0, 0}},
		{"collapsed", []func(*klink.Push){score, nil, score, score}, []string{"gap t 2 collapsed", "push 1", "push 3"},
			map[string]string{"0": "collapsed", "2": "collapsed"}, []klink.Drop{0, 0, 0, 0}},
		{"droppable, oldest first", []func(*klink.Push){nil, droppable, droppable, nil}, []string{"gap t 1 droppable", "push 0", "push 2", "push 3"},
			map[string]string{"1": "droppable"}, []klink.Drop{0, 0, 0, 0}},
		{"only itself can go", []func(*klink.Push){nil, nil, nil, droppable}, []string{"gap t 1 droppable", "push 0", "push 1", "push 2"},
			nil, []klink.Drop{0, 0, 0, klink.DropDroppable}},
		{"nothing can go", []func(*klink.Push){nil, nil, nil, nil}, nil,
			map[string]string{"0": "slow_consumer", "1": "slow_consumer", "2": "slow_consumer"}, []klink.Drop{0, 0, 0, klink.DropSlow}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, 1, Config{QueueBytes: 1 << 10})
			l := r.loops[0]
			h := r.blocked(l, 0)
			l.conns[h].pending = 1 // of the transport's remainder little is left
			for i, rule := range tc.rules {
				p := r.deliver(klink.Delivery{Push: big(fmt.Sprint(i), 300, rule), Tags: []string{"t"}})
				l.round()
				why := tc.drops[i]
				if p.done != 1 || p.rep.Matched != 1 || (p.rep.Enqueued == 1) != (why == 0) || (why != 0 && p.rep.Dropped[why] != 1) {
					t.Errorf("push %d: %+v, want drop %v", i, p.rep, why)
				}
				if len(p.rep.Outcomes) != 1 || p.rep.Outcomes[0].User != "u0" {
					t.Errorf("push %d: outcomes %+v", i, p.rep.Outcomes)
				}
			}
			for i := range tc.rules {
				want := tc.late[fmt.Sprint(i)]
				var got strings.Builder
				for _, o := range r.m.LateOutcomes(fmt.Sprint(i)) {
					got.WriteString(o.Result)
				}
				if got.String() != want {
					t.Errorf("push %d: late outcome %q, want %q", i, got.String(), want)
				}
			}
			total := uint64(0)
			for why := range l.shard.stats.Dropped {
				total += l.shard.stats.Dropped[why].Load()
			}
			if want := len(tc.late) + len(tc.drops) - count(tc.drops, 0); int(total) != want {
				t.Errorf("%d drops are counted, there were %d", total, want)
			}
			if tc.frames == nil {
				if c := l.conns[h]; c.code != klink.DisconnectSlow {
					t.Errorf("closed with %v", c.code)
				}
			} else {
				l.conns[h].writes = nil
				l.unblock(h, -1)
				if got := l.frames(t, h); !slices.Equal(got, tc.frames) {
					t.Errorf("got %v, want %v", got, tc.frames)
				}
			}
			r.check()
		})
	}
}

func count(list []klink.Drop, d klink.Drop) (n int) {
	for _, x := range list {
		if x == d {
			n++
		}
	}
	return n
}

// The transport may refuse or take only a part at any moment: the order stays, nothing is lost or doubled, and a Gap is the
// next frame after a drop.
func TestQueueSurvivesEveryAnswerOfTheTransport(t *testing.T) {
	r := newRig(t, 1, Config{QueueBytes: 64 << 10})
	l := r.loops[0]
	h := r.blocked(l, 0)
	l.conns[h].writes = nil
	var want []string
	for i := range 200 {
		r.deliver(klink.Delivery{Push: big(fmt.Sprint(i), 200, nil), Tags: []string{"t"}})
		want = append(want, fmt.Sprint("push ", i))
	}
	l.round()
	l.shard.OnWritable(h) // nothing has changed: the transport refuses
	for i := 0; l.conns[h].pending > 0 || i == 0; i++ {
		if i > 100 {
			t.Fatal("it does not end")
		}
		l.unblock(h, i%2) // one write or none before it blocks again
		if i == 1 {
			r.toTags("more", "t")
			l.round()
			want = append(want, "push more")
		}
	}
	l.unblock(h, -1)
	if got := l.frames(t, h); !slices.Equal(got, want) {
		t.Errorf("got %d frames %v, want %d", len(got), got, len(want))
	}
	if l.shard.stats.Blocked.Load() != 0 || r.m.QueuedBytes() != 0 {
		t.Error("the queue is still there")
	}
	r.toTags("end", "t")
	l.round()
	if got := l.frames(t, h); got[len(got)-1] != "push end" {
		t.Errorf("after it: %v", got[len(got)-1])
	}
	r.check()
}

func TestBoundOfAllQueues(t *testing.T) {
	r := newRig(t, 1, Config{QueueTotalBytes: 1000})
	l := r.loops[0]
	a := r.blocked(l, 0)
	p := make([]*pushed, 3)
	for i := range p {
		p[i] = r.deliver(klink.Delivery{Push: big(fmt.Sprint(i), 400, nil), Tags: []string{"t"}})
		l.round()
	}
	if p[1].rep.Queued != 1 || p[2].rep.Dropped[klink.DropMemory] != 1 || l.conns[a].over {
		t.Fatalf("%+v %+v", p[1].rep, p[2].rep)
	}
	l.shard.OnMessage(a, nil) // answers are no pushes: they wait
	l.conns[a].writes = nil
	l.unblock(a, -1)
	if got := l.frames(t, a); !slices.Equal(got, []string{"gap t 1 memory", "push 0", "push 1", "pong"}) {
		t.Errorf("got %v", got)
	}
	r.check()
}

// Riders of a round whose first push ends the session as too slow are drops of theirs, each counted.
func TestRidersOfASessionThatEnds(t *testing.T) {
	r := newRig(t, 1, Config{QueueBytes: 1 << 10})
	l := r.loops[0]
	r.blocked(l, 0)
	var ps []*pushed
	for i := range 5 {
		ps = append(ps, r.deliver(klink.Delivery{Push: big(fmt.Sprint(i), 2000, nil), Tags: []string{"t"}}))
	}
	l.round()
	for i, p := range ps {
		if p.rep.Matched != 1 || p.rep.Dropped[klink.DropSlow] != 1 || p.rep.Enqueued != 0 {
			t.Errorf("rider %d: %+v", i, p.rep)
		}
	}
	if n := l.shard.stats.Dropped[klink.DropSlow].Load(); n != 5 {
		t.Errorf("%d drops are counted", n)
	}
	drops := make(chan [klink.NumDrops]uint64, 1)
	l.shard.Post(TaskFunc(func(s *Shard) { lane, _ := s.apps.find("app"); drops <- lane.drops }))
	l.round()
	if d := <-drops; d[klink.DropSlow] != 5 {
		t.Errorf("the app's drops: %v", d)
	}
	r.check()
}

// A reader that is slow and never done must not make its queue's array grow, nor hold what it was sent.
func TestQueueOfASteadySlowReaderStaysSmall(t *testing.T) {
	q := new(sendQueue)
	for range 10 {
		q.push(queued{f: frameOf(1), bytes: 1})
	}
	for range 10_000 {
		q.push(queued{f: frameOf(1), bytes: 1})
		q.pop()
	}
	if q.len() != 10 || q.bytes != 10 || cap(q.q) > 64 {
		t.Errorf("%d frames, %d bytes, room for %d", q.len(), q.bytes, cap(q.q))
	}
	for i, e := range q.q[:cap(q.q)] {
		if (i < q.head || i >= len(q.q)) && e.f != nil {
			t.Fatalf("place %d still holds a frame", i)
		}
	}
}

// The policy's counters agree with the queue whatever was pushed, popped and dropped.
func TestQueueCountsWhatItHolds(t *testing.T) {
	q := new(sendQueue)
	rules := []func(p *klink.Push){
		func(*klink.Push) {}, func(p *klink.Push) { p.Droppable = true }, func(p *klink.Push) { p.CollapseKey = "k" },
		func(p *klink.Push) { p.Expires = testNow.Add(50) },
		func(p *klink.Push) { p.CollapseKey, p.Droppable, p.Expires = "l", true, testNow.Add(-1) },
	}
	for i := range 5000 {
		e := queued{f: frameOf(1), bytes: int32(1 + i*7%50)}
		if i%6 != 5 {
			e.push = &klink.Push{ID: fmt.Sprint(i)}
			rules[i*31%len(rules)](e.push)
		}
		q.push(e)
		switch {
		case i%97 == 0:
			q.shrink(q.bytes*3/4, testNow.Add(10), func(queued, klink.Drop) {})
		case i%13 == 0:
			q.pop()
		case i%17 == 0:
			q.unpush()
		}
		want := sendQueue{}
		for j := q.head; j < len(q.q); j++ {
			if q.q[j].f == nil {
				t.Fatalf("step %d: an empty place at %d of %d", i, j, len(q.q))
			}
			want.count(&q.q[j], 1)
		}
		if q.bytes != want.bytes || q.droppable != want.droppable || q.collapsing != want.collapsing || q.expiring != want.expiring {
			t.Fatalf("step %d: counts %d %d %d %d, want %d %d %d %d", i,
				q.bytes, q.droppable, q.collapsing, q.expiring, want.bytes, want.droppable, want.collapsing, want.expiring)
		}
	}
}

// A connection that the transport has given up refuses frames before its OnClose comes.
func TestPushToAConnectionThatIsGoing(t *testing.T) {
	r := newRig(t, 1, Config{})
	l := r.loops[0]
	h := r.enter(l, 0, "alice", "t")
	l.conns[h].over = true
	p := r.toTags("p", "t")
	l.round()
	if p.rep.Queued != 1 {
		t.Fatalf("%+v", p.rep)
	}
	l.shard.OnClose(h, link.CloseReset)
	if late := r.m.LateOutcomes("p"); len(late) != 1 || late[0].Result != klink.DropClosed.String() {
		t.Errorf("late outcomes %+v", late)
	}
	if l.shard.stats.Dropped[klink.DropClosed].Load() != 1 {
		t.Error("the drop is not counted")
	}
	delete(l.conns, h)
	r.check()
}
