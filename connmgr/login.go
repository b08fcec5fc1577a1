package connmgr

import (
	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

// Refuse ends a connection whose login failed. It does nothing when the connection is gone or live.
func (s *Shard) Refuse(h klink.Handle, code klink.Disconnect, reason string) {
	s.RefuseTo(h, code, reason, code.Info().DelayMs, "")
}

// RefuseTo also says when to come back and where.
func (s *Shard) RefuseTo(h klink.Handle, code klink.Disconnect, reason string, delayMs uint32, target string) {
	ss := s.slab.find(h)
	if ss == nil || ss.state == stateClosing || ss.state == stateLive {
		s.stats.Stale.Add(1)
		return
	}
	ss.flags |= flagRefused
	s.stats.Logins[loginResult(code)].Add(1)
	s.disconnectTo(h.Slot(), ss, code, reason, delayMs, target)
}

// LoginPending reports whether the connection still waits for the answer to its Connect.
func (s *Shard) LoginPending(h klink.Handle) bool {
	ss := s.slab.find(h)
	return ss != nil && ss.state == stateLogin
}

// Admit makes the connection a live session and tells the client. It reports false when the connection is gone, or is sent away because the
// front end drains: then the caller undoes the registration, and Ended is not called.
func (s *Shard) Admit(h klink.Handle, a *Admission) bool {
	slot := h.Slot()
	ss := s.slab.find(h)
	if ss == nil || ss.state != stateLogin {
		s.stats.Stale.Add(1)
		return false
	}
	if s.drain.on {
		s.drain.refuse(s, slot, ss)
		return false
	}
	app, l := s.apps.lane(a.App)
	ss.state, ss.app = stateLive, app
	ss.flags |= flagRegistered
	if a.Background {
		ss.flags |= flagBackground
	}
	if a.Degraded {
		ss.flags |= flagDegraded
	}
	ss.version, ss.attempt = uint64(a.Version), a.Attempt
	ss.sinceMs, ss.expires, ss.issued = a.LoginMs, s.tokenEnd(a.ExpiresSec), clampSec(a.IssuedSec)
	ss.grants = s.grants.put(a.Grants)
	ss.ids = s.ids.put(a.User, a.Device)
	ss.heartbeat = s.heartbeat(a.HeartbeatWish)
	l.sessions++
	s.stats.Open.Add(-1)
	s.stats.Sessions.Add(1)
	s.stats.Logins[LoginOK].Add(1)
	s.arm(slot, ss)

	results := s.joinAll(slot, ss, l, a)
	s.sendConnected(slot, ss, h, a, results)
	if ss.state == stateLive {
		s.serveEarly(slot, ss, h)
	}
	return true
}

// joinAll joins the tags of a login and says what became of each.
func (s *Shard) joinAll(slot uint32, ss *session, l *lane, a *Admission) []frame.TagResult {
	if len(a.Tags) == 0 && len(a.Wish) == 0 {
		return nil
	}
	results := make([]frame.TagResult, 0, len(a.Tags)+len(a.Wish))
	for _, t := range a.Tags {
		code, text := s.join(slot, l, []byte(t), s.mgr.cfg.MaxTags+backEndTags)
		results = append(results, frame.TagResult{Tag: t, Error: code, Text: text})
	}
	for _, t := range a.Wish {
		code, text := s.allowedJoin(slot, ss, l, []byte(t))
		results = append(results, frame.TagResult{Tag: t, Error: code, Text: text})
	}
	return results
}

func (s *Shard) sendConnected(slot uint32, ss *session, h klink.Handle, a *Admission, results []frame.TagResult) {
	c := &s.mgr.cfg
	m := frame.Connected{
		Session:      klink.SessionID(s.mgr.inc(), h),
		ServerTimeMs: s.wall().UnixMilli(),
		Heartbeat:    frame.Heartbeat{Seconds: uint32(ss.heartbeat), MinSeconds: uint32(c.HeartbeatMin), MaxSeconds: uint32(c.HeartbeatMax)},
		Limits: frame.Limits{
			FrameBytes: uint32(c.MaxFrame), Tags: uint32(c.MaxTags), Requests: uint32(c.MaxRequests),
			QueuedBytes: uint32(c.QueueBytes), FramesPerSecond: uint32(c.FramesPerSecond),
		},
		Endpoints: c.Endpoints, Degraded: a.Degraded, User: a.User, App: a.App, Version: uint64(a.Version), Tags: results,
		TokenExpiresMs: a.ExpiresSec * 1000,
	}
	switch {
	case a.Resumed:
		m.Resume = frame.ResumeResumed
	case a.ResumeAsked:
		m.Resume = frame.ResumeNew
	}
	s.buf = frame.AppendConnected(s.buf[:0], &m)
	s.answerBody(slot, ss, s.buf)
}
