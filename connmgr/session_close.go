package connmgr

import (
	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
)

// numEnds is how many ways there are for a connection to end: the disconnect codes, and what transports report.
const (
	endRetry    = 10 // codes from 4000
	endTerminal = 11 // codes from 4500
	numEnds     = endRetry + endTerminal + int(link.NumCloseReasons)
)

func endOf(why link.CloseReason) int { return endRetry + endTerminal + int(why) }

func endOfCode(d klink.Disconnect) int {
	switch {
	case d >= 4500 && d < 4500+endTerminal:
		return endRetry + int(d-4500)
	case d >= 4000 && d < 4000+endRetry:
		return int(d - 4000)
	default:
		return endOf(link.CloseLocal)
	}
}

// EndName is the label of one of [Stats.Ended]: a disconnect code's name, or transport_ and a close reason.
func EndName(i int) string {
	switch {
	case i < endRetry:
		return klink.Disconnect(4000 + i).String()
	case i < endRetry+endTerminal:
		return klink.Disconnect(4500 + i - endRetry).String()
	default:
		return "transport_" + link.CloseReason(i-endRetry-endTerminal).String()
	}
}

// End ends a session, or the login that would become it. It does nothing when the connection is gone.
func (s *Shard) End(h klink.Handle, code klink.Disconnect, reason string) {
	ss := s.slab.find(h)
	switch {
	case ss == nil || ss.state == stateClosing:
		s.stats.Stale.Add(1)
	case ss.state == stateLive:
		s.disconnect(h.Slot(), ss, code, reason)
	default:
		s.Refuse(h, code, reason)
	}
}

// disconnect ends a session: the Disconnect frame, and the close with the same code.
func (s *Shard) disconnect(slot uint32, ss *session, code klink.Disconnect, reason string) {
	s.disconnectTo(slot, ss, code, reason, code.Info().DelayMs, "")
}

// disconnectTo also says when to come back and where. The frame is left out when the connection takes none.
func (s *Shard) disconnectTo(slot uint32, ss *session, code klink.Disconnect, reason string, delayMs uint32, target string) {
	if ss.state == stateClosing {
		return
	}
	h := s.handle(slot, ss)
	if ss.queue == 0 {
		s.buf = frame.AppendDisconnect(s.buf[:0], &frame.Disconnect{
			Code: uint32(code), Reason: reason, Retry: code.Info().Retry, DelayMs: delayMs, Target: target,
		})
		s.stats.FramesOut.Add(1)
		s.loop.Send(h, link.NewFrame(append([]byte(nil), s.buf...)))
	}
	s.stats.Ended[endOfCode(code)].Add(1)
	drop := klink.DropClosed
	if code == klink.DisconnectSlow {
		drop = klink.DropSlow
	}
	s.retire(slot, ss, drop, code)
	s.loop.Close(h, code, reason)
}

// retire takes a session out of everything but its record: wheel, index, queue, tables. What waited for it is dropped as drop.
func (s *Shard) retire(slot uint32, ss *session, drop klink.Drop, code klink.Disconnect) {
	s.wheel.remove(&s.slab, ss)
	if ss.flags&flagDraining != 0 {
		s.drain.lingering--
	}
	if len(s.waiting) > 0 {
		s.dropEarly(s.handle(slot, ss))
	}
	if ss.queue != 0 {
		s.dropQueue(slot, ss, drop)
	}
	was := ss.state
	ss.state = stateClosing
	switch was {
	case stateLive:
		s.stats.Sessions.Add(-1)
		s.apps.at(ss.app).sessions--
		s.index.LeaveAll(slot, nil)
		s.mgr.pings.gone(s.handle(slot, ss))
		if ss.flags&flagRegistered != 0 {
			s.mgr.auth.Ended(s, s.handle(slot, ss), s.identity(ss), code)
		}
		s.grants.drop(ss.grants)
		s.ids.drop(ss.ids)
		ss.ids = 0
	case stateOpen, stateLogin:
		s.stats.Open.Add(-1)
		if was == stateLogin && ss.flags&flagRefused == 0 {
			s.stats.Logins[LoginGone].Add(1)
		}
	case stateFree, stateClosing:
	}
}

// dropQueue drops what waits for a session that ends.
func (s *Shard) dropQueue(slot uint32, ss *session, why klink.Drop) {
	q := s.queues.at(ss.queue)
	s.mgr.queued.Add(-int64(q.bytes))
	for q.len() > 0 {
		if e := q.pop(); e.push != nil {
			s.stats.Dropped[why].Add(1)
			if ss.state == stateLive {
				s.late(slot, ss, e.push, why)
			}
		}
	}
	s.queues.drop(ss.queue)
	ss.queue = 0
	s.stats.Blocked.Add(-1)
}
