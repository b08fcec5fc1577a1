package tagindex

import (
	"encoding/binary"
	"encoding/hex"
	"testing"
)

// TestSipHashVectors checks the values published with SipHash-2-4: key 00..0f, inputs of the bytes 00, 01, 02, ...
func TestSipHashVectors(t *testing.T) {
	var secret [16]byte
	var in [64]byte
	for i := range in {
		in[i] = byte(i)
	}
	copy(secret[:], in[:])
	for n, want := range map[int]string{
		0: "310e0edd47db6f72", 1: "fd67dc93c539f874", 2: "5a4fa9d909806c0d", 3: "2d7efbd796666785",
		7: "37d1018bf50002ab", 8: "6224939a79f5f593", 15: "e545be4961ca29a1",
	} {
		for cut := range n + 1 { // written in two pieces
			s := newSip(NewHasher(secret))
			s.write(string(in[:cut]))
			s.write(string(in[cut:n]))
			var got [8]byte
			binary.LittleEndian.PutUint64(got[:], s.sum())
			if hex.EncodeToString(got[:]) != want {
				t.Errorf("%d bytes, cut at %d: %x, want %s", n, cut, got, want)
			}
		}
	}
}

func TestKey(t *testing.T) {
	h := NewHasher([16]byte{1, 2, 3})
	if h.Key("a", "bc") == h.Key("ab", "c") || h.Key("a", "b") == NewHasher([16]byte{1}).Key("a", "b") {
		t.Error("different app, tag or secret give the same key")
	}
	if k := h.Key("default", "room:1"); k>>KeyBits != 0 || k != NewHasher([16]byte{1, 2, 3}).Key("default", "room:1") {
		t.Errorf("key %x is too wide or not a function of its input", k)
	}
	if n := testing.AllocsPerRun(100, func() { h.Key("default", "room:1") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
