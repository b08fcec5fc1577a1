package connmgr

import (
	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
)

// flushBatch bounds the bytes that leave a queue in one write.
const flushBatch = 16 << 10

// block notes that the connection takes no frame until OnWritable.
func (s *Shard) block(ss *session) {
	if ss.queue == 0 {
		ss.queue = s.queues.take()
		s.stats.Blocked.Add(1)
	}
}

// answer sends an answer or control frame: at once, or behind what waits. Such frames are never dropped; a session whose
// budget they exceed is a slow consumer.
func (s *Shard) answer(slot uint32, ss *session, f *link.Frame) {
	s.stats.FramesOut.Add(1)
	if ss.queue == 0 {
		switch s.loop.Send(s.handle(slot, ss), f) {
		case link.Accepted:
			return
		case link.Queued:
			s.block(ss)
			return
		case link.Refused:
			s.block(ss)
		}
	}
	s.enqueue(slot, ss, queued{f: f, bytes: int32(len(f.Bytes(link.Form(ss.form))))})
}

// answerBody sends one encoded ServerFrame, which is copied.
func (s *Shard) answerBody(slot uint32, ss *session, body []byte) {
	s.answer(slot, ss, link.NewFrame(append([]byte(nil), body...)))
}

// enqueue puts a frame behind a blocked connection and reports the drop reason if it, or the session, had to go.
func (s *Shard) enqueue(slot uint32, ss *session, e queued) klink.Drop {
	q := s.queues.at(ss.queue)
	if e.push != nil && s.mgr.queued.Load()+int64(e.bytes) > s.mgr.cfg.QueueTotalBytes {
		q.addGap(e.tag, klink.DropMemory, 1)
		s.stats.Dropped[klink.DropMemory].Add(1)
		return klink.DropMemory
	}
	before := q.bytes
	q.push(e)
	budget := s.mgr.cfg.QueueBytes - s.loop.PendingBytes(s.handle(slot, ss))
	why := klink.DropNone
	if q.bytes > budget {
		fits := q.shrink(budget, s.wall(), func(old queued, reason klink.Drop) {
			s.stats.Dropped[reason].Add(1)
			if old.push == e.push {
				why = reason
				return
			}
			s.late(slot, ss, old.push, reason)
		})
		// Behind what is on its way there is always room for one frame: else a payload of more than half of the budget could not be
		// collapsed to its newest.
		if !fits && (q.len() > 1 || int(e.bytes) > s.mgr.cfg.QueueBytes) {
			slow := klink.DropNone
			if e.push != nil && why == klink.DropNone {
				q.unpush() // it is reported by the caller, the others as late outcomes
				s.stats.Dropped[klink.DropSlow].Add(1)
				slow = klink.DropSlow
			}
			s.mgr.queued.Add(int64(q.bytes - before))
			s.disconnect(slot, ss, klink.DisconnectSlow, "the outbound budget is used up")
			return max(slow, why)
		}
	}
	s.mgr.queued.Add(int64(q.bytes - before))
	return why
}

// late records that a push which counted as enqueued was dropped after all.
func (s *Shard) late(slot uint32, ss *session, p *klink.Push, why klink.Drop) {
	s.apps.at(ss.app).drops[why]++
	s.mgr.late.add(p.ID, s.outcome(slot, ss, why.String()))
}

// flush sends what waits, gaps first, until the connection blocks again or nothing is left.
func (s *Shard) flush(slot uint32, ss *session) {
	q := s.queues.at(ss.queue)
	h := s.handle(slot, ss)
	for {
		before := q.bytes
		q.expire(s.wall(), func(e queued, why klink.Drop) {
			s.stats.Dropped[why].Add(1)
			s.late(slot, ss, e.push, why)
		})
		s.mgr.queued.Add(int64(q.bytes - before))
		parts, n := s.nextWrite(q)
		if len(parts) == 0 {
			s.unblock(slot, ss)
			return
		}
		res := s.loop.Send(h, link.NewBatch(parts))
		if res == link.Refused {
			return // it is blocked again, or ending: OnWritable or OnClose follows
		}
		s.stats.Gaps.Add(uint64(len(q.gaps)))
		clear(q.gaps)
		q.gaps = q.gaps[:0]
		for range n {
			s.mgr.queued.Add(-int64(q.pop().bytes))
		}
		if res == link.Queued {
			return
		}
	}
}

// nextWrite is the frames of one write: those that tell of drops, and as many of the queue as fit, at least one. They stay in the queue.
func (s *Shard) nextWrite(q *sendQueue) (parts []*link.Frame, n int) {
	for _, g := range q.gaps {
		parts = append(parts, link.NewFrame(frame.AppendGap(nil, &frame.Gap{Tag: g.tag, Count: g.count, Reason: g.reason.String()})))
	}
	for size := 0; n < q.len() && size < flushBatch; n++ {
		e := &q.q[q.head+n]
		parts = append(parts, e.f)
		size += int(e.bytes)
	}
	return parts, n
}

// unblock ends the need for a queue.
func (s *Shard) unblock(slot uint32, ss *session) {
	s.queues.drop(ss.queue)
	ss.queue = 0
	s.stats.Blocked.Add(-1)
	if ss.flags&flagDraining != 0 {
		s.drain.sendAway(s, slot, ss)
	}
}
