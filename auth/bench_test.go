package auth

import (
	"testing"
	"time"
)

func BenchmarkVerifyHS256(b *testing.B) {
	secret := []byte("0123456789abcdef0123456789abcdef")
	key, err := NewSecretKey("k1", secret)
	if err != nil {
		b.Fatal(err)
	}
	v, err := NewVerifier(VerifierConfig{}, []*Key{key})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	tok, err := Mint(SigningKey{KID: "k1", Secret: secret}, Claims{
		User: "user-0123456789", Issued: now, Expires: now.Add(time.Hour), Subscribe: []string{"room:*", "u:{user}"}, Publish: []string{"room:*"},
	})
	if err != nil {
		b.Fatal(err)
	}
	raw := []byte(tok)
	b.ReportAllocs()
	for b.Loop() {
		if !v.Cheap(raw) {
			b.Fatal("HS256 is not cheap")
		}
		if _, err := v.Verify(raw, now); err != nil {
			b.Fatal(err)
		}
	}
}
