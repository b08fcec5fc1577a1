package connmgr

import (
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/proto/frame"
)

// refresh hands a new token to the authority, one at a time: each may cost it a signature check, and of two on their way the older could
// be answered last.
func (s *Shard) refresh(slot uint32, ss *session, h klink.Handle, r *frame.Refresh) {
	if ss.flags&flagRefreshing != 0 {
		s.stats.Refused[LimitRefresh].Add(1)
		s.fail(slot, ss, r.ID, klink.CodeConflict, "a refresh is under way", LimitRefresh.String())
		return
	}
	ss.flags |= flagRefreshing
	s.mgr.auth.Refresh(s, h, r)
}

// Refreshed answers a Refresh: the session goes on with the new grants and expiry, or ends with the code.
func (s *Shard) Refreshed(h klink.Handle, id uint32, g *auth.Grants, expiresSec, issuedSec int64, code klink.Disconnect, reason string) {
	slot, ss := s.live(h)
	if ss == nil {
		return
	}
	ss.flags &^= flagRefreshing
	if code != 0 {
		s.disconnect(slot, ss, code, reason)
		return
	}
	old := ss.grants
	ss.grants = s.grants.put(g)
	s.grants.drop(old)
	ss.expires, ss.issued = s.tokenEnd(expiresSec), clampSec(issuedSec)
	s.arm(slot, ss)
	s.fail(slot, ss, id, klink.OK, "refreshed", "")
}

// tokenEnd is when a session ends whose token expires at a second; 0: never.
func (s *Shard) tokenEnd(expiresSec int64) uint32 {
	if expiresSec == 0 {
		return 0
	}
	return clampSec(expiresSec + int64(s.mgr.cfg.TokenGrace/time.Second))
}

// RefreshLater answers a Refresh that can't be served now: the session goes on as before.
func (s *Shard) RefreshLater(h klink.Handle, id uint32, text string) {
	slot, ss := s.live(h)
	if ss == nil {
		return
	}
	ss.flags &^= flagRefreshing
	s.fail(slot, ss, id, klink.CodeOverloaded, text, "")
}
