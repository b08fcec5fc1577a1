package auth

import (
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/klinkio/klink"
)

// The public key of RFC 7515 appendix A.2.
const rfcRSA = `{"kty":"RSA","e":"AQAB","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}`

// RFC 7515 appendix A.1 to A.3 and RFC 8037 appendix A.4: signatures made by others.
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
	set, passed, err := ParseJWKS([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","kid":"ec"},` + rfcRSA + `]}`))
	if err != nil || len(set) != 2 || passed != nil {
		t.Fatal(set, passed, err)
	}
	for _, tc := range []struct {
		name, token string
		key         *Key
	}{
		{"RFC 7515 A.1", "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", hs},
		{"RFC 7515 A.2", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw", set[1]},
		{"RFC 7515 A.3", "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q", set[0]},
		{"RFC 8037 A.4", "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg", ed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, input, _, sig, err := split([]byte(tc.token))
			if err != nil || !tc.key.Alg.named(h.alg) {
				t.Fatalf("%q: %v", h.alg, err)
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

// RFC 9864 names EdDSA with Ed25519 by the curve.
func TestEd25519ByItsOwnName(t *testing.T) {
	s := signers(t)
	v := verifierOf(t, VerifierConfig{}, publicKeys(t, s)...)
	for _, alg := range []Alg{EdDSA, RS256, ES256} {
		enc := base64.RawURLEncoding.EncodeToString
		in := enc([]byte(`{"alg":"Ed25519","kid":"`+s[alg].KID+`"}`)) + "." + enc([]byte(`{"sub":"a","exp":1900000000}`))
		k := s[alg]
		sig := must(k.sign(alg, []byte(in)))
		want := map[bool]string{true: "accepted", false: "algorithm"}[alg == EdDSA]
		if _, err := v.Verify([]byte(in+"."+enc(sig)), now); reasonOf(err) != want {
			t.Errorf("%s: %v, want %s", alg, err, want)
		}
	}
}

// Whatever header and claims are signed: what is accepted here, the other library accepts, too, and reads the same user in it.
func FuzzAgainstAnotherLibrary(f *testing.F) {
	v := verifierOf(f, VerifierConfig{}, hsKey(f))
	f.Add(`{"alg":"HS256","kid":"hs"}`, `{"sub":"a","exp":1900000000,"aud":"x","nbf":1.5,"iat":0}`)
	f.Add(`{"alg":"HS256","kid":"hs","typ":"JWT"}`, `{"sub":"\u00e4\"\\","exp":19e8,"tags":["a","b*"],"x":{"y":[1e999,null]}}`)
	f.Add(`{"alg":"none","kid":"hs"}`, `{}`)
	f.Fuzz(func(t *testing.T, head, body string) {
		tok := signed(t, head, body)
		got, err := v.Verify([]byte(tok), now)
		if err != nil {
			return
		}
		theirs, err := jwt.Parse(tok, func(*jwt.Token) (any, error) { return secret, nil }, jwt.WithTimeFunc(func() time.Time { return now }),
			jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired(), jwt.WithJSONNumber())
		if err != nil {
			t.Fatalf("accepted, but the other library says %v", err)
		}
		if sub, err := theirs.Claims.GetSubject(); err != nil || sub != got.User {
			t.Fatalf("the user reads as %q, by the other library as %q, %v", got.User, sub, err)
		}
		if exp, err := theirs.Claims.GetExpirationTime(); err != nil || exp.Unix() != got.Expires.Unix() && got.Expires.Unix() != lastDate {
			t.Fatalf("exp reads as %v, by the other library as %v, %v", got.Expires, exp, err)
		}
	})
}
