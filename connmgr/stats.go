package connmgr

import (
	"sync/atomic"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

// Stats are the counters of one loop's sessions. They only grow, except those named as gauges. The loop writes them,
// anyone may read.
type Stats struct {
	Sessions atomic.Int64 // gauge: live
	Open     atomic.Int64 // gauge: connections without a login
	Blocked  atomic.Int64 // gauge: sessions with a send queue
	Logins   [NumLoginResults]atomic.Uint64
	Ended    [numEnds]atomic.Uint64

	FramesIn  [frame.NumKinds]atomic.Uint64 // by kind of client frame
	FramesOut atomic.Uint64                 // answers and control frames
	Pushed    atomic.Uint64                 // push frames given to connections at once
	Enqueued  atomic.Uint64                 // push frames that had to wait for a slow reader
	Dropped   [klink.NumDrops]atomic.Uint64
	Gaps      atomic.Uint64 // Gap frames
	Rounds    atomic.Uint64 // fan-out rounds
	Batched   atomic.Uint64 // pushes that rode a round of another push
	Deferred  atomic.Uint64 // rounds put off to keep the rate of rounds of a large tag
	Refused   [NumLimits]atomic.Uint64
	Stale     atomic.Uint64 // mailbox messages and answers for a connection that was gone
	Hangs     atomic.Uint64 // rounds that began more than 2 s late
}

// Limit names a bound that a client ran into.
type Limit uint8

// The limits; each has a counter.
const (
	LimitTags Limit = iota
	LimitRequests
	LimitFrameRate
	LimitPayload
	LimitEarlyFrames
	LimitTagIndex // of the loop's whole index
	LimitRefresh  // one under way per session
	NumLimits
)

var limitNames = [NumLimits]string{"tags", "requests", "frames_per_second", "payload_bytes", "early_frames", "tag_index", "refreshes"}

func (l Limit) String() string { return limitNames[l] }

// LoginResult is how a Connect ended, and LoginTimeout also a connection that never sent one. Each Connect counts once.
type LoginResult uint8

// The results of logins; each has a counter.
const (
	LoginOK LoginResult = iota
	LoginUnauthorized
	LoginForbidden
	LoginRevoked
	LoginSuperseded
	LoginTooMany
	LoginOverloaded
	LoginUnavailable
	LoginDraining
	LoginBad
	LoginTimeout
	LoginGone
	LoginOther
	NumLoginResults
)

var loginNames = [NumLoginResults]string{
	"ok", "unauthorized", "forbidden", "revoked", "superseded", "too_many_devices", "overloaded", "unavailable",
	"draining", "bad_connect", "timeout", "gone", "other",
}

func (r LoginResult) String() string { return loginNames[r] }

// loginResult maps the code with which a login was refused.
func loginResult(d klink.Disconnect) LoginResult {
	switch d {
	case klink.DisconnectUnauthorized:
		return LoginUnauthorized
	case klink.DisconnectForbidden:
		return LoginForbidden
	case klink.DisconnectRevoked:
		return LoginRevoked
	case klink.DisconnectSuperseded:
		return LoginSuperseded
	case klink.DisconnectTooMany:
		return LoginTooMany
	case klink.DisconnectOverloaded:
		return LoginOverloaded
	case klink.DisconnectUnavailable:
		return LoginUnavailable
	case klink.DisconnectShutdown, klink.DisconnectMoved:
		return LoginDraining
	case klink.DisconnectBadConnect, klink.DisconnectProtocol, klink.DisconnectTooLarge:
		return LoginBad
	case klink.DisconnectLoginTimeout:
		return LoginTimeout
	default:
		return LoginOther
	}
}
