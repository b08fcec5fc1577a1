package wsframe

import (
	"encoding/binary"
	"math/bits"
)

// Unmask takes the mask off (or puts it on), in place. key is the four bytes of the mask read in little-endian order. It allocates
// nothing and goes by words of 8 bytes, several times faster than a loop over bytes (BenchmarkUnmask).
func Unmask(p []byte, key uint32) {
	k := uint64(key)<<32 | uint64(key)
	for len(p) >= 32 {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^k)
		binary.LittleEndian.PutUint64(p[8:], binary.LittleEndian.Uint64(p[8:])^k)
		binary.LittleEndian.PutUint64(p[16:], binary.LittleEndian.Uint64(p[16:])^k)
		binary.LittleEndian.PutUint64(p[24:], binary.LittleEndian.Uint64(p[24:])^k)
		p = p[32:]
	}
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^k)
		p = p[8:]
	}
	for i := range p {
		p[i] ^= byte(key)
		key = bits.RotateLeft32(key, -8)
	}
}
