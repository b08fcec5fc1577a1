package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/klinkio/klink"
)

var (
	secret = []byte("0123456789abcdef0123456789abcdef")
	now    = time.Unix(1_800_000_000, 0)
)

func mustKey(t testing.TB, k *Key, err error) *Key {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func hsKey(t testing.TB) *Key {
	k, err := NewSecretKey("hs", secret)
	return mustKey(t, k, err)
}

func verifierOf(t testing.TB, cfg VerifierConfig, keys ...*Key) *Verifier {
	t.Helper()
	v, err := NewVerifier(cfg, keys)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mint(t testing.TB, k SigningKey, c Claims) string {
	t.Helper()
	s, err := Mint(k, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func claims() Claims {
	return Claims{User: "alice", Issued: now, Expires: now.Add(time.Hour)}
}

func reasonOf(err error) string {
	if e, ok := errors.AsType[*TokenError](err); ok {
		return e.Reason.String()
	}
	if err == nil {
		return "accepted"
	}
	return "not a TokenError: " + err.Error()
}

// RFC 7515 appendix A.1 and RFC 8037 appendix A.4: signatures made by others.
func TestRFCVectors(t *testing.T) {
	b64 := func(s string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	hs, err := NewSecretKey("", b64("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"))
	mustKey(t, hs, err)
	ed, err := NewPublicKey("", ed25519.PublicKey(b64("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")))
	mustKey(t, ed, err)
	ec, err := ParseJWKS([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`))
	if err != nil || len(ec) != 1 {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, token string
		key         *Key
	}{
		{"RFC 7515 A.1", "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", hs},
		{"RFC 7515 A.3", "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q", ec[0]},
		{"RFC 8037 A.4", "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg", ed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, input, _, sig, err := split([]byte(tc.token))
			if err != nil {
				t.Fatal(err)
			}
			if err := tc.key.verify(input, sig); err != nil {
				t.Error(err)
			}
			for i := range sig {
				sig[i] ^= 1
				if tc.key.verify(input, sig) == nil {
					t.Errorf("byte %d of the signature does not matter", i)
				}
				sig[i] ^= 1
			}
			if tc.key.verify(input[:len(input)-1], sig) == nil {
				t.Error("a shorter input fits, too")
			}
		})
	}
}

func signers(t testing.TB) map[Alg]SigningKey {
	t.Helper()
	rk, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ek, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, dk, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return map[Alg]SigningKey{
		HS256: {KID: "hs", Secret: secret}, RS256: {KID: "rs", Signer: rk}, ES256: {KID: "es", Signer: ek}, EdDSA: {KID: "ed", Signer: dk},
	}
}

func publicKeys(t testing.TB, s map[Alg]SigningKey) []*Key {
	keys := []*Key{hsKey(t)}
	for _, a := range []Alg{RS256, ES256, EdDSA} {
		k, err := NewPublicKey(s[a].KID, s[a].Signer.Public())
		keys = append(keys, mustKey(t, k, err))
	}
	return keys
}

// What Mint makes a well-known library accepts, and what that library makes is accepted here, for every algorithm.
func TestAgainstAnotherLibrary(t *testing.T) {
	s := signers(t)
	v := verifierOf(t, VerifierConfig{Audience: "klink"}, publicKeys(t, s)...)
	methods := map[Alg]jwt.SigningMethod{HS256: jwt.SigningMethodHS256, RS256: jwt.SigningMethodRS256, ES256: jwt.SigningMethodES256, EdDSA: jwt.SigningMethodEdDSA}
	for alg, key := range s {
		t.Run(string(alg), func(t *testing.T) {
			c := claims()
			c.Audience, c.Subscribe, c.Join = []string{"klink", "x"}, []string{"room:*", "ü\n\"x"}, []string{"a"}
			c.Subscribe[1] = `ü"\x`
			tok := mint(t, key, c)
			var private, public any = key.Signer, nil
			if alg == HS256 {
				private, public = secret, secret
			} else {
				public = key.Signer.Public()
			}
			parsed, err := jwt.Parse(tok, func(*jwt.Token) (any, error) { return public, nil }, jwt.WithTimeFunc(func() time.Time { return now }), jwt.WithValidMethods([]string{string(alg)}))
			if err != nil || !parsed.Valid || parsed.Header["kid"] != key.KID {
				t.Fatalf("the other library says %v", err)
			}
			theirs := jwt.NewWithClaims(methods[alg], jwt.MapClaims{
				"sub": "bob", "exp": now.Add(time.Minute).Unix(), "iat": float64(now.Unix()) + 0.5, "aud": "klink", "app": "shop", "tags": []string{"a*"}, "extra": map[string]any{"deep": []int{1}},
			})
			theirs.Header["kid"] = key.KID
			signed, err := theirs.SignedString(private)
			if err != nil {
				t.Fatal(err)
			}
			got, err := v.Verify([]byte(signed), now.Add(time.Second))
			if err != nil || got.User != "bob" || got.App != "shop" || !got.Grants.CanSubscribe("abc", nil) {
				t.Fatalf("their token: %+v %v", got, err)
			}
			ours, err := v.Verify([]byte(tok), now)
			if err != nil || !slices.Equal(ours.Subscribe, c.Subscribe) || !slices.Equal(ours.Join, c.Join) || ours.App != klink.DefaultApp {
				t.Fatalf("our token: %+v %v", ours, err)
			}
			if cheap := v.Cheap([]byte(tok)); cheap != (alg == HS256) {
				t.Errorf("cheap: %v", cheap)
			}
		})
	}
}

// signed makes a token of any header and claims with the HS256 secret.
func signed(t testing.TB, head, body string) string {
	t.Helper()
	enc := base64.RawURLEncoding.EncodeToString
	in := enc([]byte(head)) + "." + enc([]byte(body))
	k := SigningKey{Secret: secret}
	sig, err := k.sign(HS256, []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	return in + "." + enc(sig)
}

func TestRefusals(t *testing.T) {
	s := signers(t)
	v := verifierOf(t, VerifierConfig{Leeway: 30 * time.Second, Audience: "klink", MaxTTL: 2 * time.Hour}, publicKeys(t, s)...)
	const head = `{"alg":"HS256","kid":"hs"}`
	body := func(extra string) string {
		return fmt.Sprintf(`{"sub":"a","aud":"klink","iat":%d,"exp":%d%s}`, now.Unix(), now.Unix()+3600, extra)
	}
	rsaPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(s[RS256].Signer.Public()))})
	confused := func() string {
		in := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"rs"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(body("")))
		k := SigningKey{Secret: rsaPEM}
		sig := must(k.sign(HS256, []byte(in)))
		return in + "." + base64.RawURLEncoding.EncodeToString(sig)
	}
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"hs"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(body(""))) + "."
	many := strings.TrimSuffix(strings.Repeat(`"x",`, MaxPatterns+1), ",")
	tests := []struct {
		name, token string
		want        string
	}{
		{"good", signed(t, head, body("")), "accepted"},
		{"empty", "", "malformed"},
		{"two parts", "a.b", "malformed"},
		{"four parts", signed(t, head, body("")) + ".x", "malformed"},
		{"padding", strings.Replace(signed(t, head, body("")), ".", "=.", 1), "malformed"},
		{"standard alphabet", signed(t, head, body("")) + "+", "malformed"},
		{"header is a list", signed(t, `["HS256"]`, body("")), "malformed"},
		{"header with a member twice", signed(t, `{"alg":"HS256","alg":"none","kid":"hs"}`, body("")), "malformed"},
		{"crit", signed(t, `{"alg":"HS256","kid":"hs","crit":["exp"]}`, body("")), "malformed"},
		{"b64", signed(t, `{"alg":"HS256","kid":"hs","b64":false}`, body("")), "malformed"},
		{"too long", signed(t, head, body(`,"pad":"`+strings.Repeat("x", MaxToken)+`"`)), "malformed"},
		{"unknown kid", signed(t, `{"alg":"HS256","kid":"other"}`, body("")), "unknown_key"},
		{"no kid among several keys", signed(t, `{"alg":"HS256"}`, body("")), "unknown_key"},
		{"alg none", none, "algorithm"},
		{"an RSA public key as HMAC secret", confused(), "algorithm"},
		{"alg in lower case", signed(t, `{"alg":"hs256","kid":"hs"}`, body("")), "algorithm"},
		{"no alg", signed(t, `{"kid":"hs"}`, body("")), "algorithm"},
		{"no signature", none[:len(none)-1] + ".AA", "algorithm"},
		{"claims are a list", signed(t, head, `[]`), "claims"},
		{"claims with a member twice", signed(t, head, body(`,"sub":"b"`)), "claims"},
		{"escaped name of a member twice", signed(t, head, body(`,"\u0073ub":"b"`)), "claims"},
		{"trailing data", signed(t, head, body("")+"{}"), "claims"},
		{"no sub", signed(t, head, fmt.Sprintf(`{"aud":"klink","iat":%d,"exp":%d}`, now.Unix(), now.Unix()+60)), "claims"},
		{"sub is a number", signed(t, head, fmt.Sprintf(`{"sub":7,"aud":"klink","exp":%d}`, now.Unix()+60)), "claims"},
		{"control character in sub", signed(t, head, fmt.Sprintf(`{"sub":"a\u0000","aud":"klink","exp":%d}`, now.Unix()+60)), "claims"},
		{"no exp", signed(t, head, `{"sub":"a","aud":"klink"}`), "claims"},
		{"exp is a text", signed(t, head, `{"sub":"a","aud":"klink","exp":"soon"}`), "claims"},
		{"exp beyond all dates", signed(t, head, `{"sub":"a","aud":"klink","exp":1e300}`), "claims"},
		{"longer than max_ttl", signed(t, head, fmt.Sprintf(`{"sub":"a","aud":"klink","iat":%d,"exp":%d}`, now.Unix(), now.Unix()+7201)), "claims"},
		{"max_ttl needs iat", signed(t, head, fmt.Sprintf(`{"sub":"a","aud":"klink","exp":%d}`, now.Unix()+60)), "claims"},
		{"wrong audience", signed(t, head, strings.Replace(body(""), "klink", "shop", 1)), "audience"},
		{"no audience", signed(t, head, strings.Replace(body(""), `"aud":"klink",`, "", 1)), "audience"},
		{"a star inside a pattern", signed(t, head, body(`,"tags":["a*b"]`)), "claims"},
		{"{user} twice", signed(t, head, body(`,"publish":["{user}{user}"]`)), "claims"},
		{"too many patterns", signed(t, head, body(`,"tags":[`+many+`]`)), "claims"},
		{"too many joins", signed(t, head, body(`,"join":[`+many+`]`)), "claims"},
		{"tags is a text", signed(t, head, body(`,"tags":"room"`)), "claims"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := v.Verify([]byte(tc.token), now)
			if got := reasonOf(err); got != tc.want {
				t.Errorf("%s: %v, want %s", got, err, tc.want)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestTimesAtTheirBorders(t *testing.T) {
	v := verifierOf(t, VerifierConfig{Leeway: 30 * time.Second}, hsKey(t))
	key := SigningKey{KID: "hs", Secret: secret}
	tests := []struct {
		name string
		set  func(*Claims)
		want string
	}{
		{"the last moment", func(c *Claims) { c.Expires = now.Add(-29 * time.Second) }, "accepted"},
		{"a leeway after exp", func(c *Claims) { c.Expires = now.Add(-30 * time.Second) }, "expired"},
		{"nbf in a leeway", func(c *Claims) { c.NotBefore = now.Add(30 * time.Second) }, "accepted"},
		{"nbf later", func(c *Claims) { c.NotBefore = now.Add(31 * time.Second) }, "not_yet_valid"},
		{"iat in a leeway", func(c *Claims) { c.Issued = now.Add(30 * time.Second) }, "accepted"},
		{"iat later", func(c *Claims) { c.Issued = now.Add(31 * time.Second) }, "not_yet_valid"},
	}
	for _, tc := range tests {
		c := claims()
		tc.set(&c)
		_, err := v.Verify([]byte(mint(t, key, c)), now)
		if got := reasonOf(err); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// Every single changed byte makes a token useless.
func TestTampering(t *testing.T) {
	v := verifierOf(t, VerifierConfig{}, hsKey(t))
	tok := []byte(mint(t, SigningKey{KID: "hs", Secret: secret}, claims()))
	for i := range tok {
		for _, x := range []byte{1, 2, 4, 8, 16, 32, 64, 128} {
			bad := slices.Clone(tok)
			bad[i] ^= x
			if _, err := v.Verify(bad, now); err == nil {
				t.Fatalf("byte %d changed by %#x is accepted", i, x)
			}
		}
	}
	if v.Accepted() != 0 || v.Refused(ReasonSignature) == 0 {
		t.Error("the counters do not count")
	}
}

func TestGrantsAreSharedAndMatch(t *testing.T) {
	v := verifierOf(t, VerifierConfig{}, hsKey(t))
	key := SigningKey{KID: "hs", Secret: secret}
	with := func(user string) *Claims {
		c := claims()
		c.User, c.Subscribe, c.Publish, c.Services = user, []string{"room:*", "u:{user}", "{user}:x:*"}, []string{"*"}, []string{"shop"}
		got, err := v.Verify([]byte(mint(t, key, c)), now)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	a, b := with("alice"), with("bob")
	if a.Grants != b.Grants {
		t.Error("equal sets are two objects")
	}
	g := a.Grants
	for tag, want := range map[string]bool{
		"room:1": true, "room:": true, "room": false, "u:alice": true, "u:alice2": false, "u:bob": false, "u:": false,
		"alice:x:1": true, "alice:x:": true, "alice:x": false, "bob:x:1": false, "": false,
	} {
		if got := g.CanSubscribe(tag, []byte("alice")); got != want {
			t.Errorf("alice may subscribe to %q: %v, want %v", tag, got, want)
		}
	}
	if !g.CanPublish("anything", nil) || !g.CanCall("shop", nil) || !g.CanCall(EchoService, nil) || g.CanCall("bank", nil) {
		t.Error("publish and services are not as the token says")
	}
	user := []byte("alice")
	if n := testing.AllocsPerRun(100, func() { g.CanSubscribe("alice:x:1", user) }); n != 0 {
		t.Errorf("matching allocates %v times", n)
	}
}

func TestAllocations(t *testing.T) {
	v := verifierOf(t, VerifierConfig{}, hsKey(t))
	c := claims()
	c.Subscribe = []string{"room:*"}
	raw := []byte(mint(t, SigningKey{KID: "hs", Secret: secret}, c))
	v.Verify(raw, now)
	if n := testing.AllocsPerRun(100, func() {
		v.Cheap(raw)
		v.Verify(raw, now)
	}); n > 9 { // 6, and what the race detector makes the pool lose
		t.Errorf("a login's token costs %v allocations, want at most 9", n)
	}
}

// Keys as openssl writes them.
func TestKeysOfOpenSSL(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("openssl", args...).CombinedOutput(); err != nil {
			t.Fatalf("openssl %v: %v\n%s", args, err, out)
		}
	}
	for alg, gen := range map[Alg][]string{
		RS256: {"genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"},
		ES256: {"ecparam", "-genkey", "-name", "prime256v1", "-noout"},
		EdDSA: {"genpkey", "-algorithm", "ED25519"},
	} {
		t.Run(string(alg), func(t *testing.T) {
			private, public := filepath.Join(dir, string(alg)+".key"), filepath.Join(dir, string(alg)+".pub")
			run(append(gen, "-out", private)...)
			run("pkey", "-in", private, "-pubout", "-out", public)
			signer, err := ParsePrivatePEM(readFile(t, private))
			if err != nil {
				t.Fatal(err)
			}
			k, err := ParsePublicPEM("k", readFile(t, public))
			if err != nil || k.Alg != alg {
				t.Fatalf("%+v %v", k, err)
			}
			if _, err := verifierOf(t, VerifierConfig{}, k).Verify([]byte(mint(t, SigningKey{KID: "k", Signer: signer}, claims())), now); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWeakKeysAreRefused(t *testing.T) {
	if _, err := NewSecretKey("k", secret[:31]); err == nil {
		t.Error("a short secret is accepted")
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err == nil {
		if _, err := NewPublicKey("k", small.Public()); err == nil {
			t.Error("a small RSA key is accepted")
		}
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewPublicKey("k", crypto.PublicKey(p384.Public())); err == nil {
		t.Error("a curve that ES256 does not use is accepted")
	}
	if _, err := NewVerifier(VerifierConfig{}, []*Key{hsKey(t), hsKey(t)}); err == nil {
		t.Error("two keys with one kid are accepted")
	}
}

func FuzzVerify(f *testing.F) {
	v := verifierOf(f, VerifierConfig{Audience: "klink"}, hsKey(f))
	f.Add(mint(f, SigningKey{KID: "hs", Secret: secret}, claims()))
	f.Add("a.b.c")
	f.Add("..")
	f.Fuzz(func(t *testing.T, s string) {
		v.Cheap([]byte(s))
		if _, err := v.Verify([]byte(s), now); err == nil {
			t.Error("a token without the audience was accepted")
		}
	})
}

// The scanner accepts exactly the objects that encoding/json accepts, but for members that stand twice, and reads the same claims.
func FuzzClaims(f *testing.F) {
	f.Add(`{"sub":"a","exp":1,"tags":["x"],"aud":["a","b"],"join":[],"n":{"a":[1,2,{"b":null}]}}`)
	f.Add(`{"sub":"\u00e4\"\\","exp":1.5e3}`)
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, s string) {
		c, _, err := parseClaims([]byte(s))
		var w struct {
			Sub string   `json:"sub"`
			Exp *float64 `json:"exp"`
		}
		jerr := json.Unmarshal([]byte(s), &w)
		if err == nil && jerr != nil {
			if _, ok := errors.AsType[*json.UnmarshalTypeError](jerr); !ok {
				t.Fatalf("accepted what is no JSON: %v", jerr)
			}
		}
		if err == nil && jerr == nil && c.User != w.Sub && !strings.EqualFold(s, "") && strings.Count(strings.ToLower(s), `sub`) == 1 && !strings.Contains(s, `\`) {
			t.Fatalf("sub reads as %q, want %q", c.User, w.Sub)
		}
	})
}
