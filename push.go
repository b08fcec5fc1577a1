package klink

import "time"

// DataKind says what the bytes of a payload are.
type DataKind uint8

// The kinds of payload.
const (
	DataBinary DataKind = iota
	DataText            // UTF-8
	DataJSON            // one JSON value
)

// Payload is what an application sends. Data is immutable once the payload was handed over.
type Payload struct {
	Kind DataKind
	Data []byte
}

// DeviceRef names one device of one user.
type DeviceRef struct {
	User   string `json:"user"`
	Device string `json:"device"`
}

// Target says to whom a push goes. The parts add up (union); each session gets one copy.
type Target struct {
	Users   []string
	Devices []DeviceRef
	Tags    []string
	Expr    string // tag expression, for example `room:1 && !vip`
	All     bool   // every session of the app; with Expr: every session that fits the expression
}

// Push is one message of a back end, or of a client that may publish, to sessions. It is immutable once sent.
type Push struct {
	ID          string
	App         string
	To          Target
	From        string // user id of the publishing client, empty for back ends
	Payload     Payload
	CollapseKey string    // while queued for a slow reader only the newest of one key is kept
	Droppable   bool      // may be dropped, oldest first, for a slow reader
	Expires     time.Time // zero: never; a frame that is still queued then is dropped as expired
	Accepted    time.Time
}

// Drop is why a session that a push matched did not get it.
type Drop uint8

// The drop reasons. Each has a counter.
const (
	DropNone       Drop = iota
	DropSlow            // the session's outbound budget was used up; it is closed as slow_consumer
	DropCollapsed       // a newer frame with the same collapse key took its place in the queue
	DropDroppable       // it was marked droppable and its session's queue was over budget
	DropExpired         // its time to live ended in the queue
	DropClosed          // the session ended while the frame was queued or on its way
	DropOverloaded      // the loop's mailbox was full
	DropMemory          // the bound of queued bytes of the whole FE was reached
	DropGone            // the session was not there any more
	NumDrops
)

var dropNames = [NumDrops]string{
	"none", "slow_consumer", "collapsed", "droppable", "expired", "closed", "overloaded", "memory", "gone",
}

func (d Drop) String() string { return dropNames[d] }

// Outcome is what happened to a push at one session.
type Outcome struct {
	FE      string    `json:"fe"`
	User    string    `json:"user"`
	Device  string    `json:"device"`
	Session string    `json:"session"`
	Result  string    `json:"result"` // sent, queued or the name of a drop reason
	At      time.Time `json:"at"`
}

// MaxOutcomes bounds the outcomes that one report carries; counts are always complete. Drops are kept before
// queued ones.
const MaxOutcomes = 64

// Report says what one push reached. Enqueue, deliver and acknowledge are three facts: Enqueued counts
// sessions whose connection took the frame (the kernel or the session's bounded queue); nothing is said about the device.
type Report struct {
	Matched  int              // sessions that the target matched
	Enqueued int              // of these, sessions that took the frame
	Queued   int              // of the enqueued, those where it waits behind a slow reader
	Dropped  [NumDrops]uint32 // the others, by reason
	FEs      int              // front ends that were asked
	Offline  int              // users and devices named by the target that have no session
	Outcomes []Outcome        // of sessions that did not take it at once: at most MaxOutcomes, see there
	SentTo   []Handle         // some of the sessions that took it at once, at most MaxOutcomes a loop
}

// DroppedTotal sums the drops over all reasons.
func (r *Report) DroppedTotal() int {
	n := 0
	for _, d := range r.Dropped {
		n += int(d)
	}
	return n
}

// Merge adds what another part of the same push reached.
func (r *Report) Merge(o *Report) {
	r.Matched += o.Matched
	r.Enqueued += o.Enqueued
	r.Queued += o.Queued
	r.FEs += o.FEs
	r.Offline += o.Offline
	for i, d := range o.Dropped {
		r.Dropped[i] += d
	}
	for _, oc := range o.Outcomes {
		r.AddOutcome(oc)
	}
	r.SentTo = append(r.SentTo, o.SentTo...)
}

// AddOutcome keeps o if there is room; when full, a drop takes the place of a queued one.
func (r *Report) AddOutcome(o Outcome) {
	if len(r.Outcomes) < MaxOutcomes {
		r.Outcomes = append(r.Outcomes, o)
		return
	}
	if o.Result == OutcomeQueued {
		return
	}
	for i := range r.Outcomes {
		if r.Outcomes[i].Result == OutcomeQueued {
			r.Outcomes[i] = o
			return
		}
	}
}

// Results of an [Outcome] besides the names of drops.
const (
	OutcomeSent   = "sent"
	OutcomeQueued = "queued"
)
