package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
		{"members that are not known", signed(t, `{"alg":"HS256","kid":"hs","typ":"JWT","x5t":"a"}`, body(`,"x":{"y":[1,null]},"z":"\u00e4"`)), "accepted"},
		{"aud among others", signed(t, head, strings.Replace(body(""), `"klink"`, `["x","klink"]`, 1)), "accepted"},
		{"empty", "", "malformed"},
		{"two parts", "a.b", "malformed"},
		{"four parts", signed(t, head, body("")) + ".x", "malformed"},
		{"padding", strings.Replace(signed(t, head, body("")), ".", "=.", 1), "malformed"},
		{"a line end in the signature", signed(t, head, body("")) + "\n", "malformed"},
		{"a line end in the claims", strings.Replace(signed(t, head, body("")), ".", ".\r\n", 1), "malformed"},
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
		{"unknown member twice", signed(t, head, body(`,"x":1,"x":2`)), "claims"},
		{"not JSON in what is passed over", signed(t, head, body(`,"x":1"y"`)), "claims"},
		{"half a surrogate pair", signed(t, head, strings.Replace(body(""), `"a"`, `"a\ud800"`, 1)), "claims"},
		{"not UTF-8", signed(t, head, strings.Replace(body(""), `"a"`, "\"a\xff\"", 1)), "claims"},
		{"sub too long", signed(t, head, strings.Replace(body(""), `"a"`, `"`+strings.Repeat("a", klink.MaxUserLen+1)+`"`, 1)), "claims"},
		{"device too long", signed(t, head, body(`,"device":"`+strings.Repeat("a", klink.MaxDeviceLen+1)+`"`)), "claims"},
		{"app too long", signed(t, head, body(`,"app":"`+strings.Repeat("a", klink.MaxAppLen+1)+`"`)), "claims"},
		{"join of an empty tag", signed(t, head, body(`,"join":[""]`)), "claims"},
		{"trailing data", signed(t, head, body("")+"{}"), "claims"},
		{"no sub", signed(t, head, fmt.Sprintf(`{"aud":"klink","iat":%d,"exp":%d}`, now.Unix(), now.Unix()+60)), "claims"},
		{"sub is a number", signed(t, head, fmt.Sprintf(`{"sub":7,"aud":"klink","exp":%d}`, now.Unix()+60)), "claims"},
		{"control character in sub", signed(t, head, fmt.Sprintf(`{"sub":"a\u0000","aud":"klink","exp":%d}`, now.Unix()+60)), "claims"},
		{"no exp", signed(t, head, `{"sub":"a","aud":"klink"}`), "claims"},
		{"exp is a text", signed(t, head, `{"sub":"a","aud":"klink","exp":"soon"}`), "claims"},
		{"exp in milliseconds", signed(t, head, fmt.Sprintf(`{"sub":"a","aud":"klink","exp":%d}`, now.UnixMilli()+60_000)), "claims"},
		{"exp below zero", signed(t, head, `{"sub":"a","aud":"klink","exp":-1}`), "claims"},
		{"exp is null", signed(t, head, `{"sub":"a","aud":"klink","exp":null}`), "claims"},
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

// A token without kid is checked with the only key, from wherever it is.
func TestTokenWithoutKid(t *testing.T) {
	body := `{"sub":"a","exp":1900000000}`
	v := verifierOf(t, VerifierConfig{}, hsKey(t))
	if _, err := v.Verify([]byte(signed(t, `{"alg":"HS256"}`, body)), now); err != nil {
		t.Error(err)
	}
	if _, err := v.Verify([]byte(signed(t, `{"alg":"HS256","kid":"x"}`, body)), now); reasonOf(err) != "unknown_key" {
		t.Errorf("another kid: %v", err)
	}
	only := verifierOf(t, VerifierConfig{})
	if _, err := only.Verify([]byte(signed(t, `{"alg":"HS256"}`, body)), now); reasonOf(err) != "unknown_key" {
		t.Errorf("no key at all: %v", err)
	}
	only.set.Store(&map[string]*Key{"hs": hsKey(t)})
	if _, err := only.Verify([]byte(signed(t, `{"alg":"HS256"}`, body)), now); err != nil {
		t.Errorf("the only key is one of the set: %v", err)
	}
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

// A token that says that it never ends is good until the end of the time that sessions can hold.
func TestFarDates(t *testing.T) {
	v := verifierOf(t, VerifierConfig{}, hsKey(t))
	for exp, want := range map[int64]int64{1_900_000_000: 1_900_000_000, lastDate: lastDate, lastDate + 1: lastDate, maxDate: lastDate} {
		c, err := v.Verify([]byte(signed(t, `{"alg":"HS256","kid":"hs"}`, fmt.Sprintf(`{"sub":"a","exp":%d}`, exp))), now)
		if err != nil || c.Expires.Unix() != want {
			t.Errorf("%d: %+v, %v, want %d", exp, c, err, want)
		}
	}
	if _, err := v.Verify([]byte(signed(t, `{"alg":"HS256","kid":"hs"}`, fmt.Sprintf(`{"sub":"a","exp":%d}`, maxDate+1))), now); reasonOf(err) != "claims" {
		t.Errorf("beyond the year 9999: %v", err)
	}
}

// Every changed, added or missing byte makes a token useless: there is one way to write it.
func TestTampering(t *testing.T) {
	v := verifierOf(t, VerifierConfig{}, hsKey(t))
	tok := []byte(mint(t, SigningKey{KID: "hs", Secret: secret}, claims()))
	refused := func(what string, i int, x byte, bad []byte) {
		if _, err := v.Verify(bad, now); err == nil {
			t.Fatalf("accepted with byte %d %s %#x", i, what, x)
		}
	}
	for i := range tok {
		refused("without", i, tok[i], slices.Delete(slices.Clone(tok), i, i+1))
		for x := range 256 {
			if tok[i] != byte(x) {
				bad := slices.Clone(tok)
				bad[i] = byte(x)
				refused("as", i, byte(x), bad)
			}
		}
	}
	for i := range len(tok) + 1 {
		for x := range 256 {
			refused("put before it", i, byte(x), slices.Insert(slices.Clone(tok), i, byte(x)))
		}
	}
	if v.Accepted() != 0 || v.Refused(ReasonSignature) == 0 {
		t.Error("the counters do not count")
	}
}

// The signatures of the other algorithms have one form, too, and belong to one text.
func TestTamperingWithSignatures(t *testing.T) {
	s := signers(t)
	v := verifierOf(t, VerifierConfig{}, publicKeys(t, s)...)
	for alg, key := range s {
		tok := []byte(mint(t, key, claims()))
		dot := bytes.LastIndexByte(tok, '.')
		sig := must(base64.RawURLEncoding.DecodeString(string(tok[dot+1:])))
		with := func(sig []byte) error {
			bad := base64.RawURLEncoding.AppendEncode(slices.Clone(tok[:dot+1]), sig)
			_, err := v.Verify(bad, now)
			return err
		}
		if err := with(sig); err != nil {
			t.Fatalf("%s: %v", alg, err)
		}
		for name, bad := range map[string][]byte{
			"empty": nil, "cut": sig[:len(sig)-1], "longer": append(slices.Clone(sig), 0), "zeros": make([]byte, len(sig)),
			"first bit": append([]byte{sig[0] ^ 0x80}, sig[1:]...), "last bit": append(slices.Clone(sig[:len(sig)-1]), sig[len(sig)-1]^1),
			"a leading zero": append([]byte{0}, sig...), "a zero before s": slices.Insert(slices.Clone(sig), len(sig)/2, 0), "as ASN.1": must(asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(sig[:len(sig)/2]), new(big.Int).SetBytes(sig[len(sig)/2:])})),
		} {
			if err := with(bad); reasonOf(err) != "signature" {
				t.Errorf("%s, %s: %v", alg, name, err)
			}
		}
	}
}

// Keys may be replaced while tokens are checked.
func TestConcurrentUse(t *testing.T) {
	s := signers(t)
	all := publicKeys(t, s)
	v := verifierOf(t, VerifierConfig{}, all...)
	tok := []byte(mint(t, s[HS256], claims()))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				if _, err := v.Verify(tok, now); err != nil || !v.Cheap(tok) {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	for i := range 500 {
		if err := v.SetKeys(all[:1+i%len(all)]); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if n := v.Accepted(); n != 2000 {
		t.Errorf("%d tokens counted, want 2000", n)
	}
}

// A refusal's text does not give away what the token says or is.
func TestRefusalsAreDiscreet(t *testing.T) {
	v := verifierOf(t, VerifierConfig{Audience: "klink"}, hsKey(t))
	private := "PRIVATE-" + strings.Repeat("x", 300)
	head := `{"alg":"HS256","kid":"hs"}`
	for name, tok := range map[string]string{
		"header": private + ".a.b", "kid": signed(t, `{"alg":"HS256","kid":"`+strings.Repeat("k", 100)+private+`"}`, `{}`),
		"alg": signed(t, `{"alg":"`+strings.Repeat("a", 16)+private+`","kid":"hs"}`, `{}`), "sub": signed(t, head, `{"sub":"`+private+`","exp":1900000000}`),
		"aud": signed(t, head, `{"sub":"a","exp":1900000000,"aud":"`+private+`"}`), "device": signed(t, head, `{"sub":"a","device":"`+private+`","exp":1900000000}`),
		"exp": signed(t, head, `{"sub":"a","exp":"`+private+`"}`), "unknown": signed(t, head, `{"`+private+`":"`+private+`","exp":1}`),
	} {
		_, err := v.Verify([]byte(tok), now)
		if err == nil || strings.Contains(err.Error(), "PRIVATE") || len(err.Error()) > 200 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a login's token costs: the claims, the decoded text, the user, and what hmac makes.
func TestAllocations(t *testing.T) {
	v := verifierOf(t, VerifierConfig{}, hsKey(t))
	c := claims()
	c.Subscribe = []string{"room:*"}
	raw := []byte(mint(t, SigningKey{KID: "hs", Secret: secret}, c))
	limit := 5.0
	if raceEnabled {
		limit = 9 // the race detector makes pools lose what they hold
	}
	if n := testing.AllocsPerRun(100, func() {
		if !v.Cheap(raw) {
			t.Error("HS256 is not cheap")
		}
		if _, err := v.Verify(raw, now); err != nil {
			t.Error(err)
		}
	}); n > limit {
		t.Errorf("a login's token costs %v allocations, want at most %v", n, limit)
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
