package fe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/connmgr"
	"github.com/klinkio/klink/crux"
)

// resyncBatch is how many sessions are registered again at once, and resyncPause the time between: a front end that comes
// back must not storm the store.
const (
	resyncBatch = 256
	resyncPause = 20 * time.Millisecond
	resyncRetry = time.Second // after an error
)

// errOldLife says that the front end has begun a new life while sessions were registered for the one before.
var errOldLife = errors.New("the incarnation has changed meanwhile")

// keepKnown registers the sessions that the user state does not know: all of them after the lease was lost, else those that were
// admitted while the user state was away. It tries until all are known. The lease is kept by another goroutine meanwhile.
func (n *Node) keepKnown(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.resync:
		}
		for {
			err := n.registerAgain(ctx)
			if err == nil {
				break
			}
			if ctx.Err() == nil {
				n.cfg.Log.Warn("sessions not registered again yet", "fe", n.cfg.ID, "err", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(resyncRetry):
			}
		}
	}
}

// registerAgain walks once over all sessions. Those that log in while it runs register under the present life by themselves.
func (n *Node) registerAgain(ctx context.Context) error {
	inc := n.incarnation()
	all := n.known != inc
	n.degraded.Store(false) // who is admitted without the user state from now on asks for the next walk
	err := n.sessions.Walk(ctx, resyncBatch, func(list []connmgr.Registered) error {
		if !all {
			list = degradedOf(list)
		}
		if len(list) == 0 {
			return nil
		}
		if err := n.registerBatch(ctx, inc, list); err != nil {
			return err
		}
		select {
		case <-time.After(resyncPause):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		n.degraded.Store(true)
		return err
	}
	n.known = inc
	if n.incarnation() != inc {
		return errOldLife
	}
	return nil
}

// degradedOf keeps those of the list that the user state does not know.
func degradedOf(list []connmgr.Registered) []connmgr.Registered {
	out := list[:0]
	for _, r := range list {
		if r.Degraded {
			out = append(out, r)
		}
	}
	return out
}

// registerBatch registers sessions of one loop, with their old attempts and login times, so that none takes the place of a newer one.
func (n *Node) registerBatch(ctx context.Context, inc klink.Incarnation, list []connmgr.Registered) error {
	if n.incarnation() != inc {
		return errOldLife
	}
	regs := make([]crux.Registration, len(list))
	for i := range list {
		r := &list[i]
		app := n.cfg.Apps[r.App]
		regs[i] = crux.Registration{
			App: r.App, User: r.User, Device: r.Device, Incarnation: inc, Handle: r.Handle, Transport: r.Transport,
			Attempt: r.Attempt, LoginMs: r.LoginMs, Floor: r.Version,
			Policy: app.Policy, Winner: app.Winner, MaxDevices: app.MaxDevices,
		}
		// Revocation is checked at Connect and Refresh and ends no session that goes on; who was admitted without the check has it now.
		if r.Degraded && r.IssuedSec != 0 {
			regs[i].TokenIssued = time.Unix(r.IssuedSec, 0)
		}
	}
	call, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	res, err := n.cfg.Store.Register(call, regs)
	if err != nil {
		return fmt.Errorf("register %d sessions again: %w", len(regs), err)
	}
	n.sessions.Post(list[0].Handle, &registeredAgain{node: n, inc: inc, list: list, res: res})
	for i := range res {
		if res[i].Verdict == crux.Fenced {
			n.fenced()
			return crux.ErrFenced
		}
	}
	return nil
}

// registeredAgain brings the answers to the loop of their sessions.
type registeredAgain struct {
	node *Node
	inc  klink.Incarnation
	list []connmgr.Registered
	res  []crux.Registered
}

// Run implements [connmgr.Task]. A session that ended meanwhile may have logged out before it was in: then its logout is repeated.
func (a *registeredAgain) Run(s *connmgr.Shard) {
	for i := range a.res {
		r, l := &a.res[i], &a.list[i]
		switch r.Verdict {
		case crux.Admitted:
			if !s.Known(l.Handle, r.Version, r.Tags) {
				a.node.unregister(&crux.Unregistration{App: l.App, User: l.User, Device: l.Device, Incarnation: a.inc, Handle: l.Handle})
			}
			a.node.closeReplaced(r.Replaced)
		case crux.Fenced: // the next walk tries again
		default:
			code, reason := refusal(r.Verdict)
			s.End(l.Handle, code, reason)
		}
	}
}
