package frame

import "github.com/klinkio/klink"

// Connected tells a client that it is logged in, and the rules in force.
type Connected struct {
	Session        string
	ServerTimeMs   int64 // Unix
	Heartbeat      Heartbeat
	Limits         Limits
	Capabilities   []string
	Resume         ResumeOutcome
	Endpoints      []string // to try next time, in order
	Provisional    bool     // early data, not yet confirmed
	Degraded       bool     // user state is away; presence follows
	User           string
	App            string
	Version        uint64 // presence version of this login
	Tags           []TagResult
	TokenExpiresMs int64 // Unix, 0: never
}

// Heartbeat is the interval in force and the bounds of what a client may ask for.
type Heartbeat struct {
	Seconds    uint32
	MinSeconds uint32
	MaxSeconds uint32
}

// Limits are what a connection may use.
type Limits struct {
	FrameBytes      uint32 // body of a frame to the server
	Tags            uint32
	Requests        uint32 // in flight
	QueuedBytes     uint32 // outbound budget
	FramesPerSecond uint32 // sustained
}

// ResumeOutcome says whether a session was resumed.
type ResumeOutcome int32

// The outcomes. A newer server may tell others.
const (
	ResumeNotAsked ResumeOutcome = iota
	ResumeResumed
	ResumeNew // nothing to resume; a new session
)

// Subscribed answers Subscribe, and Unsubscribe with the tags left.
type Subscribed struct {
	ID      uint32
	Tags    []TagResult
	Barrier bool // every push to these tags accepted from now on reaches this connection, or a Gap says that it did not
	Left    bool // answers an Unsubscribe
}

// TagResult is what became of one tag.
type TagResult struct {
	Tag       string
	Error     klink.Code // OK: subscribed
	Text      string     // of the error
	Epoch     string
	Offset    uint64
	Recovered []Push
}

// TagsChanged says that a back end changed this session's tags.
type TagsChanged struct {
	Added   []string
	Removed []string
}

// Published answers Publish.
type Published struct {
	ID       uint32
	Push     string // id of the push it became
	Matched  uint32
	Enqueued uint32
}

// Response answers Request.
type Response struct {
	ID    uint32
	Error klink.Code
	Text  string // of the error
	Body  Body
}

// Push is a push as it travels, a view. Servers encode a [klink.Push] with [AppendPush].
type Push struct {
	ID          []byte
	Tag         []byte // the tag it was sent to, empty for pushes to users, devices and everyone
	From        []byte // user id of the client that published it, empty for back ends
	Body        Body
	TimeMs      int64 // Unix time of acceptance
	CollapseKey []byte
	Expr        []byte // the tag expression it was sent to
}

// Gap says that pushes did not reach this connection.
type Gap struct {
	Tag    string // empty: pushes to the user or of several tags
	From   uint64
	To     uint64
	Count  uint32
	Reason string // name of a drop reason
}

// Ping asks for a [Pong] with the same id.
type Ping struct{ ID uint64 }

// Error says that a request of the client failed.
type Error struct {
	ID    uint32 // of the frame that it answers, 0: none
	Code  klink.Code
	Text  string
	Limit string // the limit that was broken
}

// Disconnect is the last frame of a session.
type Disconnect struct {
	Code    uint32 // a [klink.Disconnect]
	Reason  string
	Retry   bool
	DelayMs uint32 // this client's time slot
	Target  string // endpoint to use
}

// Server is one decoded frame of a server, used again and again. Only the struct named by Kind has a meaning. The zero
// Server is ready. Pushes, pings and pongs decode without allocating; the strings of other frames are copies.
type Server struct {
	Bounds Bounds // of repeated fields

	Kind        ServerKind
	Connected   Connected
	Subscribed  Subscribed
	TagsChanged TagsChanged
	Published   Published
	Response    Response
	Push        Push
	Gap         Gap
	Ping        Ping
	Error       Error
	Disconnect  Disconnect

	recovered int // pushes in this frame
}
