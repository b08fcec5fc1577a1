package wsframe_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klinkio/klink/proto/wsframe"
)

// maskBytewise is the algorithm as section 5.3 states it.
func maskBytewise(p []byte, key [4]byte) {
	for i := range p {
		p[i] ^= key[i%4]
	}
}

func TestUnmaskIsTheAlgorithmOfTheRFC(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	key := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	for n := range 200 {
		for offset := range 8 { // words need not be aligned
			buf := make([]byte, offset+n+8)
			for i := range buf {
				buf[i] = byte(rnd.Uint32())
			}
			want := bytes.Clone(buf)
			maskBytewise(want[offset:offset+n], key)
			wsframe.Unmask(buf[offset:offset+n], binary.LittleEndian.Uint32(key[:]))
			if !bytes.Equal(buf, want) {
				t.Fatalf("%d bytes at %d: got %x, want %x", n, offset, buf, want)
			}
		}
	}
}

func BenchmarkUnmask(b *testing.B) {
	for _, n := range []int{16, 100, 1024, 65536} {
		p := make([]byte, n)
		key := [4]byte{0x37, 0xfa, 0x21, 0x3d}
		b.Run(fmt.Sprintf("words/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				wsframe.Unmask(p, binary.LittleEndian.Uint32(key[:]))
			}
		})
		b.Run(fmt.Sprintf("bytes/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				maskBytewise(p, key)
			}
		})
	}
}
