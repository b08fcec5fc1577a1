package connmgr

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
)

var testNow = time.Now()

// A silent session lives for two whole intervals, whatever the millisecond in which it was heard, and for less than a second more.
func TestHeartbeatExpiry(t *testing.T) {
	for _, offset := range []int64{0, 1, 500, 999} {
		r := newRig(t, 1, Config{HeartbeatSeconds: 20})
		l := r.loops[0]
		h := r.enter(l, 3, "alice")
		l.now += offset
		l.shard.OnMessage(h, nil)
		heard := l.now
		if got := l.frames(t, h); !slices.Equal(got, []string{"pong"}) {
			t.Fatalf("a heartbeat was answered with %v", got)
		}
		l.pass(40_000-1, 100)
		if l.conns[h].over {
			t.Fatalf("offset %d: ended %d ms after it was heard", offset, l.now-heard)
		}
		l.pass((1000-offset)%1000+1, 1)
		if c := l.conns[h]; !c.over || c.code != klink.DisconnectHeartbeat {
			t.Errorf("offset %d: not ended %d ms after it was heard", offset, l.now-heard)
		}
		if r.ended[h] != klink.DisconnectHeartbeat {
			t.Errorf("the authority was told %v", r.ended[h])
		}
		l.round()
		r.check()
	}
}

func TestEveryFrameAndWebSocketPingsCountAsLife(t *testing.T) {
	r := newRig(t, 1, Config{HeartbeatSeconds: 10})
	l := r.loops[0]
	h := r.enter(l, 0, "alice")
	life := []func(){
		func() { l.shard.OnMessage(h, nil) },
		func() { l.shard.OnAlive(h) },
		func() { l.shard.OnMessage(h, frame.AppendAck(nil, &frame.Ack{Inbox: 1})) },
	}
	for i := range 12 {
		l.pass(19_000, 1000)
		life[i%len(life)]()
	}
	if l.conns[h].over {
		t.Fatal("a session that is heard was ended")
	}
	l.pass(21_000, 1000)
	if !l.conns[h].over {
		t.Fatal("it was not ended afterwards")
	}
	l.shard.OnAlive(h) // late, for a record that is free
	r.check()
}

// What a client sent while the process was stopped waits in its socket: nobody is ended for silence before it could be read.
func TestStoppedLoopGivesTime(t *testing.T) {
	r := newRig(t, 1, Config{HeartbeatSeconds: 10})
	l := r.loops[0]
	alive, dead, opened := r.enter(l, 0, "alice"), r.enter(l, 1, "bob"), l.open(2, link.FormStream)
	l.now += 500
	l.round()
	l.now += 120_000
	l.round()
	if l.conns[alive].over || l.conns[dead].over || l.conns[opened].over {
		t.Fatal("ended before the sockets were read")
	}
	l.shard.OnMessage(alive, nil)
	l.shard.OnMessage(opened, connectBody("carol", "d"))
	l.pass(hangGrace*1000, 500)
	if l.conns[alive].over || l.conns[opened].over || !l.conns[dead].over {
		t.Errorf("over: alive %v, logged in %v, dead %v", l.conns[alive].over, l.conns[opened].over, l.conns[dead].over)
	}
	if n := l.shard.stats.Hangs.Load(); n != 1 {
		t.Errorf("%d hangs were counted", n)
	}
	r.check()
}

func TestLoginTimeout(t *testing.T) {
	r := newRig(t, 1, Config{LoginTimeout: 3 * time.Second})
	r.hold = true
	l := r.loops[0]
	l.now += 900
	silent, waiting := l.open(0, link.FormStream), l.open(1, link.FormStream)
	l.shard.OnMessage(waiting, connectBody("alice", "d"))
	l.pass(2999, 100)
	l.shard.OnMessage(silent, nil) // a ping is no login
	if l.conns[silent].over || l.conns[waiting].over {
		t.Fatal("ended before the time")
	}
	l.pass(1001, 100)
	if l.conns[silent].code != klink.DisconnectLoginTimeout || l.conns[waiting].code != klink.DisconnectLoginTimeout {
		t.Fatalf("ended with %v and %v", l.conns[silent].code, l.conns[waiting].code)
	}
	if r.admit(l.shard, waiting, "alice", "d") {
		t.Error("an answer that came too late made a session")
	}
	l.shard.Refuse(waiting, klink.DisconnectUnauthorized, "late as well")
	logins := &l.shard.stats.Logins
	if logins[LoginTimeout].Load() != 2 || logins[LoginGone].Load()+logins[LoginUnauthorized].Load()+logins[LoginOK].Load() != 0 {
		t.Error("a Connect has more than one result")
	}
	r.check()
}

func TestTokenExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the wall clock goes with the loop's
		r := newRig(t, 1, Config{})
		l := r.loops[0]
		pass := func(d time.Duration) {
			for range d / (100 * time.Millisecond) {
				time.Sleep(100 * time.Millisecond)
				l.now += 100
				l.round()
			}
		}
		wall := time.Now().Unix()
		r.admitted.ExpiresSec = wall + 30
		short, fresh, ended := r.enter(l, 0, "alice"), r.enter(l, 1, "bob"), r.enter(l, 2, "carol")
		r.admitted.ExpiresSec = 9_999_999_999 // the year 2286
		long := r.enter(l, 3, "dave")
		r.refresh = func(s *Shard, h klink.Handle, f *frame.Refresh) {
			s.Refreshed(h, f.ID, r.grant, wall+50, wall, klink.Disconnect(f.ID), "")
		}
		l.shard.OnMessage(fresh, frame.AppendRefresh(nil, &frame.Refresh{}))
		l.shard.OnMessage(ended, frame.AppendRefresh(nil, &frame.Refresh{ID: uint32(klink.DisconnectRevoked)}))
		if got := l.frames(t, fresh); !slices.Equal(got, []string{"error 0 ok "}) || l.conns[ended].code != klink.DisconnectRevoked {
			t.Fatalf("refreshed: %v, refused: %v", got, l.conns[ended].code)
		}
		pass(29*time.Second + 900*time.Millisecond)
		if l.conns[short].over {
			t.Fatal("ended before the token was")
		}
		pass(1100 * time.Millisecond)
		if c := l.conns[short]; c.code != klink.DisconnectTokenExpired {
			t.Errorf("at the end of the token: %v", c.code)
		}
		if l.conns[fresh].over || l.conns[long].over {
			t.Error("a session with a longer token was ended")
		}
		pass(20 * time.Second)
		if l.conns[fresh].code != klink.DisconnectTokenExpired || l.conns[long].over {
			t.Errorf("refreshed: %v, the year 2286: %v", l.conns[fresh].code, l.conns[long].code)
		}
		r.check()
	})
}

func TestSetHeartbeatStaysWithinBounds(t *testing.T) {
	r := newRig(t, 1, Config{HeartbeatSeconds: 60, HeartbeatMin: 20, HeartbeatMax: 120})
	l := r.loops[0]
	h := r.enter(l, 0, "alice")
	for wish, want := range map[uint32]uint16{0: 60, 1: 20, 20: 20, 77: 77, 120: 120, 1 << 31: 120, 1<<32 - 1: 120} {
		l.shard.OnMessage(h, frame.AppendSetHeartbeat(nil, &frame.SetHeartbeat{Seconds: wish}))
		if _, ss := l.shard.live(h); ss.heartbeat != want {
			t.Errorf("a wish for %d gives %d, want %d", wish, ss.heartbeat, want)
		}
	}
	l.shard.OnMessage(h, frame.AppendSetHeartbeat(nil, &frame.SetHeartbeat{Seconds: 20}))
	l.pass(41_000, 500)
	if !l.conns[h].over {
		t.Error("the shorter interval is not in force")
	}
	r.check()
}
