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

const (
	minSecret = 32 // bytes, RFC 7518 section 3.2
	minRSA    = 2048
)

// Key verifies tokens of one kid with one algorithm.
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
		if p.N.BitLen() < minRSA {
			return nil, fmt.Errorf("key %q: an RSA key has at least %d bits, this one %d", kid, minRSA, p.N.BitLen())
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

// ParsePublicPEM reads a public key or certificate in PEM.
func ParsePublicPEM(kid string, text []byte) (*Key, error) {
	block, _ := pem.Decode(text)
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
