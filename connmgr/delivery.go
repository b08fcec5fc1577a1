package connmgr

import (
	"sync"
	"sync/atomic"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
	"github.com/klinkio/klink/tagindex"
)

// Delivery is one push on this FE: what it goes to, its encoded frames, and the report that the loops fill. It is made by
// [Manager.Deliver] and shared by the loops.
type Delivery struct {
	mgr      *Manager
	push     *klink.Push
	app      string
	sessions []klink.SessionRef
	tags     []string
	expr     *tagindex.Expr
	cover    []string // positive tags of expr that any session that fits carries one of
	all      bool
	frames   []atomic.Pointer[link.Frame] // by index of tags; the last is the one without a tag
	size     int                          // of its frame
	cost     int64                        // what it holds of a mailbox

	mu     sync.Mutex
	report klink.Report
	left   atomic.Int32
	done   func(klink.Report)
}

// What a push costs of a mailbox besides its frame: its records, and each session that it names.
const (
	pushCost = 512
	refCost  = 96
)

// errUncovered refuses an expression that would have to look at everybody.
func errUncovered() error {
	return klink.Errorf(klink.CodeInvalid, "the expression fits sessions without any of its tags: set all")
}

// newDelivery plans a push.
func (m *Manager) newDelivery(k *klink.Delivery, expr *tagindex.Expr, done func(klink.Report)) (*Delivery, error) {
	d := &Delivery{
		mgr: m, push: k.Push, app: k.Push.App, sessions: k.Sessions, tags: k.Tags, expr: expr, all: k.All, done: done,
		size: frame.PushSize(k.Push),
	}
	d.report.FEs = 1
	if expr != nil && !d.all {
		cover, ok := expr.Cover()
		if !ok {
			return nil, errUncovered()
		}
		d.cover = cover
	}
	if d.all && expr == nil {
		d.tags, d.sessions = nil, nil // everyone is more than any part of it
	}
	d.frames = make([]atomic.Pointer[link.Frame], len(d.tags)+1)
	d.cost = int64(d.size) + pushCost + refCost*int64(len(d.sessions))
	return d, nil
}

// Deliver gives a push to the sessions it matches and calls done, once, when the last loop has finished: on a loop's goroutine, or on the
// caller's before Deliver returns; done must not block, but may deliver again. A push to named sessions must not come from a callback of a loop
// other than done. An error means that nothing was done and done is not called: CodeOverloaded where a loop's mailbox has no room,
// CodeUnavailable after [Manager.Close]. k's slices are kept until done.
func (m *Manager) Deliver(k *klink.Delivery, expr *tagindex.Expr, done func(klink.Report)) error {
	d, err := m.newDelivery(k, expr, done)
	if err != nil {
		return err
	}
	shards := m.loopsOf(d)
	if len(shards) == 0 {
		done(d.report)
		return nil
	}
	for i, s := range shards {
		if err := s.box.reserve(d.app, d.cost, m.cfg.MailboxBytes); err != nil {
			for _, r := range shards[:i] {
				r.box.release(d.app, d.cost)
			}
			s.stats.Dropped[klink.DropOverloaded].Add(1)
			return err
		}
	}
	// While a done runs somewhere this may be a loop's goroutine, which must not do the work of another loop.
	here := d.direct() && len(d.sessions) <= maxDirect && m.finishing.Load() == 0
	d.left.Store(int32(len(shards)))
	for _, s := range shards {
		p := &part{d: d}
		wake, ok := s.box.postPart(p)
		switch {
		case !ok: // the loops have ended meanwhile
			s.box.release(d.app, d.cost)
			d.finish(p)
		case wake && here:
			s.loop.WakeHere()
		case wake:
			s.loop.Wake()
		}
	}
	return nil
}

// loopsOf are the shards that have to do with a delivery. Sessions that it names on loops that there are not are gone.
func (m *Manager) loopsOf(d *Delivery) []*Shard {
	shards := m.Shards()
	var need [256]bool
	for i := range d.sessions {
		ref := &d.sessions[i]
		if ref.Handle.Loop() < len(shards) {
			need[ref.Handle.Loop()] = true
			continue
		}
		d.report.Matched++
		d.report.Dropped[klink.DropGone]++
		if len(shards) > 0 {
			shards[0].stats.Dropped[klink.DropGone].Add(1)
			d.report.AddOutcome(shards[0].refOutcome(ref, klink.DropGone.String()))
		}
	}
	if !d.direct() {
		return shards
	}
	if len(shards) == 1 && need[0] {
		return shards
	}
	var out []*Shard
	for i, s := range shards {
		if need[i] {
			out = append(out, s)
		}
	}
	return out
}

// frame is the shared frame for members of tags[i], or the one that names no tag (i < 0). It is encoded at first need; loops
// that race may encode it twice, one result stays.
func (d *Delivery) frame(i int) *link.Frame {
	if i < 0 {
		i = len(d.tags)
	}
	if f := d.frames[i].Load(); f != nil {
		return f
	}
	tag := ""
	if i < len(d.tags) {
		tag = d.tags[i]
	}
	body := make([]byte, 0, d.size)
	f := link.NewFrame(frame.AppendPush(body, d.push, tag))
	if d.frames[i].CompareAndSwap(nil, f) {
		return f
	}
	return d.frames[i].Load()
}

// finish adds what one loop reached; the last one hands the report over.
func (d *Delivery) finish(p *part) {
	d.mu.Lock()
	d.report.Merge(&p.report)
	d.mu.Unlock()
	if d.left.Add(-1) == 0 {
		d.mgr.finishing.Add(1)
		d.done(d.report)
		d.mgr.finishing.Add(-1)
	}
}

// part is the share of a delivery that one loop does.
type part struct {
	d      *Delivery
	report klink.Report
}

// singleTag is the tag of a delivery that goes to just one tag and nothing else; such deliveries can share a round.
func (d *Delivery) singleTag() (string, bool) {
	if len(d.tags) == 1 && d.expr == nil && !d.all && len(d.sessions) == 0 {
		return d.tags[0], true
	}
	return "", false
}

// direct says that the delivery names only sessions.
func (d *Delivery) direct() bool { return len(d.tags) == 0 && d.expr == nil && !d.all }
