package auth

import (
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func benchToken(b *testing.B) (*Verifier, []byte) {
	b.Helper()
	tok := mint(b, SigningKey{KID: "hs", Secret: secret}, Claims{
		User: "user-0123456789", Issued: now, Expires: now.Add(time.Hour), Subscribe: []string{"room:*", "u:{user}"}, Publish: []string{"room:*"},
	})
	return verifierOf(b, VerifierConfig{}, hsKey(b)), []byte(tok)
}

func BenchmarkVerifyHS256(b *testing.B) {
	v, raw := benchToken(b)
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

// What the usual library takes for the signature and the same claims, without grants.
func BenchmarkAnotherLibraryHS256(b *testing.B) {
	_, raw := benchToken(b)
	type theirs struct {
		jwt.RegisteredClaims
		Tags, Join, Publish, Services []string
	}
	p := jwt.NewParser(jwt.WithValidMethods([]string{"HS256"}), jwt.WithTimeFunc(func() time.Time { return now }))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.ParseWithClaims(string(raw), new(theirs), func(*jwt.Token) (any, error) { return secret, nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyPublic(b *testing.B) {
	s := signers(b)
	v := verifierOf(b, VerifierConfig{}, publicKeys(b, s)...)
	for _, alg := range []Alg{RS256, ES256, EdDSA} {
		raw := []byte(mint(b, s[alg], claims()))
		b.Run(string(alg), func(b *testing.B) {
			for b.Loop() {
				if _, err := v.Verify(raw, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
