package fe

import (
	"context"
	"errors"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/connmgr"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/proto/frame"
)

// login is a Connect on its way: what the frame said, copied, since the answers may come later.
type login struct {
	node  *Node
	shard *connmgr.Shard
	h     klink.Handle
	raw   []byte // the token, only while it waits for a verifier
	reg   crux.Registration
	adm   connmgr.Admission

	claims *auth.Claims
	err    error // of the token
	res    crux.Registered
	regErr error // of the store
	unsent bool  // the store was not asked, as it had just failed
	held   int64 // bytes, while it waits for a worker or the store
	lives  int   // how often a new life of the front end made it register anew
}

// maxLives bounds that: more means that somebody else uses the id of this front end.
const maxLives = 3

// Login implements [connmgr.Authority].
func (n *Node) Login(s *connmgr.Shard, h klink.Handle, c *frame.Connect) {
	if n.draining.Load() {
		s.RefuseTo(h, klink.DisconnectShutdown, "the front end drains", klink.DisconnectShutdown.Info().DelayMs, n.cfg.DrainTarget)
		return
	}
	if wait := n.admission(h.Loop()); wait > 0 {
		s.RefuseTo(h, klink.DisconnectOverloaded, "too many logins", uint32(wait/time.Millisecond)+1, "")
		return
	}
	lg := &login{node: n, shard: s, h: h}
	lg.reg.Device, lg.reg.Attempt, lg.reg.Handle = string(c.Device), c.Attempt, h
	lg.reg.Transport = s.Transport(h)
	lg.adm.HeartbeatWish, lg.adm.Background = int(c.HeartbeatSeconds), c.Background
	lg.adm.ResumeAsked = len(c.Resume.Session) > 0
	if len(c.Tags) > 0 {
		lg.adm.Wish = make([]string, len(c.Tags))
		for i, t := range c.Tags {
			lg.adm.Wish[i] = string(t)
		}
	}
	if n.cheap(c.Token) {
		lg.claims, lg.err = n.cfg.Verifier.Verify(c.Token, time.Now())
		lg.checked()
		return
	}
	lg.raw = append([]byte(nil), c.Token...)
	if !lg.wait() || !n.verify.post(lg) {
		lg.resume()
		s.Refuse(h, klink.DisconnectOverloaded, "too many tokens wait to be checked")
	}
}

// maxLoginBytes bounds what all logins that wait hold of memory: a Connect may be as large as a frame.
const maxLoginBytes = 64 << 20

// wait accounts for a login that is about to wait. False: too much waits.
func (lg *login) wait() bool {
	lg.held = int64(512 + len(lg.raw))
	for _, t := range lg.adm.Wish {
		lg.held += int64(16 + len(t))
	}
	return lg.node.loginBytes.Add(lg.held) <= maxLoginBytes
}

// resume ends that.
func (lg *login) resume() {
	lg.node.loginBytes.Add(-lg.held)
	lg.held = 0
}

// checked goes on after the token was checked, on the loop.
func (lg *login) checked() {
	if !lg.shard.LoginPending(lg.h) {
		return // it is gone, and must not take the place of another in the user state
	}
	if lg.err != nil {
		lg.shard.Refuse(lg.h, klink.DisconnectUnauthorized, lg.err.Error())
		return
	}
	c := lg.claims
	app, ok := lg.node.cfg.Apps[c.App]
	switch {
	case !ok:
		lg.shard.Refuse(lg.h, klink.DisconnectForbidden, "the token's app is not served here")
		return
	case c.Device != "" && c.Device != lg.reg.Device:
		lg.shard.Refuse(lg.h, klink.DisconnectForbidden, "the token is for another device")
		return
	}
	r := &lg.reg
	r.App, r.User = c.App, c.User
	r.TokenIssued = c.Issued
	r.Policy, r.Winner, r.MaxDevices = app.Policy, app.Winner, app.MaxDevices
	lg.register()
}

// register asks the user state, under the present life of the front end.
func (lg *login) register() {
	lg.reg.Incarnation = lg.node.incarnation()
	if b := lg.node.batch; b != nil {
		if !lg.wait() || !b.register(lg) {
			lg.resume()
			lg.shard.Refuse(lg.h, klink.DisconnectOverloaded, "too many logins wait for the user state")
		}
		return
	}
	var one [1]crux.Registration
	one[0] = lg.reg
	res, err := lg.node.cfg.Store.Register(context.Background(), one[:])
	if err == nil {
		lg.res = res[0]
	}
	lg.regErr = err
	lg.registered()
}

// Run implements [connmgr.Task]: an answer that came from another goroutine is handled on the loop.
func (lg *login) Run(*connmgr.Shard) {
	lg.resume()
	if lg.raw != nil {
		lg.raw = nil
		lg.checked()
		return
	}
	lg.registered()
}

// registered goes on after the user state has answered, on the loop.
func (lg *login) registered() {
	n := lg.node
	if lg.regErr == nil && lg.reg.Incarnation != n.incarnation() && lg.lives < maxLives {
		lg.lives++ // the answer is about a life that is over
		lg.register()
		return
	}
	degraded := false
	if lg.regErr != nil {
		if !n.cfg.Apps[lg.reg.App].Degraded || !errors.Is(lg.regErr, crux.ErrUnavailable) && !errors.Is(lg.regErr, context.DeadlineExceeded) {
			n.cfg.Log.Debug("login refused", "reason", "unavailable", "err", lg.regErr)
			lg.shard.Refuse(lg.h, klink.DisconnectUnavailable, "the user state is away")
			if n.batch != nil && !lg.unsent {
				lg.undo() // nothing is known about the effect of the call
			}
			return
		}
		degraded = true
		lg.res = crux.Registered{LoginMs: time.Now().UnixMilli()}
	}
	if v := lg.res.Verdict; v != crux.Admitted {
		if v == crux.Fenced {
			n.fenced()
		}
		code, reason := refusal(v)
		lg.shard.Refuse(lg.h, code, reason)
		return
	}
	lg.fill(degraded)
	if !lg.shard.Admit(lg.h, &lg.adm) {
		lg.undo()
	} else if degraded {
		n.degraded.Store(true)
	}
	n.closeReplaced(lg.res.Replaced)
}

// undo takes back a registration of which nothing became.
func (lg *login) undo() {
	lg.node.unregister(&crux.Unregistration{
		App: lg.reg.App, User: lg.reg.User, Device: lg.reg.Device, Incarnation: lg.reg.Incarnation, Handle: lg.h,
	})
}

func (lg *login) fill(degraded bool) {
	c, a := lg.claims, &lg.adm
	a.Identity = connmgr.Identity{App: lg.reg.App, User: lg.reg.User, Device: lg.reg.Device}
	a.Grants, a.Version, a.Attempt, a.LoginMs = c.Grants, lg.res.Version, lg.reg.Attempt, lg.res.LoginMs
	if !c.Expires.IsZero() {
		a.ExpiresSec = c.Expires.Unix()
	}
	if !c.Issued.IsZero() {
		a.IssuedSec = c.Issued.Unix()
	}
	a.Degraded = degraded
	switch {
	case len(lg.res.Tags) == 0:
		a.Tags = c.Join
	case len(c.Join) == 0:
		a.Tags = lg.res.Tags
	default:
		a.Tags = append(append(make([]string, 0, len(c.Join)+len(lg.res.Tags)), c.Join...), lg.res.Tags...)
	}
}

// refusal is what a client is told when the user state does not admit it.
func refusal(v crux.Verdict) (klink.Disconnect, string) {
	switch v {
	case crux.Superseded:
		return klink.DisconnectSuperseded, "a newer attempt of this device holds the session"
	case crux.TooMany:
		return klink.DisconnectTooMany, "the user has as many sessions as the app allows"
	case crux.Revoked:
		return klink.DisconnectRevoked, "the token was revoked"
	case crux.Fenced:
		return klink.DisconnectUnavailable, "the front end is registering"
	case crux.Admitted:
	}
	return klink.DisconnectInternal, "unknown verdict"
}

// Ended implements [connmgr.Authority].
func (n *Node) Ended(_ *connmgr.Shard, h klink.Handle, id connmgr.Identity, _ klink.Disconnect) {
	n.unregister(&crux.Unregistration{App: id.App, User: id.User, Device: id.Device, Incarnation: n.incarnation(), Handle: h})
}

func (n *Node) unregister(u *crux.Unregistration) {
	if n.batch != nil {
		n.batch.unregister(*u)
		return
	}
	if _, err := n.cfg.Store.Unregister(context.Background(), []crux.Unregistration{*u}); err != nil {
		n.cfg.Log.Warn("logout not recorded, it ends with the lease", "fe", n.cfg.ID, "err", err)
	}
}
