package connmgr

import (
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
	"github.com/klinkio/klink/tagindex"
)

// Shard is the sessions of one loop. All fields but box and stats belong to the loop's goroutine.
type Shard struct {
	mgr  *Manager
	loop link.Loop

	box   mailbox
	stats Stats

	slab    slab
	ids     idArena
	grants  grantTable
	apps    appTable
	index   *tagindex.Local
	wheel   wheel
	queues  queueTable
	waiting map[klink.Handle]*early // what came while the login was with the authority

	earlyBytes int // in waiting

	ring   []*lane // lanes with work
	turn   int
	single round
	tasks  []Task
	parts  []*part

	dueMs    int64  // when the next round should begin at the latest; negative: whenever there is something
	graceTil uint32 // second before which nobody is ended for silence, as the loop itself was not there

	nowMs   int64     // loop clock at the last round
	roundAt time.Time // wall clock then
	client  frame.Client
	buf     []byte // scratch for encoded frames that are copied or sent at once
	results []frame.TagResult
	keyBuf  []byte
	walkBuf [64]uint32
	sets    []*slotSet
	pong    *link.Frame
	dueFn   func(uint32, *session)
	drain   drainer
}

func newShard(m *Manager, loop link.Loop) *Shard {
	s := &Shard{
		mgr: m, loop: loop, index: tagindex.NewLocal(), waiting: make(map[klink.Handle]*early),
		pong: link.NewFrame(nil), roundAt: time.Now(), nowMs: loop.NowMs(), dueMs: -1,
	}
	s.wheel.now = s.seconds()
	s.dueFn = s.due
	return s
}

// Stats are the shard's counters; any goroutine may read them.
func (s *Shard) Stats() *Stats { return &s.stats }

// Post gives the loop a task. Any goroutine may call it; it never blocks. False: the loop has ended and the task will not run.
func (s *Shard) Post(t Task) bool {
	wake, ok := s.box.post(t)
	if wake {
		s.loop.Wake()
	}
	return ok
}

// seconds is the loop's clock; between rounds it is ahead of nowMs, by as long as the loop has slept.
func (s *Shard) seconds() uint32 { return uint32(s.loop.NowMs() / 1000) }

// heard notes that the client was heard. The second is rounded up, so that two silent intervals are never less than that.
func (s *Shard) heard(ss *session) { ss.lastSeen = uint32((s.loop.NowMs() + 999) / 1000) }

// silent is how long ago the client was heard.
func (s *Shard) silent(ss *session) time.Duration {
	return time.Duration(max(0, int64(s.seconds())-int64(ss.lastSeen))) * time.Second
}

// wall is the wall clock, as exact as the loop's.
func (s *Shard) wall() time.Time {
	return s.roundAt.Add(time.Duration(s.loop.NowMs()-s.nowMs) * time.Millisecond)
}

func (s *Shard) handle(slot uint32, ss *session) klink.Handle {
	return klink.MakeHandle(uint8(s.loop.Index()), slot, ss.gen)
}

// key is the tag's key in the index, where the app keeps apart what is equal in name.
func (s *Shard) key(l *lane, tag string) string { return string(l.prefix) + tag }

// OnOpen implements [link.Handler].
func (s *Shard) OnOpen(h klink.Handle, in link.Info) {
	slot := h.Slot()
	ss := s.slab.openSlot(slot, h.Gen())
	ss.transport, ss.form = in.Transport, uint8(in.Form)
	s.heard(ss)
	ss.tokens, ss.tokensAt = int32(s.mgr.cfg.FrameBurst)*1000, uint32(s.loop.NowMs())
	s.wheel.add(&s.slab, slot, ss, ss.lastSeen+uint32((s.mgr.cfg.LoginTimeout+time.Second-1)/time.Second))
	s.stats.Open.Add(1)
}

// OnAlive implements [link.Handler].
func (s *Shard) OnAlive(h klink.Handle) {
	if ss := s.slab.find(h); ss != nil {
		s.heard(ss)
	}
}

// OnWritable implements [link.Handler].
func (s *Shard) OnWritable(h klink.Handle) {
	if ss := s.slab.find(h); ss != nil && ss.queue != 0 {
		s.flush(h.Slot(), ss)
	}
}

// OnClose implements [link.Handler].
func (s *Shard) OnClose(h klink.Handle, why link.CloseReason) {
	ss := s.slab.find(h)
	if ss == nil {
		return
	}
	if ss.state != stateClosing {
		s.stats.Ended[endOf(why)].Add(1)
		s.retire(h.Slot(), ss, klink.DropClosed, 0)
	}
	s.slab.release(ss)
}

// A loop that comes hangMs later than it should have did not run: the process was stopped, or starved. What clients sent
// meanwhile is still to be read, so for hangGrace seconds nobody is ended for silence.
const (
	hangMs    = 2000
	hangGrace = 5
)

// OnRound implements [link.Handler].
func (s *Shard) OnRound(nowMs int64) (waitMs int) {
	if s.dueMs >= 0 && nowMs-s.dueMs > hangMs {
		s.stats.Hangs.Add(1)
		s.graceTil = uint32(nowMs/1000) + hangGrace
	}
	s.nowMs = nowMs
	s.roundAt = time.Now()
	waitMs = s.round()
	if s.dueMs = -1; waitMs >= 0 {
		s.dueMs = nowMs + int64(waitMs)
	}
	return waitMs
}

func (s *Shard) round() (waitMs int) {
	s.drainMailbox()
	wait := s.runLanes()
	if sec := s.seconds(); sec > s.wheel.now {
		s.wheel.advance(&s.slab, sec, s.dueFn)
	}
	wait = sooner(wait, s.drain.step(s))
	if wait == 0 {
		return 0
	}
	if sec, ok := s.wheel.wait(); ok {
		wait = sooner(wait, max(1, int(int64(s.wheel.now+sec)*1000-s.nowMs)))
	}
	return wait
}

// sooner is the shorter of two waits, where negative means never.
func sooner(a, b int) int {
	if a < 0 || (b >= 0 && b < a) {
		return b
	}
	return a
}

// due looks at a session whose second in the wheel has come.
func (s *Shard) due(slot uint32, ss *session) {
	now := s.seconds()
	switch ss.state {
	case stateOpen, stateLogin:
		if now < s.graceTil {
			s.wheel.add(&s.slab, slot, ss, s.graceTil)
			return
		}
		s.Refuse(s.handle(slot, ss), klink.DisconnectLoginTimeout, "no login in time")
	case stateLive:
		dead := ss.lastSeen + 2*uint32(ss.heartbeat)
		switch {
		case ss.flags&flagDraining != 0:
			s.drain.sendAway(s, slot, ss)
		case ss.expires != 0 && s.wall().Unix() >= int64(ss.expires):
			s.disconnect(slot, ss, klink.DisconnectTokenExpired, "the token has expired")
		case now >= dead && now < s.graceTil:
			s.wheel.add(&s.slab, slot, ss, s.graceTil)
		case now >= dead:
			s.disconnect(slot, ss, klink.DisconnectHeartbeat, "nothing heard for two heartbeat intervals")
		default:
			s.arm(slot, ss)
		}
	case stateFree, stateClosing:
	}
}

// arm puts a live session where its next deadline is.
func (s *Shard) arm(slot uint32, ss *session) {
	if ss.flags&flagDraining != 0 {
		return // it has a deadline, which no frame of the client moves
	}
	at := ss.lastSeen + 2*uint32(ss.heartbeat)
	if ss.expires != 0 {
		left := int64(ss.expires) - s.wall().Unix()
		if t := int64(s.seconds()) + max(left, 1); t < int64(at) {
			at = uint32(t)
		}
	}
	s.wheel.add(&s.slab, slot, ss, at)
}

// close ends what is posted or under way, when the loop has ended. Its sessions are gone then.
func (s *Shard) close() {
	s.box.close()
	s.drainMailbox()
	for _, l := range s.ring {
		for _, p := range l.direct {
			s.deliverDirect(l, p)
		}
		for _, r := range l.rounds {
			s.end(l, r)
		}
		l.direct, l.rounds, l.listed = nil, nil, false
		clear(l.open)
	}
	s.ring = nil
	s.drain.finish()
}

// user is a view of the session's user id, valid until the session ends.
func (s *Shard) user(ss *session) []byte {
	u, _ := s.ids.get(ss.ids)
	return u
}

// identity copies who a session is.
func (s *Shard) identity(ss *session) Identity {
	u, d := s.ids.get(ss.ids)
	return Identity{App: s.apps.at(ss.app).app, User: string(u), Device: string(d)}
}

// outcome is what a trace keeps of one session that did not take a push at once.
func (s *Shard) outcome(slot uint32, ss *session, result string) klink.Outcome {
	u, d := s.ids.get(ss.ids)
	return klink.Outcome{
		FE: s.mgr.inc().FE, User: string(u), Device: string(d),
		Session: klink.SessionID(s.mgr.inc(), s.handle(slot, ss)), Result: result, At: s.wall(),
	}
}

func (s *Shard) refOutcome(ref *klink.SessionRef, result string) klink.Outcome {
	return klink.Outcome{
		FE: s.mgr.inc().FE, User: ref.User, Device: ref.Device,
		Session: klink.SessionID(ref.Incarnation, ref.Handle), Result: result, At: s.wall(),
	}
}

// appendTagKey appends the index key of a tag that a client named.
func appendTagKey(dst []byte, l *lane, tag []byte) []byte {
	return append(append(dst, l.prefix...), tag...)
}
