package connmgr

import (
	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/proto/frame"
)

// Authority decides about sessions and serves what they ask for. Its methods are called on the loop's goroutine and must not
// block; what they are given is valid until they return. It answers on the same loop, at once or in a posted [Task].
type Authority interface {
	// Login is asked about a Connect. It answers with [Shard.Admit] or [Shard.Refuse].
	Login(s *Shard, h klink.Handle, c *frame.Connect)

	// Ended tells that a session which was admitted is over. It is called once for each Admit that was not refused.
	Ended(s *Shard, h klink.Handle, id Identity, why klink.Disconnect)

	// Refresh is asked about a new token for a live session. It answers with [Shard.Refreshed].
	Refresh(s *Shard, h klink.Handle, r *frame.Refresh)

	// Publish is asked to push to a tag; the session's grants allow it. It answers with [Shard.Published].
	Publish(s *Shard, h klink.Handle, p *frame.Publish)

	// Request is asked to serve a request; the session's grants allow it. It answers with [Shard.Respond].
	Request(s *Shard, h klink.Handle, r *frame.Request)
}

// Identity is who a session is.
type Identity struct {
	App    string
	User   string
	Device string
}

// Admission is what the authority says of a session that it lets in.
type Admission struct {
	Identity
	Grants        *auth.Grants
	Version       klink.Version
	Attempt       uint64
	LoginMs       int64    // Unix ms, from the user state
	ExpiresSec    int64    // Unix, of the token; 0: never
	IssuedSec     int64    // Unix, of the token
	Tags          []string // joined at once: of the token and those that back ends set
	Wish          []string // from Connect: joined where the grants allow it
	HeartbeatWish int      // seconds, 0: none
	Background    bool
	Degraded      bool
	ResumeAsked   bool
	Resumed       bool
}
