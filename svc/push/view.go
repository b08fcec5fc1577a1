package push

import (
	"slices"
	"time"

	"github.com/klinkio/klink"
)

// Trace is what is remembered of one push. It holds no payload.
type Trace struct {
	Push         string
	From         string // user id of the publishing client, empty for back ends
	To           klink.Target
	Accepted     time.Time
	Expires      time.Time // zero: never
	PayloadBytes int
	CollapseKey  string
	Droppable    bool
	Ended        bool // all front ends have answered
	Report       klink.Report
	FEs          []TracePart
	Late         []klink.Outcome // drops after the report was given; only Trace of one push asks for them
}

// TracePart is what one front end did. A front end appears twice when moved sessions were sent after.
type TracePart struct {
	FE       string
	Sessions int  // that were named to it
	Broad    bool // it was asked for tags, expression or everyone
	Ended    bool
	Error    string
	Report   klink.Report
}

// Trace is what is known of a push of the app; false where it is not known (any more).
func (s *Service) Trace(app, id string) (Trace, bool) {
	t, ok := s.traces.find(app, id)
	if !ok {
		return Trace{}, false
	}
	v := t.view()
	v.Late = t.lateOutcomes()
	return v, true
}

// MaxTraces bounds a list of traces.
const MaxTraces = 1000

// Traces lists the newest pushes of the app, newest first.
func (s *Service) Traces(app string, limit int) []Trace {
	list := s.traces.last(min(limit, MaxTraces), func(t *trace) bool { return t.app == app })
	out := make([]Trace, len(list))
	for i := range list {
		out[i] = list[i].view()
	}
	return out
}

func (t *trace) view() Trace {
	v := Trace{
		Push: t.id, From: t.from, To: t.to, Accepted: t.accepted, Expires: t.expires, PayloadBytes: t.payload,
		CollapseKey: t.collapse, Droppable: t.droppable, Ended: t.ended, Report: t.report,
	}
	for i := range t.parts {
		p := &t.parts[i]
		part := TracePart{FE: p.fe.ID(), Sessions: len(p.sessions), Broad: p.broad, Ended: p.ended, Report: p.report}
		if p.err != nil {
			part.Error = p.err.Error()
		}
		v.FEs = append(v.FEs, part)
	}
	return v
}

// RecentPushes is over how many of the last pushes to one tag [Service.Recent] sums.
const RecentPushes = 32

// Recent sums what the last pushes to one tag reached.
type Recent struct {
	Pushes   int
	Matched  int
	Enqueued int
	Dropped  [klink.NumDrops]uint32 // with those after the reports
}

// Recent sums over the last remembered pushes of the app that name the tag. Pushes with other targets besides the tag count whole.
func (s *Service) Recent(app, tag string) Recent {
	list := s.traces.last(RecentPushes, func(t *trace) bool { return t.app == app && t.ended && slices.Contains(t.to.Tags, tag) })
	sum := Recent{Pushes: len(list)}
	for i := range list {
		r := &list[i].report
		sum.Matched += r.Matched
		sum.Enqueued += r.Enqueued
		for why, n := range r.Dropped {
			sum.Dropped[why] += n
		}
		for _, oc := range list[i].lateOutcomes() {
			for why := range sum.Dropped {
				if klink.Drop(why).String() == oc.Result {
					sum.Dropped[why]++
				}
			}
		}
	}
	return sum
}
