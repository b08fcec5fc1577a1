package tagindex

import (
	"encoding/binary"
	"math/bits"
)

// Key names a tag of an app in tier 1: the upper 58 bits of SipHash-2-4 under a key that all nodes of the
// cluster share. hash/maphash can't be used, its seed is per process. Nobody without the key can make tags
// that collide; of 10 million tags two collide by chance once in 5,000 clusters. A front end must count its tags
// by Key, not by name: then a collision delivers too much and never too little.
type Key uint64

// KeyBits is the width of a [Key].
const KeyBits = 58

// Hasher makes keys. It is immutable.
type Hasher struct{ k0, k1 uint64 }

// NewHasher makes the hasher of a cluster from its secret.
func NewHasher(secret [16]byte) Hasher {
	return Hasher{binary.LittleEndian.Uint64(secret[:8]), binary.LittleEndian.Uint64(secret[8:])}
}

// Key hashes the length of app, app and tag, so that no two pairs have the same input.
func (h Hasher) Key(app, tag string) Key {
	s := newSip(h)
	s.word(uint64(len(app)))
	s.n = 8
	s.write(app)
	s.write(tag)
	return Key(s.sum() >> (64 - KeyBits))
}

// sip is the state of SipHash-2-4 (Aumasson, Bernstein: SipHash, a fast short-input PRF, 2012).
type sip struct {
	v0, v1, v2, v3 uint64
	part           uint64 // bytes of the word that is not complete
	n              uint   // bytes so far
}

func newSip(h Hasher) sip {
	return sip{v0: h.k0 ^ 0x736f6d6570736575, v1: h.k1 ^ 0x646f72616e646f6d, v2: h.k0 ^ 0x6c7967656e657261, v3: h.k1 ^ 0x7465646279746573}
}

func (s *sip) write(b string) {
	for ; b != "" && s.n%8 != 0; b = b[1:] {
		s.add(b[0])
	}
	for ; len(b) >= 8; b = b[8:] {
		s.word(uint64(word(b)) | uint64(word(b[4:]))<<32)
		s.n += 8
	}
	for ; b != ""; b = b[1:] {
		s.add(b[0])
	}
}

func (s *sip) add(c byte) {
	s.part |= uint64(c) << (s.n % 8 * 8)
	if s.n++; s.n%8 == 0 {
		s.word(s.part)
		s.part = 0
	}
}

func (s *sip) word(m uint64) {
	s.v3 ^= m
	s.round()
	s.round()
	s.v0 ^= m
}

func (s *sip) sum() uint64 {
	s.word(s.part | uint64(s.n)<<56)
	s.v2 ^= 0xff
	for range 4 {
		s.round()
	}
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

func (s *sip) round() {
	s.v0 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v2 = bits.RotateLeft64(s.v2, 32)
}
