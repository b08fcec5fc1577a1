package auth

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
)

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func jwksOf(t testing.TB, s map[Alg]SigningKey, kids map[Alg]string) string {
	t.Helper()
	enc := base64.RawURLEncoding.EncodeToString
	var keys []string
	for alg, kid := range kids {
		switch p := s[alg].Signer.Public().(type) {
		case *rsa.PublicKey:
			keys = append(keys, fmt.Sprintf(`{"kty":"RSA","kid":%q,"alg":"RS256","use":"sig","n":%q,"e":%q}`, kid, enc(p.N.Bytes()), enc(big.NewInt(int64(p.E)).Bytes())))
		case *ecdsa.PublicKey:
			b, err := p.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, fmt.Sprintf(`{"kty":"EC","kid":%q,"crv":"P-256","x":%q,"y":%q}`, kid, enc(b[1:33]), enc(b[33:])))
		case ed25519.PublicKey:
			keys = append(keys, fmt.Sprintf(`{"kty":"OKP","kid":%q,"crv":"Ed25519","x":%q}`, kid, enc(p)))
		}
	}
	return `{"keys":[{"kty":"EC","crv":"P-521","x":"AA","y":"AA"},{"kty":"RSA","use":"enc","n":"AA","e":"AQAB"},` + strings.Join(keys, ",") + `]}`
}

// A key that appears in the set is found when a token names it; while the source is away the last set stays in force.
func TestJWKSRotation(t *testing.T) {
	s := signers(t)
	var body atomic.Pointer[string]
	var asked atomic.Int32
	set := func(kids map[Alg]string) { body.Store(new(jwksOf(t, s, kids))) }
	set(map[Alg]string{RS256: "old"})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if b := body.Load(); b != nil {
			fmt.Fprint(w, *b)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer srv.Close()
	v := verifierOf(t, VerifierConfig{})
	if err := v.UseJWKS(t.Context(), srv.URL); err != nil {
		t.Fatal(err)
	}
	try := func(alg Alg, kid string) string {
		k := s[alg]
		k.KID = kid
		_, err := v.Verify([]byte(mint(t, k, claims())), now)
		return reasonOf(err)
	}
	if got := try(RS256, "old"); got != "accepted" {
		t.Fatalf("the first set: %s", got)
	}
	if got := try(ES256, "new"); got != "unknown_key" {
		t.Fatalf("a key that is not there: %s", got)
	}
	set(map[Alg]string{ES256: "new", EdDSA: "ed"})
	if err := v.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, b, c := try(ES256, "new"), try(EdDSA, "ed"), try(RS256, "old"); a != "accepted" || b != "accepted" || c != "unknown_key" {
		t.Errorf("after the rotation: %s, %s, %s", a, b, c)
	}
	body.Store(nil)
	if err := v.refresh(t.Context()); err == nil {
		t.Error("a source that is away is no error")
	}
	if got := try(ES256, "new"); got != "accepted" {
		t.Errorf("while the source is away: %s", got)
	}
	body.Store(new(strings.Repeat(" ", maxJWKS+1)))
	if err := v.refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "64 KiB") {
		t.Errorf("a set that is too large: %v", err)
	}
}

// Run asks the source again for an unknown kid, but not more often than every ten seconds.
func TestJWKSRefreshIsPaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "set.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := signers(t)
	write(`{"keys":[]}`)
	synctest.Test(t, func(t *testing.T) {
		v := verifierOf(t, VerifierConfig{})
		if err := v.UseJWKS(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); v.Run(ctx, slog.New(slog.DiscardHandler)) }()
		synctest.Wait()
		write(jwksOf(t, s, map[Alg]string{EdDSA: "ed"}))
		tok := []byte(mint(t, SigningKey{KID: "ed", Signer: s[EdDSA].Signer}, Claims{User: "a", Expires: time.Now().Add(time.Hour)}))
		start := time.Now()
		for i := 0; ; i++ {
			if _, err := v.Verify(tok, time.Now()); err == nil {
				break
			}
			if i > 100 {
				t.Fatal("the new key was never read")
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if d := time.Since(start); d < jwksRetry || d > jwksRetry+2*time.Second {
			t.Errorf("the set was read again after %v, want %v", d, jwksRetry)
		}
		cancel()
		<-done
	})
}

func TestBadJWKS(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":            `{`,
		"same kid twice":      `{"keys":[{"kty":"oct","kid":"a","k":"` + strings.Repeat("A", 43) + `"},{"kty":"oct","kid":"a","k":"` + strings.Repeat("A", 43) + `"}]}`,
		"point off the curve": `{"keys":[{"kty":"EC","kid":"a","crv":"P-256","x":"` + strings.Repeat("A", 42) + `E","y":"` + strings.Repeat("A", 42) + `E"}]}`,
		"small RSA":           `{"keys":[{"kty":"RSA","kid":"a","n":"_____w","e":"AQAB"}]}`,
		"huge exponent":       `{"keys":[{"kty":"RSA","kid":"a","n":"_____w","e":"` + strings.Repeat("_", 40) + `"}]}`,
		"not base64":          `{"keys":[{"kty":"OKP","kid":"a","crv":"Ed25519","x":"!"}]}`,
		"short secret":        `{"keys":[{"kty":"oct","kid":"a","k":"AAAA"}]}`,
	} {
		if keys, err := ParseJWKS([]byte(text)); err == nil {
			t.Errorf("%s: accepted as %d keys", name, len(keys))
		}
	}
}

func FuzzJWKS(f *testing.F) {
	f.Add(`{"keys":[{"kty":"OKP","kid":"a","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		keys, err := ParseJWKS([]byte(s))
		if err != nil && keys != nil {
			t.Error("keys beside an error")
		}
	})
}
