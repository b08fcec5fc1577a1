package loadtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/fe/netloop"
	"github.com/klinkio/klink/proto/frame"
)

// What the server and the load agree on. It protects nothing: the servers live for one run, on loopback.
const (
	hsKID    = "bench-hs"
	hsSecret = "a-secret-of-the-load-test-that-guards-nothing-at-all"
	esKID    = "bench-es"
	apiKey   = "bench-key"
	alpn     = netloop.ALPN
)

// Identifiers as the budget has them: 16 bytes, tags 24.
func userID(n int) string   { return fmt.Sprintf("user-%011d", n) }
func deviceID(n int) string { return fmt.Sprintf("dev-%012d", n) }
func ownTag(n int) string   { return fmt.Sprintf("own:%020d", n) }

// commonTag is carried by every session.
const commonTag = "common:00000000000000001"

// payloadBytes is the size of a push's payload.
const payloadBytes = 100

// pushFrame is a push as a device gets it, with its length, of the size that klink's own have.
func pushFrame() []byte {
	body := frame.AppendPush(nil, samplePush(), commonTag)
	return frame.AppendStream(nil, body)
}

// identity is the files with which servers and clients know each other, in one folder.
type identity struct{ cert, key string }

// newIdentity makes a P-256 key and its certificate. The key also signs ES256 tokens; its public half is beside it, with .pub.
func newIdentity(dir string) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "klink load test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	id := &identity{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	err = errors.Join(writePEM(id.cert, "CERTIFICATE", der), writePEM(id.key, "PRIVATE KEY", private), writePEM(id.key+".pub", "PUBLIC KEY", public))
	return id, err
}

func writePEM(name, kind string, der []byte) error {
	return os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// signer makes the tokens of a swarm.
func signer(alg, keyFile string) (auth.SigningKey, error) {
	if alg != string(auth.ES256) {
		return auth.SigningKey{KID: hsKID, Secret: []byte(hsSecret)}, nil
	}
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return auth.SigningKey{}, err
	}
	s, err := auth.ParsePrivatePEM(text)
	return auth.SigningKey{KID: esKID, Signer: s}, err
}
