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
	push     *klink.Push
	app      string
	sessions []klink.SessionRef
	tags     []string
	expr     *tagindex.Expr
	cover    []string // positive tags of expr that any session that fits carries one of
	all      bool
	frames   []atomic.Pointer[link.Frame] // by index of tags; the last is the one without a tag
	size     int

	mu     sync.Mutex
	report klink.Report
	left   atomic.Int32
	done   func(klink.Report)
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
		d.done(d.report)
	}
}

// part is the share of a delivery that one loop does.
type part struct {
	d      *Delivery
	report klink.Report
	common *round // the round whose common counts belong to this part
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
