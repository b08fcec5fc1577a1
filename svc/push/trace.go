package push

import (
	"sync"
	"time"
	"unsafe"

	"github.com/klinkio/klink"
)

// Limits of traces.
const (
	// DefaultTraces is how many pushes are remembered.
	DefaultTraces = 10_000
	// maxTraceBytes bounds what they take: large targets leave room for fewer.
	maxTraceBytes = 32 << 20
)

// trace is what is remembered of one push. The ring's lock guards what changes.
type trace struct {
	id, app, from     string
	to                klink.Target
	accepted, expires time.Time
	collapse          string
	droppable         bool
	kind              klink.DataKind
	payload           int // bytes

	parts  []tracePart
	one    [1]tracePart
	gone   []klink.SessionRef // on front ends that were not in view
	ended  bool
	report klink.Report
	bytes  int // about what all this takes
}

// tracePart is what one front end did.
type tracePart struct {
	fe       FrontEnd
	sessions []klink.SessionRef
	broad    bool
	ended    bool
	err      error
	report   klink.Report
}

// part is the latest one of a front end.
func (t *trace) part(fe string) *tracePart {
	for i := len(t.parts) - 1; i >= 0; i-- {
		if t.parts[i].fe.ID() == fe {
			return &t.parts[i]
		}
	}
	return nil
}

// traceRing keeps the newest traces, bounded in number and bytes.
type traceRing struct {
	limit    int
	maxBytes int

	mu        sync.Mutex
	ring      []*trace // as a ring once it has limit places
	head, n   int      // the oldest, and how many
	bytes     int
	forgotten uint64
}

// begin makes the trace of a push; nil where none are kept.
func (r *traceRing) begin(p *klink.Push) *trace {
	if r.limit == 0 {
		return nil
	}
	t := &trace{
		id: p.ID, app: p.App, from: p.From, to: p.To, accepted: p.Accepted, expires: p.Expires,
		collapse: p.CollapseKey, droppable: p.Droppable, kind: p.Payload.Kind, payload: len(p.Payload.Data),
	}
	t.bytes = int(unsafe.Sizeof(*t)) + len(t.id) + len(t.app) + len(t.from) + len(t.collapse) + targetBytes(&t.to)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == r.limit {
		r.forget()
	}
	r.bytes += t.bytes
	r.trim(1)
	if len(r.ring) < r.limit && r.head+r.n == len(r.ring) {
		r.ring = append(r.ring, t)
	} else {
		r.ring[(r.head+r.n)%len(r.ring)] = t
	}
	r.n++
	return t
}

// at is the i-th trace, the oldest first.
func (r *traceRing) at(i int) *trace { return r.ring[(r.head+i)%len(r.ring)] }

func (r *traceRing) forget() {
	r.bytes -= r.ring[r.head].bytes
	r.ring[r.head].bytes = 0 // whoever still adds to it does not change the sum any more
	r.ring[r.head] = nil
	r.head = (r.head + 1) % len(r.ring)
	r.n--
	r.forgotten++
}

// trim forgets the oldest until the bytes fit; the newest stays unless one more is coming.
func (r *traceRing) trim(coming int) {
	for r.bytes > r.maxBytes && r.n+coming > 1 {
		r.forget()
	}
}

// grow accounts for what was added to a trace.
func (r *traceRing) grow(t *trace, n int) {
	if t.bytes == 0 {
		return // forgotten
	}
	t.bytes += n
	r.bytes += n
	r.trim(0)
}

// plan notes which front ends a push goes to, and which sessions are on front ends that are not in view.
func (r *traceRing) plan(t *trace, parts []part, gone []klink.SessionRef) {
	if t == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.parts == nil {
		t.parts = t.one[:0]
	}
	t.gone = append(t.gone[:len(t.gone):len(t.gone)], gone...) // copies of the trace are read without the lock
	n := refsBytes(gone)
	for i := range parts {
		d := &parts[i].d
		t.parts = append(t.parts, tracePart{fe: parts[i].fe, sessions: d.Sessions, broad: d.All || len(d.Tags) > 0 || d.Expr != ""})
		n += int(unsafe.Sizeof(tracePart{})) + refsBytes(d.Sessions)
	}
	r.grow(t, n)
}

// report notes what the front ends of the last plan said.
func (r *traceRing) report(t *trace, parts []part) {
	if t == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for i := range parts {
		p := &t.parts[len(t.parts)-len(parts)+i]
		p.ended, p.err, p.report = true, parts[i].err, parts[i].report
		n += len(p.report.SentTo) * int(unsafe.Sizeof(klink.Handle(0)))
		for j := range p.report.Outcomes {
			n += outcomeBytes(&p.report.Outcomes[j])
		}
	}
	r.grow(t, n)
}

// end notes the answer.
func (r *traceRing) end(t *trace, res *Result) {
	if t == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.ended, t.report = true, res.Report
}

// find returns a copy of the trace of a push of the app.
func (r *traceRing) find(app, id string) (trace, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := r.n - 1; i >= 0; i-- {
		if t := r.at(i); t.id == id && t.app == app {
			return t.copy(), true
		}
	}
	return trace{}, false
}

// last returns copies of the newest traces that keep says yes to, newest first.
func (r *traceRing) last(limit int, keep func(*trace) bool) []trace {
	var list []trace
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := r.n - 1; i >= 0 && len(list) < limit; i-- {
		if t := r.at(i); keep(t) {
			list = append(list, t.copy())
		}
	}
	return list
}

// copy is independent of later changes: what the slices of parts and reports hold never changes.
func (t *trace) copy() trace {
	c := *t
	c.parts = append([]tracePart(nil), t.parts...)
	return c
}

func (r *traceRing) size() (n, bytes int, forgotten uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n, r.bytes, r.forgotten
}

func targetBytes(t *klink.Target) int {
	n := len(t.Expr)
	for _, list := range [2][]string{t.Users, t.Tags} {
		n += len(list) * int(unsafe.Sizeof(""))
		for _, s := range list {
			n += len(s)
		}
	}
	for i := range t.Devices {
		n += int(unsafe.Sizeof(t.Devices[i])) + len(t.Devices[i].User) + len(t.Devices[i].Device)
	}
	return n
}

func refsBytes(refs []klink.SessionRef) int {
	n := 0
	for i := range refs {
		n += int(unsafe.Sizeof(refs[i])) + len(refs[i].Device)
	}
	return n
}

func outcomeBytes(o *klink.Outcome) int {
	return int(unsafe.Sizeof(*o)) + len(o.Session) + len(o.User) + len(o.Device)
}
