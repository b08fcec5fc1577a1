package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func mustRead(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
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
		ES256: {"ecparam", "-genkey", "-name", "prime256v1"}, // with a block EC PARAMETERS before the key
		EdDSA: {"genpkey", "-algorithm", "ED25519"},
	} {
		t.Run(string(alg), func(t *testing.T) {
			private, public := filepath.Join(dir, string(alg)+".key"), filepath.Join(dir, string(alg)+".pub")
			run(append(gen, "-out", private)...)
			run("pkey", "-in", private, "-pubout", "-out", public)
			signer, err := ParsePrivatePEM(mustRead(t, private))
			if err != nil {
				t.Fatal(err)
			}
			k, err := ParsePublicPEM("k", mustRead(t, public))
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

func TestHugeKeysAreRefused(t *testing.T) {
	n := new(big.Int).Lsh(big.NewInt(1), maxRSA) // one bit too long
	if _, err := NewPublicKey("k", &rsa.PublicKey{N: n, E: 65537}); err == nil {
		t.Error("an RSA key whose checks take forever is accepted")
	}
}

func TestPEMThatIsNoKey(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "text": "hello", "parameters only": "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n",
		"other type": "-----BEGIN DH PARAMETERS-----\nAAAA\n-----END DH PARAMETERS-----\n",
		"bad body":   "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "bad key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
	} {
		if k, err := ParsePublicPEM("k", []byte(text)); err == nil {
			t.Errorf("%s: public key %+v", name, k)
		}
		if _, err := ParsePrivatePEM([]byte(text)); err == nil {
			t.Errorf("%s: a private key", name)
		}
	}
}

// A signer that holds its key elsewhere, as a security module does.
type remoteSigner struct{ crypto.Signer }

type wrongSigner struct{ remoteSigner }

func (wrongSigner) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return []byte{0x30, 0}, nil
}

func TestMintWithARemoteSigner(t *testing.T) {
	s := signers(t)
	v := verifierOf(t, VerifierConfig{}, publicKeys(t, s)...)
	for _, alg := range []Alg{RS256, ES256, EdDSA} {
		tok := mint(t, SigningKey{KID: s[alg].KID, Signer: remoteSigner{s[alg].Signer}}, claims())
		if _, err := v.Verify([]byte(tok), now); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
	}
}

func TestMintRefusesWeakKeys(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]SigningKey{
		"none": {}, "short secret": {Secret: secret[:31]}, "P-384": {Signer: p384}, "broken signer": {Signer: wrongSigner{remoteSigner{signers(t)[ES256].Signer}}},
	} {
		if tok, err := Mint(key, Claims{User: "a", Expires: time.Unix(1, 0)}); err == nil {
			t.Errorf("%s: made %s", name, strings.Repeat("*", len(tok)))
		}
	}
}
