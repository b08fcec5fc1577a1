package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// jwk is one key of a set.
type jwk struct {
	Kty string   `json:"kty"`
	KID string   `json:"kid"`
	Alg string   `json:"alg"`
	Use string   `json:"use"`
	Ops []string `json:"key_ops"`
	Crv string   `json:"crv"`
	N   string   `json:"n"`
	E   string   `json:"e"`
	X   string   `json:"x"`
	Y   string   `json:"y"`
	K   string   `json:"k"`
}

// ParseJWKS reads the keys of a set that can verify tokens here. Keys of other kinds, uses and algorithms are none of them. Keys
// that claim to fit and do not are passed over, as RFC 7517 section 5 advises, so that one bad key does not lock out the others; of two keys
// with one kid the first counts. passed says why, for each of these.
func ParseJWKS(text []byte) (keys []*Key, passed []error, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, nil, fmt.Errorf("parse JWK set: %w", err)
	}
	seen := make(map[string]bool)
	for i, raw := range set.Keys {
		k, err := parseJWK(raw)
		switch {
		case err != nil:
			passed = append(passed, fmt.Errorf("key %d: %w", i, err))
		case k == nil:
		case seen[k.KID]:
			passed = append(passed, fmt.Errorf("key %d: another one has the kid %q, too", i, k.KID))
		default:
			seen[k.KID] = true
			keys = append(keys, k)
		}
	}
	return keys, passed, nil
}

// parseJWK reads one key; nil if it is none for tokens.
func parseJWK(raw []byte) (*Key, error) {
	var j jwk
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, fmt.Errorf("not a JWK: %w", err)
	}
	if (j.Use != "" && j.Use != "sig") || (len(j.Ops) > 0 && !slices.Contains(j.Ops, "verify")) {
		return nil, nil
	}
	k, err := j.key()
	if err != nil || k == nil || (j.Alg != "" && !k.Alg.named([]byte(j.Alg))) {
		return nil, err
	}
	return k, nil
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
