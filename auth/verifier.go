package auth

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// MaxToken bounds the bytes of a token.
const MaxToken = 8 << 10

// Reason classifies why a token was refused: the label of its counter.
type Reason uint8

// The reasons.
const (
	ReasonMalformed Reason = iota
	ReasonUnknownKey
	ReasonAlgorithm
	ReasonSignature
	ReasonExpired
	ReasonNotYet
	ReasonAudience
	ReasonClaims
	NumReasons
)

var reasonNames = [NumReasons]string{
	"malformed", "unknown_key", "algorithm", "signature", "expired", "not_yet_valid", "audience", "claims",
}

func (r Reason) String() string { return reasonNames[r] }

// TokenError says why a token was refused. Its text may go to the client: it holds no part of the token but kid and alg, shortened and
// quoted, and, once the signature fits, the pattern or tag that is not one.
type TokenError struct {
	Reason Reason
	Text   string
}

func (e *TokenError) Error() string { return "token: " + e.Text }

func refuse(r Reason, format string, args ...any) error {
	return &TokenError{r, fmt.Sprintf(format, args...)}
}

// VerifierConfig is the rules beyond the keys.
type VerifierConfig struct {
	Audience string        // that aud must hold; empty: not checked
	Leeway   time.Duration // how far clocks may differ
	MaxTTL   time.Duration // longest time from iat to exp; 0: no limit
}

// Verifier checks tokens. It may be used from any goroutine.
type Verifier struct {
	cfg    VerifierConfig
	own    atomic.Pointer[map[string]*Key] // of the configuration
	set    atomic.Pointer[map[string]*Key] // of the JWK set
	grants grantCache
	source *jwkSource

	accepted atomic.Uint64
	refused  [NumReasons]atomic.Uint64
}

// NewVerifier makes a verifier with the keys of the configuration.
func NewVerifier(cfg VerifierConfig, keys []*Key) (*Verifier, error) {
	v := &Verifier{cfg: cfg}
	if err := v.SetKeys(keys); err != nil {
		return nil, err
	}
	v.set.Store(&map[string]*Key{})
	return v, nil
}

// SetKeys replaces the keys of the configuration.
func (v *Verifier) SetKeys(keys []*Key) error {
	m := make(map[string]*Key, len(keys))
	for _, k := range keys {
		if m[k.KID] != nil {
			return fmt.Errorf("two keys have the kid %q", k.KID)
		}
		m[k.KID] = k
	}
	v.own.Store(&m)
	return nil
}

// Leeway is how far clocks may differ: a token is accepted for so long after its exp.
func (v *Verifier) Leeway() time.Duration { return v.cfg.Leeway }

// Accepted counts the tokens that were accepted.
func (v *Verifier) Accepted() uint64 { return v.accepted.Load() }

// Refused counts the tokens that were refused for a reason.
func (v *Verifier) Refused(r Reason) uint64 { return v.refused[r].Load() }

// key finds a key; the configuration's own win over those of the set. A token without kid is checked with the only key, if there is one.
func (v *Verifier) key(kid []byte) *Key {
	own, set := *v.own.Load(), *v.set.Load()
	if k := own[string(kid)]; k != nil {
		return k
	}
	if k := set[string(kid)]; k != nil {
		return k
	}
	if len(kid) == 0 && len(own)+len(set) == 1 {
		for _, k := range own {
			return k
		}
		for _, k := range set {
			return k
		}
	}
	return nil
}

// header is the JOSE header (RFC 7515, section 4). crit and b64 demand extensions, of which none is known.
type header struct{ alg, kid []byte }

func parseHeader(raw []byte) (h header, err error) {
	s := scanner{b: raw}
	err = s.object(func(name, value []byte) (err error) {
		switch string(name) {
		case "alg":
			h.alg, err = textOf(value)
		case "kid":
			h.kid, err = textOf(value)
		case "crit", "b64":
			err = errJSON
		}
		return err
	})
	return h, err
}

// split cuts a token and decodes its header and payload.
func split(token []byte) (h header, input, payload, sig []byte, err error) {
	malformed := func(what string) error { return refuse(ReasonMalformed, "%s", what) }
	if len(token) > MaxToken {
		return h, nil, nil, nil, malformed("longer than 8 KiB")
	}
	// The decoder passes over line ends even when strict: then a token could be written in many ways.
	if bytes.IndexByte(token, '\n') >= 0 || bytes.IndexByte(token, '\r') >= 0 {
		return h, nil, nil, nil, malformed("it has a line end in it")
	}
	i := bytes.IndexByte(token, '.')
	j := bytes.LastIndexByte(token, '.')
	if i <= 0 || j <= i+1 || bytes.IndexByte(token[i+1:j], '.') >= 0 {
		return h, nil, nil, nil, malformed("not three parts with dots between them")
	}
	buf := make([]byte, 0, base64.RawURLEncoding.DecodedLen(len(token)))
	enc := base64.RawURLEncoding.Strict()
	raw, err := enc.AppendDecode(buf, token[:i])
	if err != nil {
		return h, nil, nil, nil, malformed("the header is not base64url")
	}
	if h, err = parseHeader(raw); err != nil {
		return h, nil, nil, nil, malformed("the header is not a JSON object, names a member twice or demands an extension")
	}
	n := len(raw)
	all, err := enc.AppendDecode(raw, token[i+1:j])
	if err != nil {
		return h, nil, nil, nil, malformed("the claims are not base64url")
	}
	m := len(all)
	payload = all[n:m:m]
	if all, err = enc.AppendDecode(all, token[j+1:]); err != nil {
		return h, nil, nil, nil, malformed("the signature is not base64url")
	}
	return h, token[:j], payload, all[m:], nil
}

// Cheap reports whether checking the token costs a few microseconds, so that an event loop may do it: HS256, and what is refused at once.
func (v *Verifier) Cheap(token []byte) bool {
	i := bytes.IndexByte(token, '.')
	if i <= 0 || len(token) > MaxToken {
		return true
	}
	var buf [256]byte
	if base64.RawURLEncoding.DecodedLen(i) > len(buf) {
		return false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(buf[:], token[:i])
	if err != nil {
		return true
	}
	h, err := parseHeader(buf[:n])
	if err != nil {
		return true
	}
	k := v.key(h.kid)
	return k == nil || k.Alg == HS256
}

// Verify checks a token at a time. The error is a [*TokenError].
func (v *Verifier) Verify(token []byte, now time.Time) (*Claims, error) {
	c, err := v.verify(token, now)
	if err != nil {
		if e, ok := errors.AsType[*TokenError](err); ok {
			v.refused[e.Reason].Add(1)
		}
		return nil, err
	}
	v.accepted.Add(1)
	return c, nil
}

func (v *Verifier) verify(token []byte, now time.Time) (*Claims, error) {
	h, input, payload, sig, err := split(token)
	if err != nil {
		return nil, err
	}
	k := v.key(h.kid)
	if k == nil {
		v.source.hint()
		return nil, refuse(ReasonUnknownKey, "no key has the kid %.64q", h.kid)
	}
	if !k.Alg.named(h.alg) {
		return nil, refuse(ReasonAlgorithm, "the key %q is for %s, the header says %.16q", k.KID, k.Alg, h.alg)
	}
	if err := k.verify(input, sig); err != nil {
		return nil, refuse(ReasonSignature, "%v", err)
	}
	c, patterns, err := parseClaims(payload)
	if err != nil {
		return nil, refuse(ReasonClaims, "%v", err)
	}
	if err := v.checkTimes(c, now); err != nil {
		return nil, err
	}
	if v.cfg.Audience != "" && !slices.Contains(c.Audience, v.cfg.Audience) {
		return nil, refuse(ReasonAudience, "it is not meant for %q", v.cfg.Audience)
	}
	if c.Grants, err = v.grants.get(&patterns); err != nil {
		return nil, refuse(ReasonClaims, "%v", err)
	}
	c.Subscribe, c.Publish, c.Services = c.Grants.lists[0], c.Grants.lists[1], c.Grants.lists[2]
	return c, nil
}

func (v *Verifier) checkTimes(c *Claims, now time.Time) error {
	lee := v.cfg.Leeway
	switch {
	case c.Expires.IsZero():
		return refuse(ReasonClaims, "it has no exp")
	case !now.Before(c.Expires.Add(lee)):
		return refuse(ReasonExpired, "it expired %v ago", now.Sub(c.Expires).Round(time.Second))
	case !c.NotBefore.IsZero() && now.Add(lee).Before(c.NotBefore):
		return refuse(ReasonNotYet, "it is valid in %v only", c.NotBefore.Sub(now).Round(time.Second))
	case !c.Issued.IsZero() && now.Add(lee).Before(c.Issued):
		return refuse(ReasonNotYet, "it was issued %v in the future", c.Issued.Sub(now).Round(time.Second))
	case v.cfg.MaxTTL > 0 && (c.Issued.IsZero() || c.Expires.Sub(c.Issued) > v.cfg.MaxTTL):
		return refuse(ReasonClaims, "its life is longer than %v, or it has no iat", v.cfg.MaxTTL)
	}
	return nil
}
