package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	maxJWKS     = 64 << 10
	jwksRefresh = 5 * time.Minute
	jwksRetry   = 10 * time.Second // at the earliest, also when unknown kids ask for it
	jwksTimeout = 10 * time.Second
)

// jwkSource is where a JWK set comes from.
type jwkSource struct {
	from string // URL or file
	ask  chan struct{}
}

// hint says that a token named a kid that nobody knows: perhaps the set has changed.
func (s *jwkSource) hint() {
	if s == nil {
		return
	}
	select {
	case s.ask <- struct{}{}:
	default:
	}
}

// UseJWKS makes the verifier take keys from a JWK set (RFC 7517), a file or an http(s) URL. It reads it once; [Verifier.Run] keeps it fresh.
func (v *Verifier) UseJWKS(ctx context.Context, from string) error {
	v.source = &jwkSource{from: from, ask: make(chan struct{}, 1)}
	return v.refresh(ctx)
}

// Run reads the set again every five minutes, and sooner when a token names an unknown kid, but never more often than every ten
// seconds. The last good set stays in force while the source is away. It returns when ctx ends.
func (v *Verifier) Run(ctx context.Context, log *slog.Logger) {
	if v.source == nil {
		return
	}
	last := time.Now()
	for {
		timer := time.NewTimer(jwksRefresh)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-v.source.ask:
			timer.Stop()
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(last.Add(jwksRetry))):
			}
		}
		last = time.Now()
		if err := v.refresh(ctx); err != nil && ctx.Err() == nil {
			log.Warn("the JWK set was not refreshed, the last one stays in force", "err", err)
		}
	}
}

func (v *Verifier) refresh(ctx context.Context) error {
	text, err := readJWKS(ctx, v.source.from)
	if err != nil {
		return fmt.Errorf("read JWK set: %w", err)
	}
	keys, err := ParseJWKS(text)
	if err != nil {
		return err
	}
	m := make(map[string]*Key, len(keys))
	for _, k := range keys {
		m[k.KID] = k
	}
	v.set.Store(&m)
	return nil
}

func readJWKS(ctx context.Context, from string) ([]byte, error) {
	if !strings.HasPrefix(from, "http://") && !strings.HasPrefix(from, "https://") {
		f, err := os.Open(from)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readBounded(f)
	}
	ctx, cancel := context.WithTimeout(ctx, jwksTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the source answers %s", res.Status)
	}
	return readBounded(res.Body)
}

func readBounded(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxJWKS+1))
	if err == nil && len(b) > maxJWKS {
		err = errors.New("larger than 64 KiB")
	}
	return b, err
}

// jwk is one key of a set.
type jwk struct {
	Kty string `json:"kty"`
	KID string `json:"kid"`
	Alg string `json:"alg"`
	Use string `json:"use"`
	Crv string `json:"crv"`
	N   string `json:"n"`
	E   string `json:"e"`
	X   string `json:"x"`
	Y   string `json:"y"`
	K   string `json:"k"`
}

// ParseJWKS reads the keys of a set that can verify tokens here. Keys for other uses and algorithms are passed over, as RFC 7517 section 5
// says; a key that claims to fit and does not is an error.
func ParseJWKS(text []byte) ([]*Key, error) {
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("parse JWK set: %w", err)
	}
	var out []*Key
	seen := make(map[string]bool)
	for i, j := range set.Keys {
		if j.Use == "enc" {
			continue
		}
		k, err := j.key()
		if err != nil {
			return nil, fmt.Errorf("parse JWK set: key %d: %w", i, err)
		}
		if k == nil || (j.Alg != "" && j.Alg != string(k.Alg)) {
			continue
		}
		if seen[k.KID] {
			return nil, fmt.Errorf("parse JWK set: two keys have the kid %q", k.KID)
		}
		seen[k.KID] = true
		out = append(out, k)
	}
	return out, nil
}

func (j *jwk) key() (*Key, error) {
	bad := false
	dec := func(s string) []byte {
		b, err := base64.RawURLEncoding.Strict().DecodeString(s)
		bad = bad || err != nil || len(b) == 0
		return b
	}
	var pub crypto.PublicKey
	switch {
	case j.Kty == "oct":
		secret := dec(j.K)
		if bad {
			return nil, errors.New("a member is not base64url")
		}
		return NewSecretKey(j.KID, secret)
	case j.Kty == "RSA":
		e := new(big.Int).SetBytes(dec(j.E))
		if !e.IsInt64() || e.Int64() > 1<<31-1 || e.Int64() < 3 {
			return nil, errors.New("the RSA exponent is out of range")
		}
		pub = &rsa.PublicKey{N: new(big.Int).SetBytes(dec(j.N)), E: int(e.Int64())}
	case j.Kty == "EC" && j.Crv == "P-256":
		x, y := dec(j.X), dec(j.Y)
		if bad || len(x) != 32 || len(y) != 32 {
			return nil, errors.New("a coordinate is not 32 bytes of base64url")
		}
		p, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
		if err != nil {
			return nil, errors.New("the point is not on the curve")
		}
		pub = p
	case j.Kty == "OKP" && j.Crv == "Ed25519":
		pub = ed25519.PublicKey(dec(j.X))
	default:
		return nil, nil
	}
	if bad {
		return nil, errors.New("a member is not base64url")
	}
	return NewPublicKey(j.KID, pub)
}
