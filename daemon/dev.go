package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/klinkio/klink/auth"
)

// DevAPIKey is the API key in development.
const DevAPIKey = "dev"

const (
	devKID      = "dev"
	devSecret   = 32 // bytes
	devValidity = 365 * 24 * time.Hour
	devRenew    = 7 * 24 * time.Hour // a certificate that ends sooner is made anew
)

// DevFolder is what development keeps for one user of the machine: a certificate with its key, and the secret of tokens. Its files are
// readable by that user only.
type DevFolder struct {
	Path   string
	secret []byte
	cert   tls.Certificate
}

// DefaultDevPath is the folder in the user's cache.
func DefaultDevPath() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for the development certificate, set HOME or XDG_CACHE_HOME: %w", err)
	}
	return filepath.Join(cache, "klink", "dev"), nil
}

// OpenDev reads the folder and makes what is missing. The certificate is for loopback and the hosts given.
func OpenDev(path string, now time.Time, hosts ...string) (*DevFolder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("development folder: %w", err)
	}
	d := &DevFolder{Path: path}
	var err error
	if d.secret, err = d.once("secret", func() ([]byte, error) {
		b := make([]byte, devSecret)
		_, err := rand.Read(b)
		return b, err
	}); err != nil {
		return nil, err
	}
	if len(d.secret) != devSecret {
		return nil, fmt.Errorf("%s does not hold %d bytes: remove it", filepath.Join(path, "secret"), devSecret)
	}
	if d.cert, err = tls.LoadX509KeyPair(d.file("cert.pem"), d.file("cert.pem")); err == nil && good(d.cert.Leaf, now, hosts) {
		return d, nil
	}
	text, err := devCertificate(now, hosts)
	if err != nil {
		return nil, fmt.Errorf("make the development certificate: %w", err)
	}
	if err := d.replace("cert.pem", text); err != nil {
		return nil, err
	}
	d.cert, err = tls.LoadX509KeyPair(d.file("cert.pem"), d.file("cert.pem"))
	return d, err
}

// Roots trusts the development certificate.
func (d *DevFolder) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(d.cert.Leaf)
	return pool
}

// SigningKey makes tokens that a development server accepts.
func (d *DevFolder) SigningKey() auth.SigningKey {
	return auth.SigningKey{KID: devKID, Secret: d.secret}
}

func (d *DevFolder) file(name string) string { return filepath.Join(d.Path, name) }

// once reads a file, or makes it; of several processes that make it at the same time the first one wins.
func (d *DevFolder) once(name string, fresh func() ([]byte, error)) ([]byte, error) {
	b, err := os.ReadFile(d.file(name))
	if !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if b, err = fresh(); err != nil {
		return nil, err
	}
	tmp, err := d.temporary(name, b)
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp)
	if err := os.Link(tmp, d.file(name)); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("development folder: %w", err)
	}
	return os.ReadFile(d.file(name))
}

// replace writes a file so that readers see the old or the new one.
func (d *DevFolder) replace(name string, b []byte) error {
	tmp, err := d.temporary(name, b)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, d.file(name)); err != nil {
		_ = os.Remove(tmp) // the error that counts is the rename's
		return fmt.Errorf("development folder: %w", err)
	}
	return nil
}

// temporary writes a file that only the user can read.
func (d *DevFolder) temporary(name string, b []byte) (string, error) {
	f, err := os.CreateTemp(d.Path, name+".*") // mode 0600
	if err != nil {
		return "", fmt.Errorf("development folder: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name()) // the error that counts is the write's
		return "", fmt.Errorf("development folder: %w", err)
	}
	return f.Name(), nil
}

// good reports whether the certificate will do for a while.
func good(leaf *x509.Certificate, now time.Time, hosts []string) bool {
	if now.Before(leaf.NotBefore) || now.Add(devRenew).After(leaf.NotAfter) {
		return false
	}
	for _, h := range append([]string{"localhost", "127.0.0.1", "::1"}, hosts...) {
		if leaf.VerifyHostname(h) != nil {
			return false
		}
	}
	return true
}

// devCertificate makes a key and a certificate that it signs itself, both in PEM.
func devCertificate(now time.Time, hosts []string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "klink development"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(devValidity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})...), nil
}
