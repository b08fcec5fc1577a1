package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
)

// SigningKey makes tokens: for the command line, development and tests. Back ends make theirs with their own library.
type SigningKey struct {
	KID    string
	Secret []byte        // HS256
	Signer crypto.Signer // or a private key: RSA, ECDSA on P-256, Ed25519
}

// ParsePrivatePEM reads a private key in PEM (PKCS #8, PKCS #1 or SEC 1).
func ParsePrivatePEM(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		err = fmt.Errorf("a PEM block of type %q", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("not a private key: %w", err)
	}
	s, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T can't sign", key)
	}
	return s, nil
}

// Mint makes a token of the claims. It does not check them: tests need bad ones, too.
func Mint(key SigningKey, c Claims) (string, error) {
	alg := HS256
	switch s := key.Signer.(type) {
	case nil:
	case *rsa.PrivateKey:
		alg = RS256
	case *ecdsa.PrivateKey:
		alg = ES256
	case ed25519.PrivateKey:
		alg = EdDSA
	default:
		return "", fmt.Errorf("sign token: no algorithm for a %T", s)
	}
	head, err := json.Marshal(map[string]string{"alg": string(alg), "typ": "JWT", "kid": key.KID})
	if err != nil {
		return "", fmt.Errorf("encode header: %w", err)
	}
	body, err := c.marshal()
	if err != nil {
		return "", fmt.Errorf("encode claims: %w", err)
	}
	enc := base64.RawURLEncoding
	input := enc.AppendEncode(nil, head)
	input = enc.AppendEncode(append(input, '.'), body)
	sig, err := key.sign(alg, input)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return string(enc.AppendEncode(append(input, '.'), sig)), nil
}

func (k *SigningKey) sign(alg Alg, input []byte) ([]byte, error) {
	sum := sha256.Sum256(input)
	switch alg {
	case RS256:
		return k.Signer.Sign(rand.Reader, sum[:], crypto.SHA256)
	case ES256:
		r, s, err := ecdsa.Sign(rand.Reader, k.Signer.(*ecdsa.PrivateKey), sum[:])
		if err != nil {
			return nil, err
		}
		sig := make([]byte, 64)
		r.FillBytes(sig[:32])
		s.FillBytes(sig[32:])
		return sig, nil
	case EdDSA:
		return k.Signer.Sign(rand.Reader, input, crypto.Hash(0))
	default:
		m := hmac.New(sha256.New, k.Secret)
		m.Write(input)
		return m.Sum(nil), nil
	}
}
