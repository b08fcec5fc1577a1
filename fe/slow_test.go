package fe

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/connmgr"
	"github.com/klinkio/klink/proto/frame"
)

// stuck connects a device that does not read: its receive buffer is tiny from the start.
func stuck(t *testing.T, n *node, user string, tags ...string) *device {
	t.Helper()
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if cerr := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) }); cerr != nil {
			return cerr
		}
		return err
	}}
	c, err := small.DialContext(t.Context(), "tcp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	d := deviceOn(t, c)
	d.connect(token(t, auth.Claims{User: user, Subscribe: []string{"*"}}), user+"-phone", tags...)
	d.want(frame.ServerConnected)
	return d
}

// fill pushes until the session of the tag has frames in its queue, and returns the ids that were sent.
func fill(t *testing.T, n *node, tag string, change func(*klink.Push)) (sent int) {
	t.Helper()
	for range 10_000 {
		r := n.push(t, klink.Target{Tags: []string{tag}}, strings.Repeat("x", 1000), change)
		sent++
		if r.Queued == 1 {
			return sent
		}
		if r.Enqueued != 1 {
			t.Fatalf("push %d: %+v", sent, r)
		}
	}
	t.Fatal("the reader never blocked")
	return 0
}

func TestSlowReaderGetsEverythingWithinItsBudget(t *testing.T) {
	n := startNode(t, func(c *Config) { c.Sessions.QueueBytes = 1 << 20 })
	d := stuck(t, n, "alice", "t")
	sent := fill(t, n, "t", nil)
	for range 100 {
		n.push(t, klink.Target{Tags: []string{"t"}}, fmt.Sprint(sent), nil)
		sent++
	}
	for i := range sent {
		if f := d.want(frame.ServerPush); f.Push.Tag == nil {
			t.Fatalf("push %d has no tag", i)
		}
	}
	if q := n.Sessions().QueuedBytes(); q != 0 {
		t.Errorf("%d bytes are still counted as queued", q)
	}
}

func TestSlowReaderIsToldWhatWasDropped(t *testing.T) {
	n := startNode(t, func(c *Config) { c.Sessions.QueueBytes = 16 << 10 })
	d := stuck(t, n, "alice", "t")
	droppable := func(p *klink.Push) { p.Droppable = true }
	sent := fill(t, n, "t", droppable)
	var last string
	for i := range 200 {
		last = fmt.Sprint("late ", i, strings.Repeat("y", 1000))
		n.push(t, klink.Target{Tags: []string{"t"}}, last, droppable)
		sent++
	}
	got, gaps := 0, 0
	for got+gaps < sent {
		f, err := d.next()
		if err != nil {
			t.Fatalf("after %d pushes and %d told as dropped of %d: %v", got, gaps, sent, err)
		}
		switch f.Kind {
		case frame.ServerPush:
			got++
			if got+gaps == sent && string(f.Push.Body.Data) != last {
				t.Errorf("the last frame is not the newest push")
			}
		case frame.ServerGap:
			if f.Gap.Reason != klink.DropDroppable.String() || f.Gap.Tag != "t" {
				t.Errorf("gap %+v", f.Gap)
			}
			gaps += int(f.Gap.Count)
		default:
			t.Fatalf("got %v", f.Kind)
		}
	}
	if gaps == 0 {
		t.Error("nothing was dropped: the test proves nothing")
	}
	if late := n.LateOutcomes("none"); late != nil {
		t.Errorf("outcomes of an unknown push: %v", late)
	}
}

func TestCollapseKeepsTheNewest(t *testing.T) {
	n := startNode(t, func(c *Config) { c.Sessions.QueueBytes = 16 << 10 })
	d := stuck(t, n, "alice", "t")
	sent := fill(t, n, "t", nil)
	const more = 300
	for i := range more {
		n.push(t, klink.Target{Tags: []string{"t"}}, fmt.Sprintf("score %d %s", i, bytes.Repeat([]byte{'z'}, 500)), func(p *klink.Push) { p.CollapseKey = "score" })
	}
	got, gaps, lastScore := 0, 0, -1
	for got+gaps < sent+more {
		f, err := d.next()
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == frame.ServerGap {
			gaps += int(f.Gap.Count)
			continue
		}
		got++
		var i int
		if k, _ := fmt.Sscanf(string(f.Push.Body.Data), "score %d", &i); k == 1 {
			if i <= lastScore {
				t.Fatalf("score %d after %d", i, lastScore)
			}
			lastScore = i
		}
	}
	if lastScore != more-1 || gaps == 0 {
		t.Errorf("the last score is %d of %d, %d were told as collapsed", lastScore, more-1, gaps)
	}
}

func TestStuckReaderIsClosedAndOthersAreNot(t *testing.T) {
	n := startNode(t, func(c *Config) { c.Sessions.QueueBytes = 16 << 10; c.Net.CloseGrace = 100 * time.Millisecond })
	stuck(t, n, "alice", "t")
	good := enter(t, n, "bob", "t")
	var slow *klink.Report
	var pushID string
	sent := 0
	done := make(chan int, 1)
	go func() {
		got := 0
		for {
			f, err := good.next()
			if err != nil || f.Kind != frame.ServerPush || string(f.Push.Body.Data) == "end" {
				done <- got
				return
			}
			got++
		}
	}()
	for slow == nil && sent < 10_000 {
		r := n.push(t, klink.Target{Tags: []string{"t"}}, strings.Repeat("x", 1000), func(p *klink.Push) { pushID = p.ID })
		sent++
		if r.Dropped[klink.DropSlow] == 1 {
			slow = &r
		}
	}
	if slow == nil || slow.Enqueued != 1 || slow.Matched != 2 {
		t.Fatalf("after %d pushes: %+v", sent, slow)
	}
	found := false
	for _, o := range slow.Outcomes {
		found = found || (o.User == "alice" && o.Result == klink.DropSlow.String())
	}
	if !found {
		t.Errorf("push %s: no outcome says that alice was too slow: %+v", pushID, slow.Outcomes)
	}
	n.push(t, klink.Target{Tags: []string{"t"}}, "end", nil)
	if got := <-done; got != sent {
		t.Errorf("bob got %d of %d", got, sent)
	}
	if r := n.push(t, klink.Target{Users: []string{"alice"}}, "x", nil); r.Matched != 0 {
		t.Errorf("alice is still there: %+v", r)
	}
}

func TestMemoryBoundOfAllSessions(t *testing.T) {
	n := startNode(t, func(c *Config) { c.Sessions.QueueBytes = 1 << 20; c.Sessions.QueueTotalBytes = 32 << 10 })
	d := stuck(t, n, "alice", "t")
	sent := fill(t, n, "t", nil)
	dropped := 0
	for range 100 {
		r := n.push(t, klink.Target{Tags: []string{"t"}}, strings.Repeat("y", 1000), nil)
		sent++
		dropped += int(r.Dropped[klink.DropMemory])
	}
	if dropped == 0 {
		t.Fatal("the bound of all sessions was never reached")
	}
	got, gaps := 0, 0
	for got+gaps < sent {
		f, err := d.next()
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == frame.ServerGap {
			if f.Gap.Reason != klink.DropMemory.String() {
				t.Errorf("gap %+v", f.Gap)
			}
			gaps += int(f.Gap.Count)
		} else {
			got++
		}
	}
	if gaps != dropped {
		t.Errorf("%d dropped, %d told", dropped, gaps)
	}
}

func TestExpiredFramesAreNotSent(t *testing.T) {
	n := startNode(t, func(c *Config) { c.Sessions.QueueBytes = 1 << 20 })
	d := stuck(t, n, "alice", "t")
	sent := fill(t, n, "t", nil)
	var id string
	n.push(t, klink.Target{Tags: []string{"t"}}, "too late", func(p *klink.Push) { p.Expires, id = time.Now().Add(time.Millisecond), p.ID })
	n.push(t, klink.Target{Tags: []string{"t"}}, "end", nil)
	for until := time.Now().Add(5 * time.Millisecond); time.Now().Before(until); {
	}
	gaps := 0
	for i := 0; ; i++ {
		f, err := d.next()
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == frame.ServerGap {
			gaps += int(f.Gap.Count)
			continue
		}
		if s := string(f.Push.Body.Data); s == "too late" {
			t.Fatal("an expired push was sent")
		} else if s == "end" {
			break
		}
		if i > sent+5 {
			t.Fatal("too many frames")
		}
	}
	if gaps != 1 {
		t.Errorf("%d told as dropped, want 1", gaps)
	}
	if late := n.LateOutcomes(id); len(late) != 1 || late[0].Result != klink.DropExpired.String() || late[0].User != "alice" {
		t.Errorf("late outcomes: %+v", late)
	}
}

func TestLimitsAreNamed(t *testing.T) {
	n := startNode(t, func(c *Config) {
		c.Sessions.MaxTags, c.Sessions.PublishPayloadBytes, c.Sessions.FrameBurst, c.Sessions.MaxFrame = 2, 100, 60, 2048
	})
	d := enter(t, n, "alice", "a", "b", "c")
	if r := d.in.Connected.Tags; r[1].Error != klink.OK || r[2].Error != klink.CodeLimit {
		t.Errorf("the third tag: %+v", r)
	}
	d.send(frame.AppendSubscribe(nil, &frame.Subscribe{ID: 1, Tags: []frame.TagPosition{{Tag: []byte("d")}, {Tag: []byte("a")}, {Tag: bytes.Repeat([]byte("x"), 200)}}}))
	if r := d.want(frame.ServerSubscribed).Subscribed.Tags; r[0].Error != klink.CodeLimit || r[1].Error != klink.OK || r[2].Error != klink.CodeInvalid {
		t.Errorf("subscribe beyond the limit: %+v", r)
	}
	d.send(frame.AppendPublish(nil, &frame.Publish{ID: 2, Tag: []byte("a"), Body: frame.Body{Data: make([]byte, 101)}}))
	if e := d.want(frame.ServerError).Error; e.ID != 2 || e.Code != klink.CodeTooLarge || e.Limit != connmgr.LimitPayload.String() {
		t.Errorf("a payload over the limit: %+v", e)
	}
	d.send(frame.AppendPublish(nil, &frame.Publish{ID: 3, Tag: []byte("a"), Body: frame.Body{Kind: klink.DataJSON, Data: []byte("{")}}))
	if e := d.want(frame.ServerError).Error; e.ID != 3 || e.Code != klink.CodeInvalid {
		t.Errorf("broken JSON: %+v", e)
	}
	t.Run("frames", func(t *testing.T) {
		d := enter(t, n, "bob")
		for range 100 {
			if _, err := d.c.Write(frame.AppendStream(nil, frame.AppendSetHeartbeat(nil, &frame.SetHeartbeat{Seconds: 30}))); err != nil {
				break
			}
		}
		if f := d.want(frame.ServerDisconnect).Disconnect; klink.Disconnect(f.Code) != klink.DisconnectRateLimited {
			t.Errorf("a flood of frames: %+v", f)
		}
	})
	t.Run("frame size", func(t *testing.T) {
		d := enter(t, n, "carol")
		d.c.Write(frame.AppendStream(nil, make([]byte, 4096)))
		if f := d.want(frame.ServerDisconnect).Disconnect; klink.Disconnect(f.Code) != klink.DisconnectTooLarge {
			t.Errorf("a frame over the limit: %+v", f)
		}
		if _, err := d.next(); err != io.EOF {
			t.Errorf("after Disconnect: %v", err)
		}
	})
}

func TestTagsOfBackEnds(t *testing.T) {
	n := startNode(t, nil)
	d := enter(t, n, "alice", "own")
	u, err := n.store.ChangeTags(t.Context(), klink.DefaultApp, "alice", []string{"vip", "own"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ref := []klink.SessionRef{{Incarnation: u.Sessions[0].Incarnation, Handle: u.Sessions[0].Handle}}
	if err := n.ChangeTags(t.Context(), ref, []string{"vip", "own"}, nil); err != nil {
		t.Fatal(err)
	}
	if m := d.want(frame.ServerTagsChanged).TagsChanged; len(m.Added) != 1 || m.Added[0] != "vip" || len(m.Removed) != 0 {
		t.Errorf("told %+v", m)
	}
	if c, err := n.TagCount(t.Context(), klink.DefaultApp, "vip"); err != nil || c != 1 {
		t.Errorf("count %d %v", c, err)
	}
	if c, _ := n.TagCount(t.Context(), "other", "vip"); c != 0 {
		t.Errorf("another app sees %d", c)
	}
	if err := n.ChangeTags(t.Context(), ref, nil, []string{"vip"}); err != nil {
		t.Fatal(err)
	}
	if m := d.want(frame.ServerTagsChanged).TagsChanged; len(m.Removed) != 1 || m.Removed[0] != "vip" {
		t.Errorf("told %+v", m)
	}
	// They come back with the next login.
	d2 := enter(t, n, "alice")
	if tags := d2.in.Connected.Tags; len(tags) != 2 {
		t.Errorf("after a reconnect: %+v", tags)
	}
}

func TestMembersArePaged(t *testing.T) {
	n := startNode(t, nil)
	want := make(map[string]bool)
	for i := range 25 {
		u := fmt.Sprint("user", i)
		want[u] = true
		enter(t, n, u, "t")
	}
	cursor := uint64(0)
	for pages := 0; ; pages++ {
		page, next, done, err := n.Members(t.Context(), klink.DefaultApp, "t", cursor, 4)
		if err != nil || len(page) > 4 || pages > 20 {
			t.Fatalf("page %d of %d members, %v", pages, len(page), err)
		}
		for _, m := range page {
			if !want[m.User] || m.Device != m.User+"-phone" || m.Transport != klink.TransportTCP {
				t.Errorf("member %+v is unknown or came twice", m)
			}
			delete(want, m.User)
		}
		if cursor = next; done {
			break
		}
	}
	if len(want) != 0 {
		t.Errorf("not listed: %v", want)
	}
}

func TestAppsAreApart(t *testing.T) {
	n := startNode(t, nil)
	a := enter(t, n, "alice", "t")
	b := dial(t, n.addr)
	b.connect(token(t, auth.Claims{User: "alice", App: "other", Subscribe: []string{"*"}}), "phone", "t")
	b.want(frame.ServerConnected)
	for _, to := range []klink.Target{{Tags: []string{"t"}}, {All: true}, {Users: []string{"alice"}}, {Expr: "t"}} {
		if r := n.push(t, to, "x", nil); r.Matched != 1 {
			t.Errorf("%+v matched %d sessions", to, r.Matched)
		}
		a.want(frame.ServerPush)
	}
	b.send(nil)
	b.want(frame.ServerPong) // and no push before it
}

func TestRefresh(t *testing.T) {
	n := startNode(t, nil)
	d := enter(t, n, "alice")
	d.send(frame.AppendRefresh(nil, &frame.Refresh{ID: 5, Token: []byte(token(t, auth.Claims{User: "alice", Subscribe: []string{"only"}}))}))
	if e := d.want(frame.ServerError).Error; e.ID != 5 || e.Code != klink.OK {
		t.Errorf("refresh: %+v", e)
	}
	d.send(frame.AppendSubscribe(nil, &frame.Subscribe{ID: 6, Tags: []frame.TagPosition{{Tag: []byte("only")}, {Tag: []byte("other")}}}))
	if r := d.want(frame.ServerSubscribed).Subscribed.Tags; r[0].Error != klink.OK || r[1].Error != klink.CodeForbidden {
		t.Errorf("the new grants are not in force: %+v", r)
	}
	d.send(frame.AppendRefresh(nil, &frame.Refresh{ID: 7, Token: []byte(token(t, auth.Claims{User: "bob"}))}))
	if f := d.want(frame.ServerDisconnect).Disconnect; klink.Disconnect(f.Code) != klink.DisconnectForbidden {
		t.Errorf("a token of somebody else: %+v", f)
	}
}

func TestTokenExpiryEndsTheSession(t *testing.T) {
	n := startNode(t, nil)
	d := dial(t, n.addr)
	d.connect(token(t, auth.Claims{User: "alice", Expires: time.Now().Add(2 * time.Second)}), "phone")
	d.want(frame.ServerConnected)
	if f := d.want(frame.ServerDisconnect).Disconnect; klink.Disconnect(f.Code) != klink.DisconnectTokenExpired || !f.Retry {
		t.Errorf("told %+v", f)
	}
}

// Publishes of one app that do not come to an end take nothing from another app.
func TestPublishesOfAnAppAreBounded(t *testing.T) {
	n := startNode(t, nil)
	a := enter(t, n, "alice", "t")
	b := dial(t, n.addr)
	b.connect(token(t, auth.Claims{App: "other", User: "bob", Publish: []string{"*"}}), "d")
	b.want(frame.ServerConnected)
	n.publishing[klink.DefaultApp].Add(maxPublishing / 2)
	p := frame.AppendPublish(nil, &frame.Publish{ID: 1, Tag: []byte("t"), Body: frame.Body{Kind: klink.DataText, Data: []byte("x")}})
	a.send(p)
	if e := a.want(frame.ServerError).Error; e.Code != klink.CodeOverloaded {
		t.Errorf("beyond its share: %+v", e)
	}
	b.send(p)
	b.want(frame.ServerPublished)
	n.publishing[klink.DefaultApp].Add(-maxPublishing / 2)
	a.send(p)
	for range 2 {
		if f, err := a.next(); err != nil || f.Kind != frame.ServerPush && f.Kind != frame.ServerPublished {
			t.Errorf("got %v %v", f.Kind, err)
		}
	}
}

// A payload of more than half of the budget still collapses to its newest behind a reader that is stuck.
func TestLargePayloadsCollapse(t *testing.T) {
	n := startNode(t, func(c *Config) { c.Sessions.QueueBytes = 64 << 10 })
	d := stuck(t, n, "alice", "t")
	fill(t, n, "t", nil)
	for i := range 20 {
		r := n.push(t, klink.Target{Tags: []string{"t"}}, fmt.Sprintf("%d %s", i, strings.Repeat("x", 50_000)), func(p *klink.Push) { p.CollapseKey = "k" })
		if r.Enqueued != 1 {
			t.Fatalf("push %d: %+v", i, r)
		}
	}
	for {
		f, err := d.next()
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == frame.ServerPush && strings.HasPrefix(string(f.Push.Body.Data), "19 ") {
			return
		}
	}
}
