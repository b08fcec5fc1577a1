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
}

func (q *sendQueue) len() int { return len(q.q) - q.head }

func (q *sendQueue) push(e queued) {
	q.q = append(q.q, e)
	q.bytes += int(e.bytes)
}

// unpush takes back the newest frame.
func (q *sendQueue) unpush() {
	last := len(q.q) - 1
	q.bytes -= int(q.q[last].bytes)
	q.q[last] = queued{}
	q.q = q.q[:last]
}

func (q *sendQueue) pop() queued {
	e := q.q[q.head]
	q.q[q.head] = queued{}
	q.head++
	q.bytes -= int(e.bytes)
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
	q.filter(dropped, klink.DropExpired, func(_ int, e *queued) bool {
		return !e.push.Expires.IsZero() && !now.Before(e.push.Expires)
	})
	if q.bytes <= budget {
		return true
	}
	newest := make(map[string]int)
	for i := q.head; i < len(q.q); i++ {
		if p := q.q[i].push; p != nil && p.CollapseKey != "" {
			newest[p.CollapseKey] = i
		}
	}
	if len(newest) > 0 {
		q.filter(dropped, klink.DropCollapsed, func(i int, e *queued) bool {
			return e.push.CollapseKey != "" && newest[e.push.CollapseKey] != i
		})
		if q.bytes <= budget {
			return true
		}
	}
	left := q.bytes
	q.filter(dropped, klink.DropDroppable, func(_ int, e *queued) bool {
		if !e.push.Droppable || left <= budget {
			return false
		}
		left -= int(e.bytes)
		return true
	})
	return q.bytes <= budget
}

// filter removes the pushes for which gone is true; the index it gets is the one before the removal.
func (q *sendQueue) filter(dropped func(queued, klink.Drop), why klink.Drop, gone func(i int, e *queued) bool) {
	keep := q.head
	for i := q.head; i < len(q.q); i++ {
		e := q.q[i]
		if e.push != nil && gone(i, &e) {
			q.bytes -= int(e.bytes)
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

// blocked counts the sessions that have a queue.
func (t *queueTable) blocked() int { return len(t.all) - len(t.free) }
