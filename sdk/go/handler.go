package sdk

import (
	"time"

	"github.com/klinkio/klink"
)

// Handler hears what happens. Calls come one at a time, in order, on a goroutine of the client; see the package documentation.
// The values belong to the handler.
type Handler interface {
	// OnStatus tells each change of the connection. The last call of all has [StateClosed].
	OnStatus(s *Status)

	// OnPush brings a push.
	OnPush(p *Push)

	// OnGap says that pushes are missing here: the server dropped them, or this client did ([Gap.Local]).
	OnGap(g *Gap)

	// OnTags tells changes of the tags that no call of [Client.Subscribe] or [Client.Unsubscribe] returned.
	OnTags(t *Tags)

	// OnError tells what went wrong on the side and needs no answer: a token that could not be renewed in time, an install
	// that could not be saved, an error that the server reports without naming a request.
	OnError(err error)
}

// Callbacks is a [Handler] of functions; those that are nil are not called.
type Callbacks struct {
	Status func(s *Status)
	Push   func(p *Push)
	Gap    func(g *Gap)
	Tags   func(t *Tags)
	Error  func(err error)
}

var _ Handler = (*Callbacks)(nil)

// OnStatus implements [Handler].
func (c *Callbacks) OnStatus(s *Status) {
	if c.Status != nil {
		c.Status(s)
	}
}

// OnPush implements [Handler].
func (c *Callbacks) OnPush(p *Push) {
	if c.Push != nil {
		c.Push(p)
	}
}

// OnGap implements [Handler].
func (c *Callbacks) OnGap(g *Gap) {
	if c.Gap != nil {
		c.Gap(g)
	}
}

// OnTags implements [Handler].
func (c *Callbacks) OnTags(t *Tags) {
	if c.Tags != nil {
		c.Tags(t)
	}
}

// OnError implements [Handler].
func (c *Callbacks) OnError(err error) {
	if c.Error != nil {
		c.Error(err)
	}
}

// State is where a client stands.
type State uint8

// The states.
const (
	StateIdle       State = iota // made, not started
	StateConnecting              // dialing or logging in
	StateConnected               // logged in
	StateWaiting                 // until the next try
	StateClosed                  // for good: closed by the application, or ended by the server
)

var stateNames = [...]string{"idle", "connecting", "connected", "waiting", "closed"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// Status is the state of a client at one moment.
type Status struct {
	State     State
	Endpoint  string          // dialed, connected to, or lost; as a URL
	Transport klink.Transport // of Endpoint
	Attempt   uint64          // of the last Connect frame

	// In StateConnected:
	Session   string
	User, App string
	Version   uint64        // presence version of this login
	Heartbeat time.Duration // interval in force
	Resumed   bool          // the server went on with the session that was lost
	Degraded  bool          // the server can't reach the user state; presence follows
	Connects  uint64        // logins of this Client until now, this one included

	// In StateWaiting and StateClosed:
	Err   error         // why the last connection ended, a [*DisconnectError] if the server said so; nil after Close
	Delay time.Duration // until the next try
}

// Push is one push.
type Push struct {
	ID          string
	Tag         string // that it was sent to; empty for pushes to users, devices and everyone
	Expr        string // tag expression that it was sent to
	From        string // user id of the client that published it; empty for back ends
	CollapseKey string
	Payload     klink.Payload
	Time        time.Time // of its acceptance, by the server's clock
}

// GapLocal is the reason of a [Gap] that this client made because its callbacks were too slow.
const GapLocal = "client_queue"

// Gap says that pushes are missing.
type Gap struct {
	Tag      string // empty: pushes to the user, or of several tags
	From, To uint64 // offsets, where the tag has a history
	Count    uint32 // 0: not known
	Reason   string // name of a drop reason of the server, or [GapLocal]
	Local    bool   // dropped by this client
}

// Tags is a change of the tags of this session.
type Tags struct {
	Added   []string    // carried from now on: all of them after a login, else what a back end added
	Removed []string    // taken away by a back end, and not subscribed again after a reconnect
	Refused []TagResult // subscribed before, refused at this login
	Barrier []string    // subscribed before without [Subscription.Barrier], which holds from now on
}

// TagResult is what became of one tag in a request.
type TagResult struct {
	Tag  string
	Code klink.Code // klink.OK: done
	Text string     // why not, for people
}
