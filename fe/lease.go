package fe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

// register begins a life of this front end in the user state.
func (n *Node) register(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	inc, err := n.cfg.Store.RegisterFE(call, crux.FE{ID: n.cfg.ID, Endpoints: n.cfg.Endpoints, Lease: n.cfg.Lease})
	if err != nil {
		return fmt.Errorf("register front end %s: %w", n.cfg.ID, err)
	}
	n.inc.Store(&inc)
	n.sessions.SetIncarnation(inc)
	if n.batch != nil {
		n.batch.newLife(inc)
	}
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
		case <-n.renewNow:
		}
		if err := n.renew(ctx); err != nil && ctx.Err() == nil {
			n.leaseOK.Store(false)
			n.cfg.Log.Warn("lease not renewed", "fe", n.cfg.ID, "err", err)
		}
	}
}

// renew does one renewal. Sessions are not ended because a lease was lost: their connections are there, so they are registered again.
func (n *Node) renew(ctx context.Context) error {
	if n.batch != nil && n.batch.forgot.Load() {
		n.cfg.Log.Warn("too many logouts could not be recorded: registering as a new incarnation", "fe", n.cfg.ID)
		return n.newLife(ctx)
	}
	call, cancel := context.WithTimeout(ctx, n.cfg.Lease/5)
	defer cancel()
	r, err := n.cfg.Store.RenewFE(call, n.incarnation())
	if errors.Is(err, crux.ErrFenced) {
		n.cfg.Log.Warn("the lease was lost: registering as a new incarnation", "fe", n.cfg.ID)
		return n.newLife(ctx)
	}
	if err != nil {
		return err
	}
	n.leaseOK.Store(true)
	for _, c := range r.Replaced {
		n.sessions.Disconnect(c.Handle, c.Reason, replacedText)
	}
	if n.degraded.Load() {
		signal(n.resync)
	}
	return nil
}

func (n *Node) newLife(ctx context.Context) error {
	if err := n.register(ctx); err != nil {
		return err
	}
	signal(n.resync)
	return nil
}

// fenced has the lease looked at now: the user state refused a call of this life.
func (n *Node) fenced() { signal(n.renewNow) }

// signal wakes who waits on c, which has room for one: one signal stands for any number.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// replacedText is what a session is told whose place a newer login took.
const replacedText = "replaced by a newer login"

// closeReplaced ends the sessions of this FE that a login replaced; those of others are told by their own renewals.
func (n *Node) closeReplaced(list []crux.Location) {
	inc := n.incarnation()
	for _, l := range list {
		if l.Incarnation == inc {
			n.sessions.Disconnect(l.Handle, l.Reason, replacedText)
		}
	}
}

func (n *Node) incarnation() klink.Incarnation { return *n.inc.Load() }
