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
		if !fits {
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
		var parts []*link.Frame
		size, pushes := 0, uint64(0)
		parts = s.takeGaps(q, parts)
		for q.len() > 0 && size < flushBatch {
			e := q.pop()
			s.mgr.queued.Add(-int64(e.bytes))
			if e.push != nil && !e.push.Expires.IsZero() && !s.wall().Before(e.push.Expires) {
				s.stats.Dropped[klink.DropExpired].Add(1)
				s.late(slot, ss, e.push, klink.DropExpired)
				q.addGap(e.tag, klink.DropExpired, 1)
				continue
			}
			parts = s.takeGaps(q, parts)
			parts = append(parts, e.f)
			size += int(e.bytes)
			if e.push != nil {
				pushes++
			}
		}
		parts = s.takeGaps(q, parts)
		if len(parts) == 0 {
			s.queues.drop(ss.queue)
			ss.queue = 0
			s.stats.Blocked.Add(-1)
			return
		}
		switch s.loop.Send(h, link.NewBatch(parts)) {
		case link.Accepted:
		case link.Queued:
			return
		case link.Refused: // the connection is ending; OnClose follows
			s.stats.Dropped[klink.DropClosed].Add(pushes)
			return
		}
	}
}

// takeGaps turns the noted drops into Gap frames.
func (s *Shard) takeGaps(q *sendQueue, parts []*link.Frame) []*link.Frame {
	for _, g := range q.gaps {
		s.stats.Gaps.Add(1)
		parts = append(parts, link.NewFrame(frame.AppendGap(nil, &frame.Gap{Tag: g.tag, Count: g.count, Reason: g.reason.String()})))
	}
	clear(q.gaps)
	q.gaps = q.gaps[:0]
	return parts
}
