package connmgr

import (
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
)

// queued is one frame that waits behind a slow reader. push is nil for answers and control frames, which are never dropped.
type queued struct {
	f     *link.Frame
	push  *klink.Push
	tag   string
	bytes int32
}

// gap adds up drops that the client has not been told of.
type gap struct {
	tag    string
	reason klink.Drop
	count  uint32
}

const maxGaps = 8 // distinct (tag, reason) pairs kept; more are told without the tag

// sendQueue is what waits for one blocked connection, and exists only while the connection is blocked.
//
// When the budget is exceeded, frames with a collapse key keep only the newest, then droppable frames go, oldest first.
// What goes is a gap, told before the next frame. If that is not enough the session is a slow consumer.
type sendQueue struct {
	q     []queued
	head  int
	bytes int
	gaps  []gap

	// Of what waits, how much a rule could apply to: most queues need none of them.
	expiring, collapsing, droppable int
}

func (q *sendQueue) len() int { return len(q.q) - q.head }

func (q *sendQueue) push(e queued) {
	if q.head > 0 && len(q.q) == cap(q.q) { // a reader that is slow but never done must not make the array grow
		n := copy(q.q, q.q[q.head:])
		clear(q.q[n:])
		q.q, q.head = q.q[:n], 0
	}
	q.q = append(q.q, e)
	q.count(&e, 1)
}

// count adds e to what is known of the queue, or takes it off.
func (q *sendQueue) count(e *queued, n int) {
	q.bytes += n * int(e.bytes)
	if e.push == nil {
		return
	}
	if !e.push.Expires.IsZero() {
		q.expiring += n
	}
	if e.push.CollapseKey != "" {
		q.collapsing += n
	}
	if e.push.Droppable {
		q.droppable += n
	}
}

// unpush takes back the newest frame.
func (q *sendQueue) unpush() {
	last := len(q.q) - 1
	q.count(&q.q[last], -1)
	q.q[last] = queued{}
	q.q = q.q[:last]
}

func (q *sendQueue) pop() queued {
	e := q.q[q.head]
	q.q[q.head] = queued{}
	q.head++
	q.count(&e, -1)
	if q.head == len(q.q) {
		q.q, q.head = q.q[:0], 0
	}
	return e
}

// reset empties the queue for its next owner and lets go of large arrays.
func (q *sendQueue) reset() {
	clear(q.q)
	q.q, q.head, q.bytes = q.q[:0], 0, 0
	if cap(q.q) > 256 {
		q.q = nil
	}
	clear(q.gaps)
	q.gaps = q.gaps[:0]
	q.expiring, q.collapsing, q.droppable = 0, 0, 0
}

// addGap notes n drops of a tag.
func (q *sendQueue) addGap(tag string, reason klink.Drop, n uint32) {
	for i := range q.gaps {
		if q.gaps[i].reason == reason && (q.gaps[i].tag == tag || (q.gaps[i].tag == "" && len(q.gaps) >= maxGaps)) {
			q.gaps[i].count += n
			return
		}
	}
	if len(q.gaps) >= maxGaps {
		tag = ""
		for i := range q.gaps {
			if q.gaps[i].reason == reason {
				q.gaps[i].tag = ""
				q.gaps[i].count += n
				return
			}
		}
	}
	q.gaps = append(q.gaps, gap{tag, reason, n})
}

// shrink applies the policy until at most budget bytes wait. Each frame that goes is given to dropped.
// It reports whether the queue fits now.
func (q *sendQueue) shrink(budget int, now time.Time, dropped func(e queued, why klink.Drop)) bool {
	q.expire(now, dropped)
	if q.bytes > budget && q.collapsing > 1 {
		q.collapse(dropped)
	}
	if q.bytes > budget && q.droppable > 0 {
		q.dropOldest(budget, dropped)
	}
	return q.bytes <= budget
}

// expire removes the pushes whose time is over.
func (q *sendQueue) expire(now time.Time, dropped func(e queued, why klink.Drop)) {
	if q.expiring == 0 {
		return
	}
	q.filter(dropped, klink.DropExpired, func(_ int, e *queued) bool {
		return !e.push.Expires.IsZero() && !now.Before(e.push.Expires)
	})
}

// collapse keeps the newest push of each collapse key.
func (q *sendQueue) collapse(dropped func(e queued, why klink.Drop)) {
	newest := make(map[string]int, q.collapsing)
	for i := q.head; i < len(q.q); i++ {
		if p := q.q[i].push; p != nil && p.CollapseKey != "" {
			newest[p.CollapseKey] = i
		}
	}
	if len(newest) == q.collapsing {
		return
	}
	q.filter(dropped, klink.DropCollapsed, func(i int, e *queued) bool {
		return e.push.CollapseKey != "" && newest[e.push.CollapseKey] != i
	})
}

// dropOldest removes droppable pushes from the front on. It looks no further than it has to, since a stuck reader needs it for every push.
func (q *sendQueue) dropOldest(budget int, dropped func(e queued, why klink.Drop)) {
	end := q.head
	for ; end < len(q.q) && q.bytes > budget; end++ {
		if e := q.q[end]; e.push != nil && e.push.Droppable {
			q.count(&e, -1)
			q.addGap(e.tag, klink.DropDroppable, 1)
			q.q[end] = queued{}
			dropped(e, klink.DropDroppable)
		}
	}
	at := end // what stays moves up to what was not looked at
	for i := end - 1; i >= q.head; i-- {
		if q.q[i].f != nil {
			at--
			q.q[at] = q.q[i]
		}
	}
	clear(q.q[q.head:at])
	q.head = at
}

// filter removes the pushes for which gone is true; the index it gets is the one before the removal.
func (q *sendQueue) filter(dropped func(queued, klink.Drop), why klink.Drop, gone func(i int, e *queued) bool) {
	keep := q.head
	for i := q.head; i < len(q.q); i++ {
		e := q.q[i]
		if e.push != nil && gone(i, &e) {
			q.count(&e, -1)
			q.addGap(e.tag, why, 1)
			dropped(e, why)
			continue
		}
		q.q[keep] = e
		keep++
	}
	clear(q.q[keep:])
	q.q = q.q[:keep]
}

// queueTable holds the send queues of a loop's blocked sessions and keeps empty ones for reuse.
type queueTable struct {
	all  []*sendQueue
	free []uint32
}

const maxFreeQueues = 1024

// take returns a new queue's index+1.
func (t *queueTable) take() uint32 {
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		if t.all[i] == nil {
			t.all[i] = new(sendQueue)
		}
		return i + 1
	}
	t.all = append(t.all, new(sendQueue))
	return uint32(len(t.all))
}

func (t *queueTable) at(ref uint32) *sendQueue { return t.all[ref-1] }

func (t *queueTable) drop(ref uint32) {
	t.all[ref-1].reset()
	if len(t.free) >= maxFreeQueues {
		t.all[ref-1] = nil
	}
	t.free = append(t.free, ref-1)
}
