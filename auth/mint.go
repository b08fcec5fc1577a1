package auth

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
)

// SigningKey makes tokens: for the command line, development and tests. Back ends make theirs with their own library.
type SigningKey struct {
	KID    string
	Secret []byte        // HS256
	Signer crypto.Signer // or a private key, or what stands for one: RSA, ECDSA on P-256, Ed25519
}

// ParsePrivatePEM reads a private key in PEM (PKCS #8, PKCS #1 or SEC 1).
func ParsePrivatePEM(text []byte) (crypto.Signer, error) {
	block := nextPEM(text)
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

// alg is the algorithm of the key. What a verifier would not take as a key is none here either.
func (k *SigningKey) alg() (Alg, error) {
	var key *Key
	var err error
	if k.Signer == nil {
		key, err = NewSecretKey(k.KID, k.Secret)
	} else {
		key, err = NewPublicKey(k.KID, k.Signer.Public())
	}
	if err != nil {
		return "", err
	}
	return key.Alg, nil
}

// Mint makes a token of the claims. It does not check them: tests need bad ones, too.
func Mint(key SigningKey, c Claims) (string, error) {
	alg, err := key.alg()
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
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
		der, err := k.Signer.Sign(rand.Reader, sum[:], crypto.SHA256)
		if err != nil {
			return nil, err
		}
		return rawSignature(der)
	case EdDSA:
		return k.Signer.Sign(rand.Reader, input, crypto.Hash(0))
	default:
		m := hmac.New(sha256.New, k.Secret)
		m.Write(input)
		return m.Sum(nil), nil
	}
}

// rawSignature is an ECDSA signature as JWS wants it (RFC 7518, section 3.4): both numbers, 32 bytes each.
func rawSignature(der []byte) ([]byte, error) {
	var rs struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(der, &rs); err != nil || len(rest) > 0 {
		return nil, errors.New("the signer's signature is not one of ECDSA")
	}
	if rs.R.Sign() <= 0 || rs.S.Sign() <= 0 || rs.R.BitLen() > 256 || rs.S.BitLen() > 256 {
		return nil, errors.New("the signer's signature is not one of P-256")
	}
	sig := make([]byte, 64)
	rs.R.FillBytes(sig[:32])
	rs.S.FillBytes(sig[32:])
	return sig, nil
}
