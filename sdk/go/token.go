package sdk

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/klinkio/klink"
)

const (
	refreshMargin = time.Minute      // before expiry, or a fifth of what is left if that is less
	refreshRetry  = 15 * time.Second // after a token callback failed, or a third of what is left
	tokenMinLeft  = time.Second      // with less left the server is left to end the session
	maxTokenLen   = 16 << 10
	maxTokenLife  = 10 * 365 * 24 * time.Hour // longer is never: sums of durations stay in range
)

type fetched struct {
	token string
	err   error
}

// tokenReason is why a new token is needed after a disconnect that asks for one.
func tokenReason(d klink.Disconnect) TokenReason {
	switch d {
	case klink.DisconnectTokenExpired:
		return TokenExpired
	case klink.DisconnectRevoked:
		return TokenRevoked
	}
	return TokenUnauthorized
}

// fetch starts the token callback, unless it runs. Whoever receives the result sets c.fetching to nil.
func (c *Client) fetch(reason TokenReason) chan fetched {
	if c.fetching == nil {
		ch := make(chan fetched, 1) // the result waits for whoever comes
		c.fetching = ch
		c.wg.Go(func() {
			token, err := c.cfg.Token(c.life, reason)
			switch {
			case err != nil:
				err = fmt.Errorf("get a token (%s): %w", reason, err)
			case token == "" || len(token) > maxTokenLen:
				err = fmt.Errorf("get a token (%s): %d bytes, want 1 to %d", reason, len(token), maxTokenLen)
			}
			ch <- fetched{token, err}
		})
	}
	return c.fetching
}

// ensureToken has a token that is not known to be bad. stop: there will be none.
func (c *Client) ensureToken(ctx context.Context) (stop bool, err error) {
	if c.need == "" && !c.until.IsZero() && !time.Now().Before(c.until) {
		c.need = TokenExpired
	}
	if c.need == "" {
		return false, nil
	}
	var f fetched
	select {
	case f = <-c.fetch(c.need):
		c.fetching = nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if f.err != nil {
		return errors.Is(f.err, ErrSignedOut), f.err
	}
	if (c.need == TokenUnauthorized || c.need == TokenRevoked) && f.token == c.token {
		return true, c.refusal // the callback has no other
	}
	c.token, c.until, c.need = f.token, time.Time{}, ""
	return false, nil
}

// rememberExpiry takes over what the server says about the token. It counts from the server's clock, since a device's may be wrong.
func (c *Client) rememberExpiry(cn *conn) {
	c.until = time.Time{}
	if exp := cn.connected.TokenExpiresMs; exp > 0 {
		c.until = expiry(exp, cn.connected.ServerTimeMs, cn.since)
	}
}

// expiry is the local time of a time of the server, whose clock said nowMs at the local time at.
func expiry(expMs, nowMs int64, at time.Time) time.Time {
	left := min(expMs-nowMs, maxTokenLife.Milliseconds())
	return at.Add(time.Duration(max(0, left)) * time.Millisecond)
}

// refreshAt is when to exchange a token that expires at until.
func refreshAt(now, until time.Time) time.Time {
	left := until.Sub(now)
	margin := min(refreshMargin, left/5)
	if margin <= 0 {
		return now
	}
	return until.Add(-margin - rand.N(margin/2+1))
}

// tokenExpiry reads exp from a JWT, in milliseconds of Unix time, without checking anything: it only says when to ask for the next.
// 0: not known.
func tokenExpiry(token string) int64 {
	_, rest, ok := strings.Cut(token, ".")
	if !ok {
		return 0
	}
	part, _, ok := strings.Cut(rest, ".")
	if !ok {
		return 0
	}
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return 0
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if json.Unmarshal(text, &claims) != nil || claims.Exp <= 0 || claims.Exp > math.MaxInt64/4000 {
		return 0
	}
	return int64(claims.Exp * 1000)
}
