package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"math/big"
	"sync"
)

// Alg is a signature algorithm by its JOSE name.
type Alg string

// The algorithms (RFC 7518, RFC 8037).
const (
	HS256 Alg = "HS256"
	RS256 Alg = "RS256"
	ES256 Alg = "ES256"
	EdDSA Alg = "EdDSA"
)

// named reports whether a header's alg names the algorithm. RFC 9864 gives EdDSA with Ed25519 the name Ed25519.
func (a Alg) named(alg []byte) bool {
	return string(alg) == string(a) || (a == EdDSA && string(alg) == "Ed25519")
}

const (
	minSecret = 32 // bytes, RFC 7518 section 3.2
	minRSA    = 2048
	maxRSA    = 8192 // bits; the cost of a check grows with the square
)

// Key verifies tokens of one kid with one algorithm. It is immutable.
type Key struct {
	KID string
	Alg Alg

	public crypto.PublicKey
	macs   *sync.Pool // of hash.Hash, HS256: a keyed HMAC is made once and reset
}

// NewSecretKey is a key for HS256. The secret is at least 32 bytes.
func NewSecretKey(kid string, secret []byte) (*Key, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("key %q: an HS256 secret has at least %d bytes, this one %d", kid, minSecret, len(secret))
	}
	own := append([]byte(nil), secret...)
	return &Key{KID: kid, Alg: HS256, macs: &sync.Pool{New: func() any { return hmac.New(sha256.New, own) }}}, nil
}

// NewPublicKey is a key for the algorithm that fits the public key: *rsa.PublicKey, *ecdsa.PublicKey on P-256, ed25519.PublicKey.
func NewPublicKey(kid string, pub crypto.PublicKey) (*Key, error) {
	k := &Key{KID: kid, public: pub}
	switch p := pub.(type) {
	case *rsa.PublicKey:
		if n := p.N.BitLen(); n < minRSA || n > maxRSA {
			return nil, fmt.Errorf("key %q: an RSA key has %d to %d bits, this one %d", kid, minRSA, maxRSA, n)
		}
		k.Alg = RS256
	case *ecdsa.PublicKey:
		if p.Curve != elliptic.P256() {
			return nil, fmt.Errorf("key %q: ES256 wants the curve P-256, not %s", kid, p.Curve.Params().Name)
		}
		k.Alg = ES256
	case ed25519.PublicKey:
		if len(p) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("key %q: an Ed25519 key has %d bytes", kid, ed25519.PublicKeySize)
		}
		k.Alg = EdDSA
	default:
		return nil, fmt.Errorf("key %q: no algorithm for a %T", kid, pub)
	}
	return k, nil
}

// nextPEM is the first block of a text, but for the parameters that openssl ecparam writes before its keys.
func nextPEM(text []byte) *pem.Block {
	block, rest := pem.Decode(text)
	if block != nil && block.Type == "EC PARAMETERS" {
		block, _ = pem.Decode(rest)
	}
	return block
}

// ParsePublicPEM reads a public key in PEM, or that of a certificate, whose other statements are not looked at.
func ParsePublicPEM(kid string, text []byte) (*Key, error) {
	block := nextPEM(text)
	if block == nil {
		return nil, fmt.Errorf("key %q: no PEM block", kid)
	}
	var pub crypto.PublicKey
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		pub, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		pub, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var c *x509.Certificate
		if c, err = x509.ParseCertificate(block.Bytes); err == nil {
			pub = c.PublicKey
		}
	default:
		err = fmt.Errorf("a PEM block of type %q", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("key %q: not a public key: %w", kid, err)
	}
	return NewPublicKey(kid, pub)
}

var errSignature = errors.New("the signature does not fit")

// verify checks the signature of the signing input.
func (k *Key) verify(input, sig []byte) error {
	ok := false
	switch k.Alg {
	case HS256:
		m := k.macs.Get().(hash.Hash)
		m.Reset()
		m.Write(input)
		var sum [sha256.Size]byte
		ok = hmac.Equal(m.Sum(sum[:0]), sig)
		k.macs.Put(m)
	case RS256:
		h := sha256.Sum256(input)
		ok = rsa.VerifyPKCS1v15(k.public.(*rsa.PublicKey), crypto.SHA256, h[:], sig) == nil
	case ES256:
		if len(sig) == 64 {
			h := sha256.Sum256(input)
			r, s := new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])
			ok = ecdsa.Verify(k.public.(*ecdsa.PublicKey), h[:], r, s)
		}
	case EdDSA:
		ok = ed25519.Verify(k.public.(ed25519.PublicKey), input, sig)
	}
	if !ok {
		return errSignature
	}
	return nil
}
