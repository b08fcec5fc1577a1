package crux

import (
	"context"
	"errors"
	"time"

	"github.com/klinkio/klink"
)

// Errors that callers branch on.
var (
	// ErrFenced says that the incarnation has lost its lease or a newer one exists: it must register anew.
	ErrFenced = errors.New("crux: incarnation is fenced")
	// ErrUnavailable says that the store can't answer now; nothing is known about the effect of a write.
	ErrUnavailable = errors.New("crux: store unavailable")
	// ErrClosed says that Close was called.
	ErrClosed = errors.New("crux: closed")
)

// FE is what a front end says of itself when it registers.
type FE struct {
	ID        string
	Endpoints []string // where clients dial, for example tls://host:7443
	Lease     time.Duration
}

// Store is the user state. All methods are safe for concurrent use and return [ErrUnavailable] (wrapped)
// when the store can't answer. Identifiers that [klink.CheckID] refuses, a zero handle, a floor above 2^52 and other
// impossible arguments of a change are a [klink.Error] with klink.CodeInvalid, and nothing of the call takes effect;
// readers know nothing under such names.
type Store interface {
	// RegisterFE begins a new life of an FE: a number higher than all before, with a lease (zero: DefaultLease, at most
	// MaxLease). Sessions of older incarnations of the same id are offline from then on.
	RegisterFE(ctx context.Context, fe FE) (klink.Incarnation, error)

	// RenewFE prolongs the lease. It returns what the FE has to do: sessions that were replaced and may still live there.
	// An incarnation whose lease has ended, or that has a successor, gets ErrFenced.
	RenewFE(ctx context.Context, inc klink.Incarnation) (Renewal, error)

	// ReleaseFE ends the lease at once. Sessions left are offline. ErrFenced says that it had ended before.
	ReleaseFE(ctx context.Context, inc klink.Incarnation) error

	// Register logs sessions in, each by the rules of attempts and device policy, and checks revocation. The answer
	// at index i belongs to regs[i], which see what those before them did; an error of the call means that none is known
	// to be in. To register a session that is in already (incarnation, handle) changes nothing but to obey the floor.
	Register(ctx context.Context, regs []Registration) ([]Registered, error)

	// Unregister removes exactly the sessions named (incarnation, handle); others of the same device stay. It also
	// confirms that the session is closed, see Renewal.
	Unregister(ctx context.Context, unregs []Unregistration) ([]Unregistered, error)

	// Lookup reads users of one app; the answer at index i belongs to users[i]. Unknown users are offline with version 0.
	Lookup(ctx context.Context, app string, users []string) ([]User, error)

	// ChangeTags adds and removes tags that the back end sets on a user; they survive reconnects. Removing wins
	// when a tag is in both. More than [MaxUserTags] tags on one user: klink.CodeLimit, and nothing changes.
	ChangeTags(ctx context.Context, app, user string, add, remove []string) (UserTags, error)

	// Revoke makes tokens of the user (of one device, if device is not empty) issued before the time unusable; a token
	// issued at that very time is good. Of several revocations the latest time counts. Sessions go on; who wants them
	// ended has to do that. Token times are whole seconds: a token of the same second as a revocation within it is unusable.
	Revoke(ctx context.Context, app, user, device string, before time.Time) error

	// Revoked reports whether a token issued at that time is unusable. With an empty device only revocations of the
	// whole user count.
	Revoked(ctx context.Context, app, user, device string, issued time.Time) (bool, error)

	// DeleteUser removes all that is stored of the user (sessions, tags, last seen; not revocations) and returns
	// what it was, with the version of the deletion. Its sessions are listed in Renewal until their FEs confirm.
	DeleteUser(ctx context.Context, app, user string) (User, error)

	// NonBlocking says that the methods of FEs (RegisterFE, RenewFE, ReleaseFE, Register, Unregister, Revoked) and Lookup
	// answer from memory and may be called on an event loop. ChangeTags, Revoke and DeleteUser may wait for a disk anyway.
	NonBlocking() bool

	// Stats counts what is stored.
	Stats(ctx context.Context) (Stats, error)

	// Close releases what the engine holds. Later calls return ErrClosed.
	Close() error
}

// Renewal is the answer to RenewFE.
type Renewal struct {
	Expires  time.Time   // when the lease ends by the store's clock
	Replaced []CloseItem // sessions of this incarnation that newer logins replaced, or whose user was deleted, and whose close was not confirmed by Unregister; oldest first, a bounded part
}

// CloseItem names a session to close.
type CloseItem struct {
	Handle klink.Handle
	Reason klink.Disconnect
}

// Policy is an app's rule for several sessions of one user. Under every policy a device id has at most one
// session, which a newer login of the same device replaces.
type Policy uint8

// The device policies.
const (
	PolicyAllowAll   Policy = iota // every device, up to MaxDevices
	PolicyOnePerUser               // one session per user, on whichever device
)

// Winner says which session stays when a policy or a bound does not admit all. A login counts as newer than all before
// it; a re-registration (LoginMs is set) as what its login time says, so it can lose to a newer session also under NewestWins.
type Winner uint8

// The winners. OldestWins never applies to the same device id nor to a holder whose FE is not alive.
const (
	NewestWins Winner = iota
	OldestWins
)

// DefaultMaxDevices is the bound of sessions per user where the app names none, MaxDevicesLimit the bound whatever it
// names; MaxUserTags bounds the tags that back ends set on one user.
const (
	DefaultMaxDevices = 16
	MaxDevicesLimit   = 256
	MaxUserTags       = 256
)

// Registration is one login.
type Registration struct {
	App, User, Device string
	Incarnation       klink.Incarnation
	Handle            klink.Handle
	Transport         klink.Transport
	Attempt           uint64
	LoginMs           int64         // 0: now by the store's clock; a re-registration carries the old one
	Floor             klink.Version // the highest version of this user that the FE has seen, at most 2^52
	TokenIssued       time.Time     // zero: not checked against revocations
	Policy            Policy
	Winner            Winner
	MaxDevices        int // 0: DefaultMaxDevices; at most MaxDevicesLimit counts
}

// Verdict is the outcome of one registration.
type Verdict uint8

// The verdicts.
const (
	Admitted   Verdict = iota
	Superseded         // a newer or equal attempt of this device holds the session, or by policy a newer one of the user
	TooMany            // the policy with OldestWins does not admit it
	Revoked            // the token is revoked
	Fenced             // the incarnation is not alive
)

// Registered answers one registration.
type Registered struct {
	Verdict  Verdict
	Version  klink.Version
	LoginMs  int64      // as stored
	Tags     []string   // set by back ends
	Replaced []Location // sessions that this one replaced and that the caller has to close
}

// Location is where a session lives.
type Location struct {
	Incarnation klink.Incarnation
	Handle      klink.Handle
	Device      string
	Version     klink.Version    // of its login
	Reason      klink.Disconnect // why it was replaced
}

// Unregistration names a session by who holds it.
type Unregistration struct {
	App, User, Device string
	Incarnation       klink.Incarnation
	Handle            klink.Handle
}

// Unregistered answers one unregistration. Removed is false when the session was not there any more: then nothing changed.
type Unregistered struct {
	Removed bool
	Version klink.Version // of the user, after this
	Last    bool          // it was the user's last session: the user is offline now
}

// User is what is known of one user.
type User struct {
	User     string
	Version  klink.Version
	Sessions []Session // alive, by login time
	LastSeen time.Time // of an offline user: when the last session ended, by logout or with its FE's lease; zero if unknown
	Tags     []string  // set by back ends, sorted
	Stale    bool      // the store could not check leases; the sessions may be gone
}

// Online reports whether the user has a session.
func (u *User) Online() bool { return len(u.Sessions) > 0 }

// Session is one live session.
type Session struct {
	Device      string
	Incarnation klink.Incarnation
	Handle      klink.Handle
	Transport   klink.Transport
	Since       time.Time
	Version     klink.Version // of its login
}

// UserTags is the set after a change, and where the user's sessions are, so that their FEs can be told.
type UserTags struct {
	Tags     []string      // sorted
	Version  klink.Version // as before if nothing was added or removed
	Added    []string      // that were not there, sorted
	Removed  []string      // that were there, sorted
	Sessions []Session
}

// Stats counts what a store holds.
type Stats struct {
	FEs      int
	Users    int // with at least one session
	Sessions int
	Known    int // users with any record: last seen, tags
}
