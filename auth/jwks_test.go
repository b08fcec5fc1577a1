package auth

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/big"
	"net"
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

// served is a key server whose answer can be changed.
type served struct {
	body  atomic.Pointer[string] // nil: 502
	asked atomic.Int32
	hang  atomic.Bool // no answer until the client goes away
}

func (s *served) set(text string) { s.body.Store(&text) }

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	if s.hang.Load() {
		<-r.Context().Done()
		return
	}
	if b := s.body.Load(); b != nil {
		fmt.Fprint(w, *b)
		return
	}
	w.WriteHeader(http.StatusBadGateway)
}

// try makes a token with one of the signers and says how it is received.
func try(t testing.TB, v *Verifier, k SigningKey, kid string, at time.Time) string {
	t.Helper()
	k.KID = kid
	_, err := v.Verify([]byte(mint(t, k, Claims{User: "a", Expires: at.Add(time.Hour)})), at)
	return reasonOf(err)
}

// Over a real socket: keys come and go with the set, and whatever is no good set leaves the last one in force.
func TestJWKSRotation(t *testing.T) {
	s := signers(t)
	src := new(served)
	src.set(jwksOf(t, s, map[Alg]string{RS256: "old"}))
	srv := httptest.NewServer(src)
	defer srv.Close()
	v := verifierOf(t, VerifierConfig{}, hsKey(t))
	if err := v.UseJWKS(t.Context(), srv.URL); err != nil {
		t.Fatal(err)
	}
	expect := func(when string, want map[Alg]string) {
		t.Helper()
		for alg, kid := range map[Alg]string{RS256: "old", ES256: "new", EdDSA: "ed", HS256: "hs"} {
			if got := try(t, v, s[alg], kid, now); got != want[alg] {
				t.Errorf("%s, %s: %s, want %s", when, kid, got, want[alg])
			}
		}
	}
	expect("the first set", map[Alg]string{RS256: "accepted", ES256: "unknown_key", EdDSA: "unknown_key", HS256: "accepted"})
	src.set(jwksOf(t, s, map[Alg]string{ES256: "new", EdDSA: "ed"}))
	if err := v.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	rotated := map[Alg]string{RS256: "unknown_key", ES256: "accepted", EdDSA: "accepted", HS256: "accepted"}
	expect("after the rotation", rotated)
	bad := map[string]string{
		"an error page": "<html>", "an error in JSON": `{"error":"away"}`, "an empty set": `{"keys":[]}`, "too large": strings.Repeat(" ", maxJWKS+1),
		"only secrets": `{"keys":[{"kty":"oct","kid":"x","k":"` + strings.Repeat("A", 43) + `"}]}`, "cut off": jwksOf(t, s, map[Alg]string{RS256: "old"})[:200],
	}
	for name, text := range bad {
		src.set(text)
		if err := v.refresh(t.Context()); err == nil {
			t.Errorf("%s is no error", name)
		}
		expect(name, rotated)
	}
	src.body.Store(nil)
	if err := v.refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("a source that fails: %v", err)
	}
	srv.Close()
	if err := v.refresh(t.Context()); err == nil {
		t.Error("a source that is away is no error")
	}
	expect("while the source is away", rotated)
	if st := v.JWKS(); st.Keys != 2 || st.Refreshed != 2 || st.Failed != uint64(len(bad))+2 || st.At.IsZero() {
		t.Errorf("counters: %+v", st)
	}
}

// A key that the configuration names itself is not replaced by one of the set, and a secret that everybody can fetch is none.
func TestOwnKeysWin(t *testing.T) {
	s := signers(t)
	src := new(served)
	published := `{"keys":[{"kty":"oct","kid":"published","k":"` + base64.RawURLEncoding.EncodeToString(secret) + `"},`
	src.set(strings.Replace(jwksOf(t, s, map[Alg]string{RS256: "hs", EdDSA: "ed"}), `{"keys":[`, published, 1))
	srv := httptest.NewServer(src)
	defer srv.Close()
	v := verifierOf(t, VerifierConfig{}, hsKey(t))
	if err := v.UseJWKS(t.Context(), srv.URL); err != nil {
		t.Fatal(err)
	}
	if a, b := try(t, v, s[RS256], "hs", now), try(t, v, s[HS256], "hs", now); a != "algorithm" || b != "accepted" {
		t.Errorf("the set's key: %s, the configuration's: %s", a, b)
	}
	if got, st := try(t, v, s[HS256], "published", now), v.JWKS(); got != "unknown_key" || st.Keys != 2 || st.PassedOver != 1 {
		t.Errorf("a published secret: %s, %+v", got, st)
	}
}

func TestJWKSAddressesThatAreNotTrusted(t *testing.T) {
	for _, from := range []string{"http://192.0.2.1/jwks", "http://keys.example/jwks", "http://127.0.0.1.example/", "http://[2001:db8::1]/"} {
		v := verifierOf(t, VerifierConfig{}, hsKey(t))
		if err := v.UseJWKS(t.Context(), from); err == nil || !strings.Contains(err.Error(), "use https") || v.source != nil {
			t.Errorf("%s: %v", from, err)
		}
	}
	hops := 0
	redirect := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hops++
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://192.0.2.1/jwks", http.StatusFound)
			return
		}
		http.Redirect(w, r, "/again", http.StatusFound)
	}))
	defer redirect.Close()
	v := verifierOf(t, VerifierConfig{}, hsKey(t))
	if err := v.UseJWKS(t.Context(), redirect.URL+"/away"); err == nil || !strings.Contains(err.Error(), "use https") {
		t.Errorf("a redirect to where is no https: %v", err)
	}
	hops = 0
	if err := v.UseJWKS(t.Context(), redirect.URL+"/loop"); err == nil || hops != maxRedirects+1 {
		t.Errorf("a loop of redirects: %v after %d requests", err, hops)
	}
}

// pipes is a network in memory, for a server and its clients in one bubble of time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { close(p.done); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// running starts Run with a source on a network in memory. The first reading fails: the source is away.
func running(t *testing.T, src *served) (v *Verifier, stop func()) {
	v = verifierOf(t, VerifierConfig{})
	net := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: src}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(net) }()
	client := newJWKSClient()
	client.Transport = &http.Transport{DialContext: net.dial, DisableKeepAlives: true}
	v.source = &jwkSource{from: "http://keys.test/jwks", client: client, ask: make(chan struct{}, 1)}
	if err := v.refresh(t.Context()); err == nil {
		t.Fatal("a source that answers 502 is no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); v.Run(ctx, slog.New(slog.DiscardHandler)) }()
	synctest.Wait()
	return v, func() {
		cancel()
		<-done
		_ = server.Close()
		<-served
	}
}

// Run reads a set that was away at the start, asks for unknown kids but not too often, tries again after failures, and does not
// wait for a source that hangs.
func TestRunPacesItsReadings(t *testing.T) {
	s := signers(t)
	synctest.Test(t, func(t *testing.T) {
		src := new(served)
		v, stop := running(t, src)
		defer stop()
		pass := func(d time.Duration) int {
			before := src.asked.Load()
			time.Sleep(d)
			synctest.Wait()
			return int(src.asked.Load() - before)
		}
		if n := pass(jwksRetry + 1); n != 1 {
			t.Fatalf("%d readings in %v while the source is away, want 1", n, jwksRetry)
		}
		src.set(jwksOf(t, s, map[Alg]string{EdDSA: "a"}))
		pass(jwksRetry)
		if got := try(t, v, s[EdDSA], "a", time.Now()); got != "accepted" {
			t.Fatalf("the source is back, but its key: %s", got)
		}
		if n := pass(4 * time.Minute); n != 0 {
			t.Errorf("%d readings within four minutes of a good one, want 0", n)
		}
		if n := pass(time.Hour); n < 11 || n > 14 {
			t.Errorf("%d readings in an hour, want one about every five minutes", n)
		}
		src.set(jwksOf(t, s, map[Alg]string{EdDSA: "b"}))
		n := 0
		for range 60 { // a minute of tokens with a kid that nobody knows
			try(t, v, s[EdDSA], "nobody", time.Now())
			n += pass(time.Second)
		}
		if n < 5 || n > 7 {
			t.Errorf("%d readings in a minute of unknown kids, want one every %v", n, jwksRetry)
		}
		if a, b := try(t, v, s[EdDSA], "a", time.Now()), try(t, v, s[EdDSA], "b", time.Now()); a != "unknown_key" || b != "accepted" {
			t.Errorf("after the rotation: the old key %s, the new key %s", a, b)
		}
		src.hang.Store(true)
		failed := v.JWKS().Failed
		try(t, v, s[EdDSA], "nobody", time.Now())
		pass(jwksRetry + jwksTimeout + 1)
		if got := v.JWKS().Failed; got != failed+1 {
			t.Errorf("a source that hangs: %d failures, want %d", got, failed+1)
		}
		src.hang.Store(false)
		src.set(jwksOf(t, s, map[Alg]string{EdDSA: "c"}))
		pass(jwksTimeout + 2*jwksRetry) // it may have been asked once more meanwhile
		if got := try(t, v, s[EdDSA], "c", time.Now()); got != "accepted" {
			t.Errorf("after the source hung: %s", got)
		}
	})
}

// A JWK set in a file may hold secrets.
func TestJWKSFile(t *testing.T) {
	s := signers(t)
	file := filepath.Join(t.TempDir(), "set.json")
	text := strings.Replace(jwksOf(t, s, map[Alg]string{ES256: "es"}), `{"keys":[`, `{"keys":[{"kty":"oct","kid":"hs","k":"`+base64.RawURLEncoding.EncodeToString(secret)+`"},`, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	v := verifierOf(t, VerifierConfig{})
	if err := v.UseJWKS(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if a, b := try(t, v, s[HS256], "hs", now), try(t, v, s[ES256], "es", now); a != "accepted" || b != "accepted" {
		t.Errorf("the secret: %s, the public key: %s", a, b)
	}
	if err := verifierOf(t, VerifierConfig{}).UseJWKS(t.Context(), file+".none"); err == nil {
		t.Error("a file that is not there is no error")
	}
}

// One bad key does not lock out the others.
func TestBadKeysOfASetArePassedOver(t *testing.T) {
	good := `{"kty":"OKP","kid":"good","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
	k43 := strings.Repeat("A", 43)
	for name, bad := range map[string]string{
		"same kid twice":      `{"kty":"oct","kid":"good","k":"` + k43 + `"}`,
		"point off the curve": `{"kty":"EC","kid":"a","crv":"P-256","x":"` + strings.Repeat("A", 42) + `E","y":"` + strings.Repeat("A", 42) + `E"}`,
		"short coordinate":    `{"kty":"EC","kid":"a","crv":"P-256","x":"AA","y":"` + k43 + `"}`,
		"small RSA":           `{"kty":"RSA","kid":"a","n":"_____w","e":"AQAB"}`,
		"huge RSA":            `{"kty":"RSA","kid":"a","n":"` + strings.Repeat("_", 4*maxRSA/3/8+4) + `","e":"AQAB"}`,
		"huge exponent":       strings.Replace(rfcRSA, "AQAB", strings.Repeat("_", 40), 1),
		"exponent one":        strings.Replace(rfcRSA, "AQAB", "AQ", 1),
		"not base64":          `{"kty":"OKP","kid":"a","crv":"Ed25519","x":"!"}`,
		"short Ed25519":       `{"kty":"OKP","kid":"a","crv":"Ed25519","x":"AAAA"}`,
		"short secret":        `{"kty":"oct","kid":"a","k":"AAAA"}`,
		"no secret":           `{"kty":"oct","kid":"a"}`,
		"kid is a number":     `{"kty":"oct","kid":1,"k":"` + k43 + `"}`,
		"not an object":       `"key"`,
	} {
		keys, passed, err := ParseJWKS([]byte(`{"keys":[` + good + `,` + bad + `]}`))
		if err != nil || len(keys) != 1 || keys[0].KID != "good" || keys[0].Alg != EdDSA || len(passed) != 1 {
			t.Errorf("%s: %d keys, passed over %v, %v", name, len(keys), passed, err)
		}
	}
	for name, other := range map[string]string{
		"for encryption": `{"kty":"RSA","use":"enc","n":"AA","e":"AQAB"}`, "for signing only": `{"kty":"oct","key_ops":["sign"],"k":"` + k43 + `"}`,
		"other algorithm": `{"kty":"oct","alg":"HS512","k":"` + k43 + `"}`, "other curve": `{"kty":"EC","crv":"P-384"}`, "other kind": `{"kty":"AKP"}`, "X25519": `{"kty":"OKP","crv":"X25519","x":"AA"}`,
	} {
		keys, passed, err := ParseJWKS([]byte(`{"keys":[` + other + `,` + good + `]}`))
		if err != nil || len(keys) != 1 || len(passed) != 0 {
			t.Errorf("%s: %d keys, passed over %v, %v", name, len(keys), passed, err)
		}
	}
	named := strings.Replace(good, `"kid"`, `"alg":"Ed25519","use":"sig","key_ops":["verify"],"kid"`, 1)
	if keys, passed, err := ParseJWKS([]byte(`{"keys":[` + named + `]}`)); err != nil || len(keys) != 1 || passed != nil {
		t.Errorf("alg by the name of RFC 9864: %d keys, passed over %v, %v", len(keys), passed, err)
	}
	for _, text := range []string{``, `{`, `[]`, `{"keys":{}}`, `{"keys":[]} x`} {
		if keys, _, err := ParseJWKS([]byte(text)); err == nil {
			t.Errorf("%q is a set of %d keys", text, len(keys))
		}
	}
}

func FuzzJWKS(f *testing.F) {
	f.Add(`{"keys":[{"kty":"OKP","kid":"a","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)
	f.Add(`{"keys":[` + rfcRSA + `,{"kty":"oct","k":"AAAA"}]}`)
	f.Add(`{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		keys, passed, err := ParseJWKS([]byte(s))
		if err != nil && (keys != nil || passed != nil) {
			t.Error("keys beside an error")
		}
		if _, err := NewVerifier(VerifierConfig{}, keys); err != nil {
			t.Errorf("keys that do not go together: %v", err)
		}
		for _, k := range keys {
			if k.verify([]byte("input"), make([]byte, 64)) == nil {
				t.Errorf("a signature of zeros fits the %s key", k.Alg)
			}
		}
	})
}
