package fe

import (
	"context"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/connmgr"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/proto/frame"
)

// refresh is a Refresh on its way.
type refresh struct {
	node  *Node
	shard *connmgr.Shard
	h     klink.Handle
	id    uint32
	who   connmgr.Identity
	raw   []byte

	claims *auth.Claims
	err    error
	code   klink.Disconnect
	reason string
}

// Refresh implements [connmgr.Authority].
func (n *Node) Refresh(s *connmgr.Shard, h klink.Handle, f *frame.Refresh) {
	who, ok := s.Identity(h)
	if !ok {
		return
	}
	r := &refresh{node: n, shard: s, h: h, id: f.ID, who: who}
	if n.cheap(f.Token) && n.cfg.Store.NonBlocking() || len(f.Token) > auth.MaxToken {
		r.claims, r.err = n.cfg.Verifier.Verify(f.Token, time.Now())
		r.decide()
		r.Run(s)
		return
	}
	r.raw = append([]byte(nil), f.Token...)
	if !n.verify.post(r) {
		s.RefreshLater(h, f.ID, "too many tokens wait to be checked")
	}
}

func (r *refresh) token() []byte { return r.raw }

func (r *refresh) verified(c *auth.Claims, err error) {
	r.claims, r.err = c, err
	r.decide()
	r.shard.Post(r)
}

// decide says whether the new token continues the session. It may wait for the store, so it runs on the loop only where the store does
// not block.
func (r *refresh) decide() {
	if r.err != nil {
		r.code, r.reason = klink.DisconnectUnauthorized, r.err.Error()
		return
	}
	c := r.claims
	if c.App != r.who.App || c.User != r.who.User || (c.Device != "" && c.Device != r.who.Device) {
		r.code, r.reason = klink.DisconnectForbidden, "the new token is for somebody else"
		return
	}
	switch gone, err := r.revoked(); {
	case err != nil:
		// Fail closed would end sessions because the store is away: the token is valid by itself, and its
		// revocation is checked again at the next Connect or Refresh.
		r.node.cfg.Log.Warn("refresh without a check of revocation", "fe", r.node.cfg.ID, "err", err)
	case gone:
		r.code, r.reason = klink.DisconnectRevoked, "the token was revoked"
	}
}

// revoked asks the user state, unless it is known to be away: the workers that check tokens must not wait for it one after the other.
func (r *refresh) revoked() (bool, error) {
	if !r.node.LeaseHeld() {
		return false, crux.ErrUnavailable
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	c := r.claims
	return r.node.cfg.Store.Revoked(ctx, c.App, c.User, r.who.Device, c.Issued)
}

// Run implements [connmgr.Task].
func (r *refresh) Run(s *connmgr.Shard) {
	if r.code != 0 {
		s.Refreshed(r.h, r.id, nil, 0, 0, r.code, r.reason)
		return
	}
	var exp, iat int64
	if !r.claims.Expires.IsZero() {
		exp = r.claims.Expires.Unix()
	}
	if !r.claims.Issued.IsZero() {
		iat = r.claims.Issued.Unix()
	}
	s.Refreshed(r.h, r.id, r.claims.Grants, exp, iat, 0, "")
}
