package presence

import (
	"context"

	"github.com/klinkio/klink"
)

// FrontEnd is one front end as the presence service sees it. All methods are safe for concurrent use.
type FrontEnd interface {
	// ID is what [klink.Incarnation] calls FE.
	ID() string

	// TagCount is how many sessions of the app carry the tag.
	TagCount(ctx context.Context, app, tag string) (int, error)

	// Members is a page of at most limit sessions that carry the tag, and where the next one begins. The first page begins at 0; what
	// other cursors mean is the front end's own matter. done says that there is no next page. A cursor that means nothing (any more)
	// gives an empty last page. Members that come and go between two pages may be missed or met twice.
	Members(ctx context.Context, app, tag string, cursor uint64, limit int) (page []klink.Member, next uint64, done bool, err error)
}

// Directory knows which front ends there are.
type Directory interface {
	// FrontEnds is a snapshot, which the caller does not change, in the same order as long as their set is the same.
	FrontEnds() []FrontEnd
}

// Static is a directory that never changes.
type Static []FrontEnd

// FrontEnds implements [Directory].
func (s Static) FrontEnds() []FrontEnd { return s }
