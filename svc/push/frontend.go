package push

import (
	"context"

	"github.com/klinkio/klink"
)

// FrontEnd is one front end as the push service sees it: the one of the same process, or one behind an RPC. All methods are safe for
// concurrent use. Sessions of another incarnation than the front end's own are treated as gone.
type FrontEnd interface {
	// ID is what [klink.Incarnation] calls FE.
	ID() string

	// Start gives d to the sessions that match and calls done once when every loop has finished with it. It does not block and
	// retains d until then. done does not block. A session that is named twice, or named and matched, gets one copy and is
	// counted once. On an error nothing was done and done is not called.
	Start(d *klink.Delivery, done func(klink.Report)) error

	// ChangeTags applies a change of a user's tags to the sessions named and returns when their loops have done it. Sessions
	// that are gone are skipped.
	ChangeTags(ctx context.Context, sessions []klink.SessionRef, add, remove []string) error

	// Disconnect ends the sessions named, as soon as their loops get to it. Sessions that are gone are skipped.
	Disconnect(sessions []klink.SessionRef, code klink.Disconnect, reason string)

	// LateOutcomes are the drops of a push that happened after its report was given, as far as they are still known.
	LateOutcomes(push string) []klink.Outcome

	// SessionTags are the tags that a session carries now; false: it is not there any more.
	SessionTags(ctx context.Context, session klink.SessionRef) ([]string, bool, error)
}

// Directory knows which front ends there are.
type Directory interface {
	// FrontEnds is a snapshot, which the caller does not change. It is called for every push and must be cheap.
	FrontEnds() []FrontEnd
}

// Static is a directory that never changes.
type Static []FrontEnd

// FrontEnds implements [Directory].
func (s Static) FrontEnds() []FrontEnd { return s }
