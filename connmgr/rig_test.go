package connmgr

import (
	"fmt"
	"testing"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
)

// testLoop is a transport without sockets whose time and blocked connections the test decides on.
type testLoop struct {
	index  int
	now    int64
	quiet  bool // do not record what is sent
	sends  int
	onSend func(h klink.Handle)
	conns  map[klink.Handle]*testConn
	gens   map[uint32]uint32
	wakes  int
	here   int
	shard  *Shard
	closed []klink.Handle // closed by us, OnClose is due
}

type testConn struct {
	form    link.Form
	limit   int // writes taken before it blocks; negative: never
	pending int // bytes of the frame that was queued
	writes  [][]byte
	code    klink.Disconnect
	over    bool
}

func (l *testLoop) Index() int   { return l.index }
func (l *testLoop) NowMs() int64 { return l.now }
func (l *testLoop) Wake()        { l.wakes++ }
func (l *testLoop) WakeHere()    { l.here++ }

func (l *testLoop) Send(h klink.Handle, f *link.Frame) link.Result {
	c := l.conns[h]
	l.sends++
	if l.onSend != nil {
		l.onSend(h)
	}
	if l.quiet {
		return link.Accepted
	}
	if c == nil || c.over || c.pending > 0 {
		return link.Refused
	}
	b := f.Bytes(c.form)
	c.writes = append(c.writes, b)
	if c.limit == 0 {
		c.pending = len(b)
		return link.Queued
	}
	c.limit--
	return link.Accepted
}

func (l *testLoop) PendingBytes(h klink.Handle) int {
	if c := l.conns[h]; c != nil {
		return c.pending
	}
	return 0
}

func (l *testLoop) Close(h klink.Handle, code klink.Disconnect, _ string) {
	if c := l.conns[h]; c != nil && !c.over {
		c.over, c.code = true, code
		l.closed = append(l.closed, h)
	}
}

// round is one round of the loop at its present time: OnClose of what was closed, then OnRound until nothing is to do now.
func (l *testLoop) round() (waitMs int) {
	for range 100_000 {
		for _, h := range l.closed {
			l.shard.OnClose(h, link.CloseLocal)
		}
		l.closed = l.closed[:0]
		if waitMs = l.shard.OnRound(l.now); waitMs != 0 && len(l.closed) == 0 {
			return waitMs
		}
	}
	panic("rounds without end")
}

// pass lets time go by in steps of at most step ms, with a round after each.
func (l *testLoop) pass(ms, step int64) {
	for end := l.now + ms; l.now < end; {
		l.now = min(end, l.now+step)
		l.round()
	}
}

// unblock takes what was queued, and n writes more.
func (l *testLoop) unblock(h klink.Handle, n int) {
	c := l.conns[h]
	c.pending, c.limit = 0, n
	l.shard.OnWritable(h)
}

// rig is a manager over test loops, whose authority admits everybody at once unless the test decides.
type rig struct {
	t     testing.TB
	m     *Manager
	loops []*testLoop
	grant *auth.Grants

	hold     bool // logins wait for the test
	ended    map[klink.Handle]klink.Disconnect
	logins   []klink.Handle
	publish  func(s *Shard, h klink.Handle, p *frame.Publish)
	refresh  func(s *Shard, h klink.Handle, r *frame.Refresh)
	admitted Admission // template
}

func newRig(t testing.TB, loops int, cfg Config) *rig {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, ended: make(map[klink.Handle]klink.Disconnect), grant: grants(t)}
	r.m = NewManager(cfg, r)
	r.m.SetIncarnation(klink.Incarnation{FE: "fe", Num: 1})
	for i := range loops {
		l := &testLoop{index: i, now: 100_000, conns: make(map[klink.Handle]*testConn), gens: make(map[uint32]uint32)}
		l.shard = r.m.NewHandler(l).(*Shard)
		r.loops = append(r.loops, l)
	}
	return r
}

// grants are those of a token that allows everything.
func grants(t testing.TB) *auth.Grants {
	secret := []byte("0123456789abcdef0123456789abcdef")
	key, err := auth.NewSecretKey("k", secret)
	if err != nil {
		t.Fatal(err)
	}
	v, err := auth.NewVerifier(auth.VerifierConfig{}, []*auth.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	c := auth.Claims{User: "u", Subscribe: []string{"*"}, Publish: []string{"*"}, Services: []string{"*"}, Expires: testNow.Add(1 << 40)}
	tok, err := auth.Mint(auth.SigningKey{KID: "k", Secret: secret}, c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := v.Verify([]byte(tok), testNow)
	if err != nil {
		t.Fatal(err)
	}
	return got.Grants
}

func (r *rig) Login(s *Shard, h klink.Handle, c *frame.Connect) {
	if r.hold {
		r.logins = append(r.logins, h)
		return
	}
	r.admit(s, h, string(c.Token), string(c.Device))
}

func (r *rig) admit(s *Shard, h klink.Handle, user, device string) bool {
	a := r.admitted
	a.Identity = Identity{App: "app", User: user, Device: device}
	if r.admitted.App != "" {
		a.App = r.admitted.App
	}
	a.Grants = r.grant
	return s.Admit(h, &a)
}

func (r *rig) Ended(_ *Shard, h klink.Handle, _ Identity, why klink.Disconnect) {
	if _, twice := r.ended[h]; twice {
		r.t.Errorf("session %v ended twice", h)
	}
	r.ended[h] = why
}

func (r *rig) Refresh(s *Shard, h klink.Handle, f *frame.Refresh) {
	if r.refresh != nil {
		r.refresh(s, h, f)
	}
}

func (r *rig) Publish(s *Shard, h klink.Handle, p *frame.Publish) {
	if r.publish != nil {
		r.publish(s, h, p)
	}
}

func (r *rig) Request(s *Shard, h klink.Handle, q *frame.Request) {
	s.Respond(h, &frame.Response{ID: q.ID, Body: q.Body})
}

// open makes a connection in a slot and tells its handle.
func (l *testLoop) open(slot uint32, form link.Form) klink.Handle {
	l.gens[slot]++
	h := klink.MakeHandle(uint8(l.index), slot, l.gens[slot])
	l.conns[h] = &testConn{form: form, limit: -1}
	l.shard.OnOpen(h, link.Info{Transport: klink.TransportTCP, Form: form})
	return h
}

func connectBody(user, device string, tags ...string) []byte {
	c := frame.Connect{Token: []byte(user), Device: []byte(device)}
	for _, t := range tags {
		c.Tags = append(c.Tags, []byte(t))
	}
	return frame.AppendConnect(nil, &c)
}

// enter makes a live session that carries tags; what it was sent so far is forgotten.
func (r *rig) enter(l *testLoop, slot uint32, user string, tags ...string) klink.Handle {
	r.t.Helper()
	h := l.open(slot, link.FormStream)
	r.admitted.Tags = tags
	l.shard.OnMessage(h, connectBody(user, "d"))
	r.admitted.Tags = nil
	if _, ss := l.shard.live(h); ss == nil && !r.hold {
		r.t.Fatalf("%s was not admitted: %v", user, l.frames(r.t, h))
	}
	l.conns[h].writes = nil
	return h
}

// leave is the client's end of a connection.
func (l *testLoop) leave(h klink.Handle) {
	delete(l.conns, h)
	l.shard.OnClose(h, link.ClosePeer)
}

// frames are those that a stream connection was sent, in words.
func (l *testLoop) frames(t testing.TB, h klink.Handle) (out []string) {
	for _, w := range l.conns[h].writes {
		out = append(out, words(t, w)...)
	}
	return out
}

// words reads the frames of one write on a stream.
func words(t testing.TB, b []byte) (out []string) {
	t.Helper()
	for len(b) > 0 {
		n, hdr, err := frame.Length(b, 1<<24)
		if err != nil {
			t.Fatal(err)
		}
		var f frame.Server
		if err := f.Decode(b[hdr : hdr+n]); err != nil {
			t.Fatal(err)
		}
		b = b[hdr+n:]
		out = append(out, word(&f))
	}
	return out
}

func word(f *frame.Server) string {
	switch f.Kind {
	case frame.ServerPush:
		return fmt.Sprintf("push %s", f.Push.ID)
	case frame.ServerGap:
		return fmt.Sprintf("gap %s %d %s", f.Gap.Tag, f.Gap.Count, f.Gap.Reason)
	case frame.ServerDisconnect:
		return fmt.Sprintf("disconnect %d", f.Disconnect.Code)
	case frame.ServerError:
		return fmt.Sprintf("error %d %v %s", f.Error.ID, f.Error.Code, f.Error.Limit)
	case frame.ServerTagsChanged:
		return fmt.Sprintf("tags +%s -%s", f.TagsChanged.Added, f.TagsChanged.Removed)
	default:
		return f.Kind.String()
	}
}

// pushed is a push that was handed to the manager, and its report once there is one.
type pushed struct {
	rep  klink.Report
	done int
}

func aPush(app, id string) *klink.Push {
	return &klink.Push{ID: id, App: app, Payload: klink.Payload{Kind: klink.DataText, Data: []byte("hello")}, Accepted: testNow}
}

// deliver posts a push; the loops have to run for it.
func (r *rig) deliver(d klink.Delivery) *pushed {
	r.t.Helper()
	p := new(pushed)
	if err := r.m.Deliver(&d, nil, func(rep klink.Report) { p.rep, p.done = rep, p.done+1 }); err != nil {
		r.t.Fatalf("push %s: %v", d.Push.ID, err)
	}
	return p
}

func (r *rig) toTags(id string, tags ...string) *pushed {
	return r.deliver(klink.Delivery{Push: aPush("app", id), Tags: tags})
}

// check holds what must be true when everybody has left.
func (r *rig) check() {
	r.t.Helper()
	for _, l := range r.loops {
		s := l.shard
		for h := range l.conns {
			l.leave(h)
		}
		l.closed = nil
		l.round()
		if n := s.stats.Sessions.Load(); n != 0 {
			r.t.Errorf("loop %d: %d sessions", l.index, n)
		}
		if n := s.stats.Open.Load(); n != 0 {
			r.t.Errorf("loop %d: %d connections", l.index, n)
		}
		if n := s.stats.Blocked.Load(); n != 0 || len(s.queues.all) != len(s.queues.free) {
			r.t.Errorf("loop %d: %d blocked, %d queues of which %d are free", l.index, n, len(s.queues.all), len(s.queues.free))
		}
		if s.index.Memberships() != 0 || len(s.waiting) != 0 || s.earlyBytes != 0 || len(s.grants.index) != 0 || s.box.bytes != 0 || len(s.ring) != 0 {
			r.t.Errorf("loop %d: left: %d memberships, %d waiting, %d grants, %d bytes in the mailbox, %d lanes", l.index,
				s.index.Memberships(), len(s.waiting), len(s.grants.index), s.box.bytes, len(s.ring))
		}
		for _, c := range s.ids.classes {
			if int(c.used) != len(c.free) {
				r.t.Errorf("loop %d: %d id blocks, %d free", l.index, c.used, len(c.free))
			}
		}
		if _, due := s.wheel.wait(); due {
			r.t.Errorf("loop %d: the wheel is not empty", l.index)
		}
	}
	if n := r.m.QueuedBytes(); n != 0 {
		r.t.Errorf("%d bytes are queued for nobody", n)
	}
}
