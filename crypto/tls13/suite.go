package tls13

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"hash"

	"golang.org/x/crypto/chacha20poly1305"
)

// suite is a TLS 1.3 cipher suite in one byte of a Record: the low byte of its wire value. 0 is none.
type suite uint8

const (
	suiteAES128   = suite(tls.TLS_AES_128_GCM_SHA256 & 0xff)
	suiteAES256   = suite(tls.TLS_AES_256_GCM_SHA384 & 0xff)
	suiteChaCha20 = suite(tls.TLS_CHACHA20_POLY1305_SHA256 & 0xff)
)

const (
	maxSecretLen = sha512.Size384
	maxKeyLen    = chacha20poly1305.KeySize
	ivLen        = 12
	tagLen       = 16
)

// suiteOf maps the wire value; 0 for anything that is not a suite of TLS 1.3.
func suiteOf(id uint16) suite {
	switch id {
	case tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384, tls.TLS_CHACHA20_POLY1305_SHA256:
		return suite(id & 0xff)
	}
	return 0
}

// id is the wire value.
func (s suite) id() uint16 { return 0x1300 | uint16(s) }

func (s suite) secretLen() int {
	if s == suiteAES256 {
		return sha512.Size384
	}
	return sha256.Size
}

func (s suite) keyLen() int {
	if s == suiteAES128 {
		return 16
	}
	return 32
}

func (s suite) hash() func() hash.Hash {
	if s == suiteAES256 {
		return sha512.New384
	}
	return sha256.New
}

// aead makes the cipher of a key. It allocates: about 1,280 B for AES, 32 B for ChaCha20.
func (s suite) aead(key *[maxKeyLen]byte) (cipher.AEAD, error) {
	switch s {
	case suiteAES128, suiteAES256:
		block, err := aes.NewCipher(key[:s.keyLen()])
		if err != nil {
			return nil, err
		}
		return cipher.NewGCM(block)
	case suiteChaCha20:
		return chacha20poly1305.New(key[:])
	}
	return nil, errAEAD
}

// expand is HKDF-Expand-Label(secret, label, "", len(into)) of RFC 8446 section 7.1. It leaves no copy of its result behind.
func (s suite) expand(into, secret []byte, label string) error {
	const prefix = "tls13 "
	info := make([]byte, 0, 32)
	info = append(info, 0, byte(len(into)), byte(len(prefix)+len(label)))
	info = append(info, prefix...)
	info = append(info, label...)
	info = append(info, 0)
	out, err := hkdf.Expand(s.hash(), secret, string(info), len(into))
	if err != nil {
		return err
	}
	copy(into, out)
	clear(out)
	return nil
}
