package daemon

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klinkio/klink/auth"
)

const someKey = "[{kid: a, alg: HS256, secret: 0123456789abcdef0123456789abcdef}]"

// A JWK set that is away stops the start only where nothing else could check a token; a wrong address always does.
func TestStartWhileTheJWKSetIsAway(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	defer away.Close()
	for _, tc := range []struct {
		jwks, keys, want string
	}{
		{away.URL, someKey, ""},
		{filepath.Join(t.TempDir(), "none"), someKey, ""},
		{away.URL, "[]", "auth.jwks: read JWK set: the source answers 404"},
		{"http://keys.example.com/", someKey, "not to be trusted"},
	} {
		var log bytes.Buffer
		o := options(t, map[string]string{"auth.jwks": tc.jwks, "auth.keys": tc.keys})
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		p, err := Start(t.Context(), o)
		if err != nil {
			if tc.want == "" || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s, keys %s: %v, want %q", tc.jwks, tc.keys, err, tc.want)
			}
			continue
		}
		token, err := auth.Mint(auth.SigningKey{KID: "a", Secret: []byte("0123456789abcdef0123456789abcdef")}, auth.Claims{User: "bob", Expires: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.tokens.verifier.Verify([]byte(token), time.Now()); err != nil {
			t.Errorf("%s: the configured key does not work: %v", tc.jwks, err)
		}
		if p.Close(); tc.want != "" || !strings.Contains(log.String(), "started without the JWK set") {
			t.Errorf("%s, keys %s: it started, want %q; log %s", tc.jwks, tc.keys, tc.want, log.String())
		}
	}
}

// A reload never leaves a process that no device can log in to.
func TestReloadKeepsTheLastKeys(t *testing.T) {
	o := options(t, map[string]string{"auth.keys": someKey})
	p, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	// The set would come into force by a restart only.
	next := options(t, map[string]string{"auth.jwks": "https://127.0.0.1/keys"}).Config
	taken, restart, err := p.Reload(next)
	if err == nil || !strings.Contains(err.Error(), "no auth.jwks is in force") || strings.Join(taken, " ") != "" || strings.Join(restart, " ") != "auth.jwks" {
		t.Errorf("taken %v, restart %v, %v", taken, restart, err)
	}
}

func TestRefusedKeysAndJWKSetInMetrics(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	defer away.Close()
	o := options(t, map[string]string{"auth.jwks": away.URL, "auth.keys": someKey})
	r := start(t, o)
	for i, key := range []string{"", "wrong", "wrong"} {
		if code, _ := r.call("POST", "/v1/push", key, `{"to":{"users":["bob"]},"data":1}`); code != 401 {
			t.Errorf("%q: %d", key, code)
		}
		if i == 1 { // counts outlive the set of keys
			if _, _, err := r.Reload(o.Config); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, body := get(t, r.Addresses().Admin, "GET", "/metrics", "", "", "")
	for _, want := range []string{
		`klink_auth_api_keys_refused_total{reason="missing"} 1`, `klink_auth_api_keys_refused_total{reason="unknown"} 2`,
		`klink_auth_jwks_reads_total{result="ok"} 0`, "klink_auth_jwks_keys 0", "klink_auth_jwks_read_timestamp_seconds 0",
		"klink_api_loop_requests_total 3", "klink_push_traces_forgotten_total 0",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(body, `klink_auth_jwks_reads_total{result="failed"} 0`) {
		t.Error("the reading that failed is not counted")
	}
	checkMetrics(t, r.Process)
}
