package fe

import (
	"context"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/connmgr"
)

// handles are those of the sessions that belong to this life of the FE.
func (n *Node) handles(sessions []klink.SessionRef) []klink.Handle {
	inc := n.incarnation()
	out := make([]klink.Handle, 0, len(sessions))
	for i := range sessions {
		if sessions[i].Incarnation == inc {
			out = append(out, sessions[i].Handle)
		}
	}
	return out
}

// ChangeTags applies a back end's change of a user's tags to sessions and returns when their loops have done it. Those that are gone are
// skipped.
func (n *Node) ChangeTags(ctx context.Context, sessions []klink.SessionRef, add, remove []string) error {
	return n.sessions.ChangeTags(ctx, n.handles(sessions), add, remove)
}

// Disconnect ends sessions, as soon as their loops get to it.
func (n *Node) Disconnect(sessions []klink.SessionRef, code klink.Disconnect, reason string) {
	for _, h := range n.handles(sessions) {
		n.sessions.Disconnect(h, code, reason)
	}
}

// LateOutcomes are the drops of a push that happened after its report was given, as far as they are still known.
func (n *Node) LateOutcomes(push string) []klink.Outcome { return n.sessions.LateOutcomes(push) }

// SessionTags are the tags that a session carries now; false: it is not there any more.
func (n *Node) SessionTags(ctx context.Context, session klink.SessionRef) ([]string, bool, error) {
	if session.Incarnation != n.incarnation() {
		return nil, false, nil
	}
	info, ok, err := n.sessions.Session(ctx, session.Handle)
	return info.Tags, ok, err
}

// TagCount is how many sessions of the app carry the tag.
func (n *Node) TagCount(ctx context.Context, app, tag string) (int, error) {
	return n.sessions.Count(ctx, app, tag)
}

// Members is a page of the sessions that carry the tag. The cursor holds the loop above the place in its list.
func (n *Node) Members(ctx context.Context, app, tag string, cursor uint64, limit int) (page []klink.Member, next uint64, done bool, err error) {
	cur := connmgr.MemberCursor{Loop: int(cursor >> 32 & 0xff), At: uint32(cursor)}
	page, nc, done, err := n.sessions.Members(ctx, app, tag, cur, limit)
	return page, uint64(nc.Loop)<<32 | uint64(nc.At), done, err
}
