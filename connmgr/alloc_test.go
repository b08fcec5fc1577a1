package connmgr

import (
	"fmt"
	"testing"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

// What happens for each session or each frame allocates nothing: only a push as such does, however many it goes to.
func TestHotPathsDoNotAllocate(t *testing.T) {
	r := newRig(t, 1, Config{HeartbeatSeconds: 600}) // nobody's time is over while the test lasts
	l := r.loops[0]
	var hs []klink.Handle
	for i := range 4000 {
		tags := []string{"all"}
		if i < 400 {
			tags = append(tags, "few")
		}
		hs = append(hs, r.enter(l, uint32(i), fmt.Sprint("u", i), tags...))
	}
	l.quiet = true
	s := l.shard
	ack := frame.AppendAck(nil, &frame.Ack{Inbox: 7})
	for name, f := range map[string]func(){
		"heartbeat":             func() { s.OnMessage(hs[1], nil) },
		"a frame of the client": func() { s.OnMessage(hs[2], ack) },
		"WebSocket ping":        func() { s.OnAlive(hs[3]) },
		"a round with nothing":  func() { s.OnRound(l.now) },
		"a second passes":       func() { l.now += 1000; s.OnRound(l.now) },
	} {
		i := 0
		if n := testing.AllocsPerRun(300, func() {
			f()
			if i++; i%10 == 0 {
				l.now += 1000
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	push := func(d klink.Delivery) float64 {
		return testing.AllocsPerRun(50, func() {
			d.Push = aPush("app", "p")
			if err := r.m.Deliver(&d, nil, func(klink.Report) {}); err != nil {
				t.Fatal(err)
			}
			l.now += 10
			l.round()
		})
	}
	few, all := push(klink.Delivery{Tags: []string{"few"}}), push(klink.Delivery{Tags: []string{"all"}})
	if few != all || all > 40 {
		t.Errorf("a push to 400 allocates %v times, one to 4,000 %v times", few, all)
	}
	one := push(klink.Delivery{Sessions: []klink.SessionRef{{Incarnation: r.m.inc(), Handle: hs[0]}}})
	if one > 16 {
		t.Errorf("a push to one session allocates %v times", one)
	}
	t.Logf("allocations of a push: %v to one session, %v to a tag", one, all)
}

// A blocked session costs a push no allocation either, once the report has all the outcomes that it keeps.
func TestBlockedSessionsDoNotAllocate(t *testing.T) {
	allocs := func(sessions int) float64 {
		r := newRig(t, 1, Config{QueueBytes: 16 << 10})
		l := r.loops[0]
		for i := range sessions {
			h := r.enter(l, uint32(i), "u", "t")
			l.conns[h].limit = 0
		}
		drop := func() {
			p := big("p", 500, func(p *klink.Push) { p.Droppable = true })
			r.deliver(klink.Delivery{Push: p, Tags: []string{"t"}})
			l.now += 10
			l.round()
		}
		for range 100 { // the queues are full, each push drops the oldest
			drop()
		}
		return testing.AllocsPerRun(20, drop)
	}
	few, many := allocs(100), allocs(200)
	// Each drop is kept as a late outcome: user, device and session of who missed it.
	if perSession := (many - few) / 100; perSession > 8 {
		t.Errorf("%.1f allocations for each blocked session that drops a push", perSession)
	}
}
