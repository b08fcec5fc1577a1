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

// reregisterBatch is how many sessions are registered again at once, and reregisterPause the time between: a front end that comes
// back must not storm the store.
const (
	reregisterBatch = 256
	reregisterPause = 20 * time.Millisecond
)

func (n *Node) register(ctx context.Context) error {
	inc, err := n.cfg.Store.RegisterFE(ctx, crux.FE{ID: n.cfg.ID, Endpoints: n.cfg.Endpoints, Lease: n.cfg.Lease})
	if err != nil {
		return fmt.Errorf("register front end %s: %w", n.cfg.ID, err)
	}
	n.inc.Store(&inc)
	n.sessions.SetIncarnation(inc)
	n.leaseOK.Store(true)
	return nil
}

// keepLease renews the lease, closes what the user state says is replaced, and starts a new life when the lease was lost.
func (n *Node) keepLease(ctx context.Context) {
	t := time.NewTicker(n.cfg.Lease / 5)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := n.renew(ctx); err != nil && ctx.Err() == nil {
			n.leaseOK.Store(false)
			n.cfg.Log.Warn("lease not renewed", "fe", n.cfg.ID, "err", err)
		}
	}
}

func (n *Node) renew(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, n.cfg.Lease/5)
	defer cancel()
	r, err := n.cfg.Store.RenewFE(call, n.incarnation())
	if errors.Is(err, crux.ErrFenced) {
		n.cfg.Log.Warn("the lease was lost: registering as a new incarnation", "fe", n.cfg.ID)
		if err := n.register(ctx); err != nil {
			return err
		}
		return n.reregister(ctx)
	}
	if err != nil {
		return err
	}
	n.leaseOK.Store(true)
	for _, c := range r.Replaced {
		n.sessions.Disconnect(c.Handle, c.Reason, "replaced by a newer login")
	}
	return nil
}

// reregister registers all live sessions under the new incarnation. A session that lost its place meanwhile is ended.
func (n *Node) reregister(ctx context.Context) error {
	inc := n.incarnation()
	return n.sessions.Walk(ctx, reregisterBatch, func(list []connmgr.Registered) error {
		regs := make([]crux.Registration, len(list))
		for i := range list {
			r := &list[i]
			app := n.cfg.Apps[r.App]
			regs[i] = crux.Registration{
				App: r.App, User: r.User, Device: r.Device, Incarnation: inc, Handle: r.Handle, Transport: r.Transport,
				Attempt: r.Attempt, LoginMs: r.LoginMs, Floor: r.Version, TokenIssued: time.Unix(r.IssuedSec, 0),
				Policy: app.Policy, Winner: app.Winner, MaxDevices: app.MaxDevices,
			}
		}
		res, err := n.cfg.Store.Register(ctx, regs)
		if err != nil {
			return fmt.Errorf("register %d sessions again: %w", len(regs), err)
		}
		for i, r := range res {
			n.reregistered(list[i].Handle, r)
		}
		select {
		case <-time.After(reregisterPause):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func (n *Node) reregistered(h klink.Handle, r crux.Registered) {
	if r.Verdict == crux.Admitted {
		n.sessions.SetVersion(h, r.Version)
		n.closeReplaced(r.Replaced)
		return
	}
	code, reason := refusal(r.Verdict)
	n.sessions.Disconnect(h, code, reason)
}

// closeReplaced ends the sessions of this FE that a login replaced; those of others are told by their own renewals.
func (n *Node) closeReplaced(list []crux.Location) {
	inc := n.incarnation()
	for _, l := range list {
		if l.Incarnation == inc {
			n.sessions.Disconnect(l.Handle, l.Reason, "replaced by a newer login")
		}
	}
}
