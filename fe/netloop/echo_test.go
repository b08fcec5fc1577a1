package netloop

import (
	"bytes"
	"strings"
	"testing"
)

func TestEcho(t *testing.T) {
	forAll(t, nil, func(t *testing.T, ts *testServer, tr string) {
		p := ts.dial(t, tr)
		for _, n := range []int{0, 1, 125, 126, 127, 128, 1000, 16383, 16384, 16385, 65535} {
			want := bytes.Repeat([]byte{byte(n)}, n)
			if err := p.send(want); err != nil {
				t.Fatalf("send %d: %v", n, err)
			}
			got, err := p.recv()
			if err != nil {
				t.Fatalf("recv %d: %v", n, err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes came back as %d", n, len(got))
			}
		}
	})
}

// TestEchoByteByByte cuts everything that a client sends at every place: preface, hello, request, records and frames.
func TestEchoByteByByte(t *testing.T) {
	forAll(t, nil, func(t *testing.T, ts *testServer, tr string) {
		p, err := ts.upon(slowConn{ts.tcp(t, 0)}, tr)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 125, 126, 128, 500} {
			roundTrip(t, p, strings.Repeat("x", n))
		}
	})
}
