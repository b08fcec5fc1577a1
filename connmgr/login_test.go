package connmgr

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
)

func subscribeBody(id uint32, tags ...string) []byte {
	f := frame.Subscribe{ID: id}
	for _, t := range tags {
		f.Tags = append(f.Tags, frame.TagPosition{Tag: []byte(t)})
	}
	return frame.AppendSubscribe(nil, &f)
}

// What a client sends before it is admitted is served afterwards, in order, and so is what back ends change meanwhile.
func TestFramesAndTagsDuringALogin(t *testing.T) {
	r := newRig(t, 1, Config{})
	r.hold = true
	l := r.loops[0]
	h := l.open(0, link.FormStream)
	l.shard.OnMessage(h, connectBody("alice", "d"))
	l.shard.OnMessage(h, subscribeBody(1, "a"))
	l.shard.OnMessage(h, nil)
	l.shard.ChangeTags(h, []string{"vip", "old"}, nil)
	l.shard.ChangeTags(h, nil, []string{"old"})
	l.shard.OnMessage(h, subscribeBody(2, "b"))
	if got := l.frames(t, h); got != nil {
		t.Fatalf("answered before the login: %v", got)
	}
	if !l.shard.LoginPending(h) || !r.admit(l.shard, h, "alice", "d") || l.shard.LoginPending(h) {
		t.Fatal("not admitted")
	}
	if got, want := l.frames(t, h), []string{"connected", "tags +[vip old] -[]", "tags +[] -[old]", "subscribed", "subscribed"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	r.check()
}

func TestEarlyFramesAreBounded(t *testing.T) {
	r := newRig(t, 1, Config{})
	r.hold = true
	l := r.loops[0]
	h, tags := l.open(0, link.FormStream), l.open(1, link.FormStream)
	l.shard.OnMessage(h, connectBody("alice", "d"))
	n := 0
	for ; !l.conns[h].over && n < 1000; n++ {
		l.shard.OnMessage(h, subscribeBody(1, fmt.Sprintf("%01000d", n)))
	}
	if l.conns[h].code != klink.DisconnectRateLimited || n < 10 || n > maxEarly/1000+1 {
		t.Errorf("ended with %v after %d frames", l.conns[h].code, n)
	}
	if l.shard.stats.Refused[LimitEarlyFrames].Load() != 1 || l.shard.stats.Logins[LoginGone].Load() != 1 {
		t.Error("it is not counted")
	}
	l.shard.OnMessage(tags, connectBody("bob", "d"))
	for range maxEarlyChanges + 1 {
		l.shard.ChangeTags(tags, []string{"t"}, nil)
	}
	if l.conns[tags].code != klink.DisconnectOverloaded || len(l.shard.waiting) != 0 {
		t.Errorf("changes of tags without end: %v, %d wait", l.conns[tags].code, len(l.shard.waiting))
	}
	other := l.open(2, link.FormStream)
	l.shard.OnMessage(other, connectBody("carol", "d"))
	l.shard.earlyBytes += maxEarlyTotal
	l.shard.OnMessage(other, subscribeBody(1, "t"))
	l.shard.earlyBytes -= maxEarlyTotal
	if l.conns[other].code != klink.DisconnectRateLimited {
		t.Errorf("beyond the bound of all clients: %v", l.conns[other].code)
	}
	r.check()
}

// A kick between the registration and the answer to the client ends the login: the caller of Admit undoes the rest.
func TestKickDuringALogin(t *testing.T) {
	r := newRig(t, 1, Config{})
	r.hold = true
	l := r.loops[0]
	h := l.open(0, link.FormStream)
	l.shard.OnMessage(h, connectBody("alice", "d"))
	r.m.Disconnect(h, klink.DisconnectKicked, "kicked")
	l.round()
	if l.conns[h].code != klink.DisconnectKicked || r.admit(l.shard, h, "alice", "d") {
		t.Errorf("ended with %v, and admitted afterwards", l.conns[h].code)
	}
	r.m.Disconnect(h, klink.DisconnectKicked, "again")
	l.round()
	if len(r.ended) != 0 {
		t.Error("Ended was called for a session that was not")
	}
	r.check()
}

// Each way out of a login has one result.
func TestLoginResultsAddUp(t *testing.T) {
	r := newRig(t, 1, Config{FrameBurst: 50})
	r.hold = true
	l := r.loops[0]
	connects := uint64(0)
	for i, f := range []func(h klink.Handle){
		func(h klink.Handle) { r.admit(l.shard, h, "u", "d") },
		func(h klink.Handle) {
			l.shard.Refuse(h, klink.DisconnectUnauthorized, "no")
			r.admit(l.shard, h, "u", "d")
		},
		func(h klink.Handle) { l.leave(h); r.admit(l.shard, h, "u", "d") },
		func(h klink.Handle) { l.leave(h); l.shard.Refuse(h, klink.DisconnectTooMany, "late") },
		func(h klink.Handle) { r.m.Disconnect(h, klink.DisconnectReplaced, "newer"); l.round() },
		func(h klink.Handle) {
			for range 60 {
				l.shard.OnMessage(h, subscribeBody(1))
			}
		},
	} {
		h := l.open(uint32(i), link.FormStream)
		l.shard.OnMessage(h, connectBody("u", "d"))
		connects++
		f(h)
	}
	h := l.open(100, link.FormStream)
	l.shard.OnMessage(h, connectBody("u", "")) // no device
	connects++
	total := uint64(0)
	for i := range l.shard.stats.Logins {
		total += l.shard.stats.Logins[i].Load()
	}
	if total != connects {
		t.Errorf("%d results of %d logins", total, connects)
	}
	r.check()
}

func TestStateMachineRefuses(t *testing.T) {
	r := newRig(t, 1, Config{})
	l := r.loops[0]
	for i, tc := range []struct {
		name string
		live bool
		body []byte
		want klink.Disconnect
	}{
		{"first frame is no Connect", false, subscribeBody(1, "t"), klink.DisconnectProtocol},
		{"first frame is broken", false, []byte{0x0a, 0x7f}, klink.DisconnectProtocol},
		{"device id is too long", false, connectBody("u", string(make([]byte, 200))), klink.DisconnectBadConnect},
		{"a second Connect", true, connectBody("u", "d"), klink.DisconnectProtocol},
		{"a broken frame", true, []byte{0xff}, klink.DisconnectProtocol},
		{"a large frame without budget", true, make([]byte, 300<<10), klink.DisconnectRateLimited},
		{"good bye", true, frame.AppendBye(nil, &frame.Bye{}), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := l.open(uint32(i), link.FormStream)
			if tc.live {
				h = r.enter(l, uint32(100+i), "u", "t")
			}
			l.shard.OnMessage(h, tc.body)
			c := l.conns[h]
			if !c.over || c.code != tc.want {
				t.Errorf("over %v with %v, want %v", c.over, c.code, tc.want)
			}
			l.shard.OnMessage(h, subscribeBody(1, "late"))
			l.round()
			if _, told := r.ended[h]; told != tc.live {
				t.Errorf("the authority was told: %v", told)
			}
		})
	}
	r.check()
}

// Pings cost a little: a client can't have thousands answered.
func TestPingsAreBounded(t *testing.T) {
	r := newRig(t, 1, Config{FramesPerSecond: 10, FrameBurst: 20})
	l := r.loops[0]
	h := r.enter(l, 0, "u")
	n := 0
	for ; !l.conns[h].over && n < 10_000; n++ {
		l.shard.OnMessage(h, nil)
	}
	if l.conns[h].code != klink.DisconnectRateLimited || n > 200 || n < 100 {
		t.Errorf("ended with %v after %d pings", l.conns[h].code, n)
	}
	h = r.enter(l, 1, "u")
	for range 5000 { // ten times the rate of frames is fine
		l.now += 10
		l.shard.OnMessage(h, nil)
	}
	if l.conns[h].over {
		t.Error("a steady client was ended")
	}
	r.check()
}

func TestTagLimits(t *testing.T) {
	r := newRig(t, 1, Config{MaxTags: 4})
	l := r.loops[0]
	h := r.enter(l, 0, "u")
	tags := func() int { return l.shard.index.Count(0) }
	l.shard.OnMessage(h, subscribeBody(1, "a", "b", "c", "d", "e", "a"))
	if tags() != 4 {
		t.Errorf("%d tags", tags())
	}
	// A back end's tag is not lost because of what the client has subscribed to.
	l.shard.ChangeTags(h, []string{"x", "y", "a"}, nil)
	if tags() != 6 {
		t.Errorf("%d tags with those of back ends", tags())
	}
	l.shard.OnMessage(h, subscribeBody(2, "f", "x"))
	if tags() != 6 {
		t.Errorf("%d tags after the limit", tags())
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprint("many", i))
	}
	l.shard.ChangeTags(h, many, nil)
	if tags() != 4+backEndTags {
		t.Errorf("%d tags, bound %d", tags(), 4+backEndTags)
	}
	l.conns[h].writes = nil
	l.now += 60_000
	l.shard.OnMessage(h, subscribeBody(3, many...)) // 1,000: a result each
	l.shard.OnMessage(h, subscribeBody(4, append(many, many[:100]...)...))
	if got := l.frames(t, h); !slices.Equal(got, []string{"subscribed", "error 4 limit_exceeded tags"}) {
		t.Errorf("got %v", got)
	}
	if n := len(l.conns[h].writes[0]); n > 20_000 {
		t.Errorf("an answer of %d bytes", n)
	}
	r.check()
}

func TestOneRefreshAtATime(t *testing.T) {
	r := newRig(t, 1, Config{})
	l := r.loops[0]
	h := r.enter(l, 0, "u")
	asked := 0
	r.refresh = func(*Shard, klink.Handle, *frame.Refresh) { asked++ }
	for id := range uint32(3) {
		l.shard.OnMessage(h, frame.AppendRefresh(nil, &frame.Refresh{ID: id + 1}))
	}
	l.shard.RefreshLater(h, 1, "busy")
	l.shard.OnMessage(h, frame.AppendRefresh(nil, &frame.Refresh{ID: 4}))
	l.shard.Refreshed(h, 4, r.grant, 0, 0, 0, "")
	want := []string{"error 2 conflict refreshes", "error 3 conflict refreshes", "error 1 overloaded ", "error 4 ok "}
	if got := l.frames(t, h); asked != 2 || !slices.Equal(got, want) {
		t.Errorf("asked %d times, answered %v", asked, got)
	}
	r.check()
}

func TestRequestsInFlight(t *testing.T) {
	r := newRig(t, 1, Config{MaxRequests: 2})
	l := r.loops[0]
	h := r.enter(l, 0, "u")
	var ids []uint32
	r.publish = func(_ *Shard, _ klink.Handle, p *frame.Publish) { ids = append(ids, p.ID) }
	pub := func(id uint32) {
		l.shard.OnMessage(h, frame.AppendPublish(nil, &frame.Publish{ID: id, Tag: []byte("t")}))
	}
	pub(1)
	pub(2)
	pub(3)
	l.shard.Published(h, 1, "p", &klink.Report{}, nil)
	l.shard.Published(h, 2, "", nil, klink.Errorf(klink.CodeUnavailable, "away"))
	pub(4)
	want := []string{"error 3 limit_exceeded requests", "published", "error 2 unavailable "}
	if got := l.frames(t, h); !slices.Equal(got, want) || !slices.Equal(ids, []uint32{1, 2, 4}) {
		t.Errorf("answered %v, asked for %v", got, ids)
	}
	l.leave(h)
	l.shard.Published(h, 4, "p", &klink.Report{}, nil)
	if l.shard.stats.Stale.Load() != 1 {
		t.Error("an answer for nobody is not counted")
	}
	r.check()
}

// A question whose context has ended is not looked at any more, though a loop still answers it.
func TestQuestionsWithAnEndedContext(t *testing.T) {
	r := newRig(t, 2, Config{})
	h := r.enter(r.loops[0], 0, "u", "t")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // the loops run meanwhile
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				for _, l := range r.loops {
					l.shard.drainMailbox()
				}
			}
		}
	}()
	for range 200 {
		if n, err := r.m.Count(ctx, "app", "t"); err == nil && n != 1 {
			t.Errorf("counted %d", n)
		}
		if page, _, _, err := r.m.Members(ctx, "app", "t", MemberCursor{}, 10); err == nil && len(page) != 1 {
			t.Errorf("members %v", page)
		}
		if info, ok, err := r.m.Session(ctx, h); err == nil && (!ok || len(info.Tags) != 1) {
			t.Errorf("session %+v", info)
		}
		if _, err := r.m.Drops(ctx, "app"); err != nil && err != context.Canceled {
			t.Error(err)
		}
		if err := r.m.ChangeTags(ctx, []klink.Handle{h}, []string{"t"}, nil); err != nil && err != context.Canceled {
			t.Error(err)
		}
		if err := r.m.Walk(ctx, 1, func(l []Registered) error { l[0].User = "x"; return nil }); err != nil && err != context.Canceled {
			t.Error(err)
		}
	}
	close(stop)
	<-done
	r.check()
}
