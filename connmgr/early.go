package connmgr

import "github.com/klinkio/klink"

// Bounds of what waits for the answer to a Connect: bytes of frames from the client, of all clients of a loop, and changes of tags by back ends.
const (
	maxEarly        = 16 << 10
	maxEarlyTotal   = 16 << 20
	maxEarlyChanges = 64
)

// early is what came for a connection while its login was with the authority.
type early struct {
	bodies [][]byte // copies
	bytes  int
	tags   []tagChange
}

type tagChange struct{ add, remove []string }

func (s *Shard) earlyOf(h klink.Handle) *early {
	e := s.waiting[h]
	if e == nil {
		e = new(early)
		s.waiting[h] = e
	}
	return e
}

func (s *Shard) putEarly(slot uint32, ss *session, h klink.Handle, body []byte) {
	e, n := s.earlyOf(h), len(body)+24
	if e.bytes+n > maxEarly || s.earlyBytes+n > maxEarlyTotal {
		s.stats.Refused[LimitEarlyFrames].Add(1)
		s.disconnect(slot, ss, klink.DisconnectRateLimited, "too many frames before Connected: 16 KiB of one client, 16 MiB of all")
		return
	}
	e.bytes += n
	s.earlyBytes += n
	e.bodies = append(e.bodies, append([]byte(nil), body...))
}

// putEarlyTags keeps a change that the user state made after it had answered the login and before that answer came here.
func (s *Shard) putEarlyTags(h klink.Handle, add, remove []string) {
	e := s.earlyOf(h)
	if len(e.tags) >= maxEarlyChanges {
		s.Refuse(h, klink.DisconnectOverloaded, "too many changes of tags during the login")
		return
	}
	e.tags = append(e.tags, tagChange{add, remove})
}

// dropEarly forgets what came for a login and returns it.
func (s *Shard) dropEarly(h klink.Handle) *early {
	e := s.waiting[h]
	if e != nil {
		s.earlyBytes -= e.bytes
		delete(s.waiting, h)
	}
	return e
}

// serveEarly handles what came before the session was admitted.
func (s *Shard) serveEarly(slot uint32, ss *session, h klink.Handle) {
	e := s.dropEarly(h)
	if e == nil {
		return
	}
	for _, c := range e.tags {
		s.changeTags(slot, ss, c.add, c.remove)
	}
	for _, body := range e.bodies {
		if ss.gen != h.Gen() || ss.state != stateLive {
			return
		}
		s.handleFrame(slot, ss, h, body)
	}
}
