package daemon

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/config"
	"github.com/klinkio/klink/sdk/go"
)

// running is a process under test.
type running struct {
	*Process
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

// options are the flags of a process on free ports of loopback, with more of them.
func options(t *testing.T, more map[string]string) Options {
	t.Helper()
	flags := map[string]string{
		"fe.listen": "127.0.0.1:0", "fe.insecure": "true", "api.listen": "127.0.0.1:0", "admin.listen": "127.0.0.1:0",
		"drain.spread": "1s", "fe.loops": "2",
	}
	maps.Copy(flags, more)
	l, err := config.Load("", nil, flags)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Config: l, Log: slog.New(slog.DiscardHandler), Version: "test"}
}

func devFolder(t *testing.T) *DevFolder {
	t.Helper()
	d, err := OpenDev(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func start(t *testing.T, o Options) *running {
	t.Helper()
	p, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Process: p, t: t, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- p.Run(ctx) }()
	t.Cleanup(r.end)
	return r
}

// end drains, and waits; a second call does nothing.
func (r *running) end() {
	r.stop()
	err, ok := <-r.done
	if ok {
		close(r.done)
	}
	if err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

// device is a client of the process; what it hears goes to channels.
type device struct {
	*sdk.Client
	status chan sdk.Status
	pushes chan sdk.Push
}

func (r *running) device(d *DevFolder, transport, user string, roots *tls.Config) *device {
	r.t.Helper()
	dev := &device{status: make(chan sdk.Status, 64), pushes: make(chan sdk.Push, 64)}
	var err error
	dev.Client, err = sdk.Dial(r.t.Context(), sdk.Config{
		Endpoints: []string{r.endpoint(transport)}, TLS: roots, Tags: []string{"room:1"},
		Token: func(context.Context, sdk.TokenReason) (string, error) {
			now := time.Now()
			return auth.Mint(d.SigningKey(), auth.Claims{User: user, Issued: now, Expires: now.Add(time.Hour), Subscribe: []string{"*"}, Publish: []string{"*"}})
		},
		Handler: &sdk.Callbacks{Status: func(s *sdk.Status) { dev.status <- *s }, Push: func(p *sdk.Push) { dev.pushes <- *p }},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = dev.Close(); <-dev.Done() })
	return dev
}

// call is a request to the API.
func (r *running) call(method, path, key, body string) (int, string) {
	r.t.Helper()
	return get(r.t, r.Addresses().API, method, path, key, body, "")
}

func get(t *testing.T, at net.Addr, method, path, key, body, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+at.String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b.String()
}

func TestEveryTransportThroughOneProcess(t *testing.T) {
	for _, engine := range []string{"loop", "stdlib"} {
		t.Run(engine, func(t *testing.T) {
			o := options(t, map[string]string{"tls.engine": engine})
			o.Dev = devFolder(t)
			r := start(t, o)
			for _, transport := range []string{"tcp", "tls", "ws", "wss"} {
				d := r.device(o.Dev, transport, "user-"+transport, &tls.Config{RootCAs: o.Dev.Roots()})
				code, body := r.call("POST", "/v1/push", DevAPIKey, `{"to":{"users":["user-`+transport+`"]},"data":{"a":1}}`)
				if code != 200 || !strings.Contains(body, `"enqueued":1`) {
					t.Fatalf("%s: %d %s", transport, code, body)
				}
				if p := <-d.pushes; string(p.Payload.Data) != `{"a":1}` {
					t.Errorf("%s: got %q", transport, p.Payload.Data)
				}
				// A client publishes, and hears itself, as it carries the tag.
				if _, err := d.Publish(t.Context(), sdk.Publication{Tag: "room:1", Payload: klink.Payload{Kind: klink.DataText, Data: []byte(transport)}}); err != nil {
					t.Fatal(err)
				}
				if p := <-d.pushes; string(p.Payload.Data) != transport || p.From != "user-"+transport {
					t.Errorf("%s: got %q from %q", transport, p.Payload.Data, p.From)
				}
			}
			if n := r.Sessions(); n != 4 {
				t.Errorf("%d sessions, want 4", n)
			}
			if code, body := r.call("GET", "/v1/endpoints", DevAPIKey, ""); code != 200 || !strings.Contains(body, r.endpoint("wss")) {
				t.Errorf("endpoints: %d %s", code, body)
			}
		})
	}
}

func TestDrainTellsClientsAndEnds(t *testing.T) {
	o := options(t, nil)
	o.Dev = devFolder(t)
	r := start(t, o)
	d := r.device(o.Dev, "tcp", "bob", nil)
	r.end()
	for s := range d.status {
		if s.State != sdk.StateWaiting {
			continue
		}
		var de *sdk.DisconnectError
		if !errors.As(s.Err, &de) || de.Code != klink.DisconnectShutdown || !de.Retry {
			t.Errorf("the client was told %v, want shutdown with retry", s.Err)
		}
		break
	}
	if _, err := net.Dial("tcp", r.Addresses().API.String()); err == nil {
		t.Error("the API still listens")
	}
}

// The certificate and the keys change while a session lives.
func TestReloadUnderALiveConnection(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	fresh := func() []byte {
		b, err := devCertificate(time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	cert := write("cert.pem", fresh())
	keyFile := write("api.key", []byte("old-key\n"))
	flags := map[string]string{
		"tls.cert": cert, "tls.key": cert,
		"auth.api_keys": `[{name: back, key_file: '` + keyFile + `', scopes: [push]}]`,
	}
	o := options(t, flags)
	o.Dev = devFolder(t)
	r := start(t, o)
	insecure := &tls.Config{InsecureSkipVerify: true} // the test compares serial numbers itself
	d := r.device(o.Dev, "tls", "bob", insecure)
	serial := func() string {
		c, err := tls.Dial("tcp", r.Addresses().Devices[0].String(), insecure)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()

	write("cert.pem", fresh())
	write("api.key", []byte("new-key"))
	flags["sessions.max_tags"], flags["fe.origins"], flags["log.level"] = "5", "[https://a.example]", "debug"
	taken, restart, err := r.Reload(options(t, flags).Config)
	if err != nil || strings.Join(taken, " ") != "log.level fe.origins" || strings.Join(restart, " ") != "sessions.max_tags" {
		t.Errorf("taken %v, restart %v, %v", taken, restart, err)
	}
	if serial() == before {
		t.Error("new handshakes get the old certificate")
	}
	if code, _ := r.call("POST", "/v1/push", "old-key", `{"to":{"all":true},"data":1}`); code != 401 {
		t.Errorf("the old key: %d, want 401", code)
	}
	if code, body := r.call("POST", "/v1/push", "new-key", `{"to":{"users":["bob"]},"data":1}`); code != 200 || !strings.Contains(body, `"enqueued":1`) {
		t.Errorf("the new key: %d %s", code, body)
	}
	<-d.pushes // on the connection from before

	// What can't be read leaves the old in force.
	write("cert.pem", []byte("nothing"))
	good := serial()
	flags["tls.key"] = keyFile
	if taken, _, err := r.Reload(options(t, flags).Config); err == nil || !strings.Contains(err.Error(), "tls.cert") || len(taken) > 0 {
		t.Errorf("a broken certificate: %v, taken %v", err, taken)
	}
	if serial() != good {
		t.Error("the certificate in force was lost")
	}
}

func TestWhatIsWrongShowsBeforeAnythingServes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := []struct {
		name  string
		flags map[string]string
		dev   bool
		want  string
	}{
		{"taken device port", map[string]string{"fe.listen": taken.Addr().String()}, true, "fe.listen: another process listens on " + taken.Addr().String()},
		{"taken api port", map[string]string{"api.listen": taken.Addr().String()}, true, "api.listen: another process"},
		{"taken admin port", map[string]string{"admin.listen": taken.Addr().String()}, true, "admin.listen: another process"},
		{"no keys", nil, false, "auth.keys and auth.jwks are empty"},
		{"no certificate", map[string]string{"fe.insecure": "false", "auth.keys": "[{kid: a, alg: HS256, secret: 0123456789abcdef0123456789abcdef}]"}, false, "tls.cert and tls.key are not set"},
		{"missing certificate", map[string]string{"tls.cert": "/nowhere/a", "tls.key": "/nowhere/b"}, true, "tls.cert, tls.key: open /nowhere/a"},
		{"missing secret", map[string]string{"auth.keys": "[{kid: a, alg: HS256, secret_file: /nowhere/s}]"}, false, `auth.keys: kid "a"`},
		{"short secret", map[string]string{"auth.keys": "[{kid: a, alg: HS256, secret: short}]"}, false, `auth.keys: kid "a"`},
		{"missing api key", map[string]string{"auth.api_keys": "[{name: a, key_file: /nowhere/k, scopes: [push]}]"}, true, "auth.api_keys: a"},
		{"missing key set", map[string]string{"auth.jwks": "/nowhere/j"}, true, "auth.jwks"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			o := options(t, tc.flags)
			if tc.dev {
				o.Dev = devFolder(t)
			}
			p, err := Start(t.Context(), o)
			if err == nil {
				p.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestAdminAndMetrics(t *testing.T) {
	o := options(t, map[string]string{"api.hosts": "api.example.com"})
	o.Dev = devFolder(t)
	r := start(t, o)
	r.device(o.Dev, "tcp", "bob", nil)
	admin := r.Addresses().Admin
	for _, path := range []string{"/livez", "/readyz", "/debug/pprof/", "/debug/pprof/cmdline"} {
		if code, body := get(t, admin, "GET", path, "", "", ""); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	code, body := get(t, admin, "GET", "/buildinfo", "", "", "")
	var info map[string]any
	if err := json.Unmarshal([]byte(body), &info); code != 200 || err != nil || info["version"] != "test" {
		t.Errorf("buildinfo: %d %s", code, body)
	}
	code, body = get(t, admin, "GET", "/metrics", "", "", "")
	for _, want := range []string{"klink_fe_sessions 1", `klink_fe_open{transport="tcp"} 1`, `klink_fe_logins_total{result="ok"} 1`, "klink_crux_users_online 1", `klink_build_info{go=`} {
		if code != 200 || !strings.Contains(body, want) {
			t.Errorf("metrics: %d, lacks %s", code, want)
		}
	}
	checkMetrics(t, r.Process)
	if code, _ := get(t, r.Addresses().API, "GET", "/readyz", "", "", "other.example.com"); code != http.StatusMisdirectedRequest {
		t.Errorf("the API under another host: %d, want 421", code)
	}
}

// checkMetrics holds names and labels against the rules: a prefix, base units, and no label with something of a user.
func checkMetrics(t *testing.T, p *Process) {
	t.Helper()
	families, err := p.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{
		"transport": true, "reason": true, "result": true, "kind": true, "limit": true, "code": true, "route": true, "key": true, "version": true, "go": true,
	}
	for _, f := range families {
		name := f.GetName()
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		if !strings.HasPrefix(name, "klink_") || f.GetHelp() == "" {
			t.Errorf("%s: prefix or help is missing", name)
		}
		if counter := f.GetType().String() == "COUNTER"; counter != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, f.GetType())
		}
		if len(f.GetMetric()) > 400 {
			t.Errorf("%s has %d series", name, len(f.GetMetric()))
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !allowed[l.GetName()] || l.GetValue() == "" {
					t.Errorf("%s has the label %s=%q", name, l.GetName(), l.GetValue())
				}
			}
		}
	}
}

func TestDemoConfigOnlyForThisMachine(t *testing.T) {
	o := options(t, nil)
	o.Dev = devFolder(t)
	r := start(t, o)
	ask := func(query, host string) (int, guest) {
		t.Helper()
		code, body := get(t, r.Addresses().API, "GET", "/demo/config.json"+query, "", "", host)
		var g guest
		if code == 200 {
			if err := json.Unmarshal([]byte(body), &g); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
		}
		return code, g
	}
	code, a := ask("", "")
	if code != 200 || !strings.HasPrefix(a.User, "guest-") || a.WS != r.endpoint("ws") || a.WSS != r.endpoint("wss") || a.APIKey != DevAPIKey {
		t.Errorf("got %d %+v", code, a)
	}
	claims, err := r.tokens.verifier.Verify([]byte(a.Token), time.Now())
	if err != nil || claims.User != a.User || !claims.Grants.CanPublish("room:x", []byte(a.User)) || claims.Grants.CanSubscribe("other", []byte(a.User)) {
		t.Errorf("the token says %+v, %v", claims, err)
	}
	if _, g := ask("?user=guest-1a2b", ""); g.User != "guest-1a2b" {
		t.Errorf("the user that was asked for became %q", g.User)
	}
	if _, g := ask("?user=%00", ""); !strings.HasPrefix(g.User, "guest-") {
		t.Errorf("a user that can't be became %q", g.User)
	}
	if code, _ := ask("", "evil.example:7080"); code != http.StatusMisdirectedRequest {
		t.Errorf("another host: %d, want 421", code)
	}
	for host, want := range map[string]bool{"http://127.0.0.1:1": false, "http://" + r.Addresses().API.String(): true, "https://evil.example": false} {
		if got := r.origin(host, "127.0.0.1:7443"); got != want {
			t.Errorf("origin %s: %v, want %v", host, got, want)
		}
	}

	prod := options(t, map[string]string{"auth.keys": "[{kid: a, alg: HS256, secret: 0123456789abcdef0123456789abcdef}]"})
	if code, _ := start(t, prod).call("GET", "/demo/config.json", "", ""); code != 404 {
		t.Errorf("outside of development: %d, want 404", code)
	}
}
