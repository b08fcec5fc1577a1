package daemon

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/config"
)

func TestDevFolderIsStableAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "dev")
	now := time.Now()
	// Several processes at once agree on the secret.
	folders := make([]*DevFolder, 8)
	var wg sync.WaitGroup
	for i := range folders {
		wg.Go(func() {
			d, err := OpenDev(path, now)
			if err != nil {
				t.Error(err)
			}
			folders[i] = d
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	again, err := OpenDev(path, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range folders {
		if !bytes.Equal(d.secret, again.secret) {
			t.Error("two processes have different secrets")
		}
	}
	err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		if err == nil && !e.IsDir() && e.Name() != "secret" && e.Name() != "cert.pem" {
			t.Errorf("%s was left behind", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	serial := func(d *DevFolder, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return d.cert.Leaf.SerialNumber.String()
	}
	first := serial(OpenDev(path, now))
	if got := serial(OpenDev(path, now.Add(100*24*time.Hour))); got != first {
		t.Error("a good certificate was replaced")
	}
	named := serial(OpenDev(path, now, "dev.example"))
	if named == first {
		t.Error("the certificate lacks a host that was asked for")
	}
	if got := serial(OpenDev(path, now.Add(devValidity-time.Hour))); got == named {
		t.Error("a certificate that soon ends was kept")
	}
	if err := os.WriteFile(filepath.Join(path, "secret"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDev(path, now); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("a damaged secret: %v", err)
	}
}

func TestSigningKey(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	private, public := write("private.pem", "PRIVATE KEY", der), write("public.pem", "PUBLIC KEY", pub)
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &config.Auth{Keys: []config.TokenKey{
		{KID: "check", Alg: "ES256", PublicKeyFile: public},
		{KID: "es", Alg: "ES256", PublicKeyFile: public, SigningFile: private},
		{KID: "hs", Alg: "HS256", SecretFile: secret},
	}}
	keys, err := readTokenKeys(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := auth.NewVerifier(auth.VerifierConfig{}, keys)
	if err != nil {
		t.Fatal(err)
	}
	for ask, want := range map[string]string{"": "es", "hs": "hs", "es": "es"} {
		k, err := SigningKey(c, ask)
		if err != nil || k.KID != want {
			t.Errorf("%q: got %q, %v, want %q", ask, k.KID, err, want)
			continue
		}
		token, err := auth.Mint(k, auth.Claims{User: "bob", Issued: time.Now(), Expires: time.Now().Add(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify([]byte(token), time.Now()); err != nil {
			t.Errorf("%q: the token is refused: %v", ask, err)
		}
	}
	for _, kid := range []string{"check", "none"} {
		if _, err := SigningKey(c, kid); err == nil || !strings.Contains(err.Error(), kid) {
			t.Errorf("%q: %v", kid, err)
		}
	}
	wrong := &config.Auth{Keys: []config.TokenKey{{KID: "a", Alg: "RS256", PublicKeyFile: public}}}
	if _, err := readTokenKeys(wrong, nil); err == nil || !strings.Contains(err.Error(), "alg is RS256") {
		t.Errorf("a key of another algorithm: %v", err)
	}
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, make([]byte, maxKeyFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readBounded(big); err == nil {
		t.Error("a file that is too large was read")
	}
}

func TestContainerLimit(t *testing.T) {
	root := t.TempDir()
	self := filepath.Join(root, "self")
	put := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := containerLimit(root, self); got != 0 {
		t.Errorf("without control groups: %d", got)
	}
	put("self", "0::/a/b\n")
	put("a/b/memory.max", "max\n")
	if got := containerLimit(root, self); got != 0 {
		t.Errorf("without a limit: %d", got)
	}
	put("a/memory.max", "5000\n")
	if got := containerLimit(root, self); got != 5000 {
		t.Errorf("limit of the parent: %d", got)
	}
	put("a/b/memory.max", "3000\n")
	if got := containerLimit(root, self); got != 3000 {
		t.Errorf("the lowest counts: %d", got)
	}
	put("self", "0::/../../a/b\n")
	if got := containerLimit(root, self); got != 3000 {
		t.Errorf("a path that points above: %d", got)
	}
}

func TestNotify(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := notify("READY=1"); err != nil {
		t.Errorf("without a manager: %v", err)
	}
	for _, name := range []string{filepath.Join(t.TempDir(), "sock"), "@klink-notify-" + filepath.Base(t.TempDir()) + t.Name()} {
		real := name
		if name[0] == '@' {
			real = "\x00" + name[1:]
		}
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: real, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("NOTIFY_SOCKET", name)
		if err := notify("READY=1\nSTATUS=x"); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64)
		n, err := l.Read(buf)
		if err != nil || string(buf[:n]) != "READY=1\nSTATUS=x" {
			t.Errorf("%s: got %q, %v", name, buf[:n], err)
		}
		l.Close()
		if err := notify("READY=1"); err == nil {
			t.Errorf("%s: nobody listens and nobody is told", name)
		}
	}
}

func TestOrigins(t *testing.T) {
	tests := []struct {
		list         string
		origin, host string
		want         bool
	}{
		{"[]", "https://a.example", "a.example", true},
		{"[]", "https://a.example:8443", "a.example:8443", true},
		{"[]", "https://b.example", "a.example", false},
		{"[]", "null", "a.example", false},
		{"[https://b.example/]", "https://B.example", "a.example", true},
		{"[https://b.example]", "http://b.example", "a.example", false},
		{"[https://b.example]", "https://a.example", "a.example", false},
		{"['*']", "null", "a.example", true},
	}
	for _, tc := range tests {
		p := &Process{cfg: options(t, map[string]string{"fe.origins": tc.list}).Config.Config}
		p.setOrigins()
		if got := p.origin(tc.origin, tc.host); got != tc.want {
			t.Errorf("%s, origin %s of host %s: %v, want %v", tc.list, tc.origin, tc.host, got, tc.want)
		}
	}
}
