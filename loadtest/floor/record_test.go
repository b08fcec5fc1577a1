package floor

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"testing"
)

func newPair(t testing.TB, suite uint16, secretLen int) (seal, open *Record) {
	t.Helper()
	secret := make([]byte, secretLen)
	_, _ = rand.Read(secret) // never fails
	var pair [2]*Record
	for i := range pair {
		var err error
		if pair[i], err = NewRecord(suite, secret); err != nil {
			t.Fatal(err)
		}
	}
	return pair[0], pair[1]
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		suite  uint16
		secret int
	}{{tls.TLS_AES_128_GCM_SHA256, 32}, {tls.TLS_AES_256_GCM_SHA384, 48}} {
		seal, open := newPair(t, c.suite, c.secret)
		for i := range 3 {
			want := bytes.Repeat([]byte{byte(i)}, 100*i+1)
			rec := seal.Seal(nil, want)
			if n := RecordLen(rec); n != len(rec) {
				t.Fatalf("RecordLen = %d, want %d", n, len(rec))
			}
			kind, got, err := open.Open(rec)
			if err != nil || kind != RecordData || !bytes.Equal(got, want) {
				t.Fatalf("record %d: kind %d, %q, %v", i, kind, got, err)
			}
		}
		rec := seal.Seal(nil, []byte("x"))
		rec[len(rec)-1] ^= 1
		if _, _, err := open.Open(rec); err == nil {
			t.Error("a changed record was opened")
		}
	}
	if _, err := NewRecord(tls.TLS_CHACHA20_POLY1305_SHA256, make([]byte, 32)); err == nil {
		t.Error("a suite that is not AES-GCM was taken")
	}
}

func TestSealAllocatesNothing(t *testing.T) {
	seal, _ := newPair(t, tls.TLS_AES_128_GCM_SHA256, 32)
	plain, dst := make([]byte, 100), make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() { seal.Seal(dst, plain) }); n != 0 {
		t.Errorf("Seal allocates %v times", n)
	}
}

func BenchmarkSealCold(b *testing.B) {
	const conns = 15_000
	all := make([]*Record, conns)
	for i := range all {
		all[i], _ = newPair(b, tls.TLS_AES_128_GCM_SHA256, 32)
	}
	plain, dst := make([]byte, 160), make([]byte, 0, 256)
	i := 0
	for b.Loop() {
		all[i].Seal(dst, plain)
		if i++; i == conns {
			i = 0
		}
	}
}
