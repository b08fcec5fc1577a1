package interop

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/config"
	"github.com/klinkio/klink/daemon"
	"github.com/klinkio/klink/web"
)

// process is a klink in development mode on free ports.
type process struct {
	api   string
	urls  map[string]string // by transport
	ca    string            // file
	token string
}

func start(t *testing.T, host string, flags map[string]string) *process {
	t.Helper()
	dev, err := daemon.OpenDev(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"fe.listen": "['" + host + ":0']", "fe.insecure": "true", "api.listen": host + ":0", "admin.listen": "", "log.level": "warn", "drain.per_second": "10000", "drain.spread": "1ms",
	}
	maps.Copy(all, flags)
	cfg, err := config.Load("", nil, all)
	if err != nil {
		t.Fatal(err)
	}
	log, level := daemon.NewLog(&cfg.Config.Log, os.Stderr)
	p, err := daemon.Start(t.Context(), daemon.Options{Config: cfg, Log: log, Level: level, Version: "test", Page: web.Files(), Dev: dev})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	a := p.Addresses()
	out := &process{api: "http://" + a.API.String(), urls: make(map[string]string), ca: filepath.Join(dev.Path, "cert.pem")}
	for _, e := range a.Endpoints {
		out.urls[e.Transport] = e.URL
	}
	out.token, err = auth.Mint(dev.SigningKey(), auth.Claims{
		User: "interop", Issued: time.Now(), Expires: time.Now().Add(time.Hour), Subscribe: []string{"room:*"}, Publish: []string{"room:*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// node runs one of the scripts; it says ok, or why not.
func node(t *testing.T, script string, args ...string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join("node", "node_modules")); err != nil {
		t.Fatal("the npm packages are not installed: run make setup")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{script}, args...)...)
	cmd.Dir = "node"
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

func hostPort(url string) (host, port string) {
	rest := url[strings.Index(url, "://")+3:]
	rest, _, _ = strings.Cut(rest, "/")
	i := strings.LastIndexByte(rest, ':')
	return strings.Trim(rest[:i], "[]"), rest[i+1:]
}

var hosts = []string{"127.0.0.1", "[::1]"}

func TestNodeTLS(t *testing.T) {
	for _, engine := range []string{"loop", "stdlib"} {
		for _, h := range hosts {
			t.Run(engine+" "+h, func(t *testing.T) {
				p := start(t, h, map[string]string{"tls.engine": engine, "fe.handshake_loops": "2"})
				host, port := hostPort(p.urls["tls"])
				node(t, "tls.mjs", host, port, p.ca, p.token)
			})
		}
	}
}

func TestNodeWebSocket(t *testing.T) {
	for _, h := range hosts {
		t.Run(h, func(t *testing.T) {
			p := start(t, h, nil)
			node(t, "ws.mjs", p.urls["ws"], p.urls["wss"], p.ca, p.token)
		})
	}
}

func TestBrowserClient(t *testing.T) {
	p := start(t, "127.0.0.1", nil)
	client, err := filepath.Abs("../../web/klink.js")
	if err != nil {
		t.Fatal(err)
	}
	node(t, "klinkjs.mjs", client, p.urls["ws"], p.token)
}

// Hours of a browser's client, with a clock of its own.
func TestBrowserClientOverHours(t *testing.T) {
	client, err := filepath.Abs("../../web/klink.js")
	if err != nil {
		t.Fatal(err)
	}
	node(t, "klinkjs_time.mjs", client)
}

func TestDemoPageInChromium(t *testing.T) {
	p := start(t, "127.0.0.1", nil)
	args := []string{p.api + "/", p.api}
	if dir := os.Getenv("KLINK_SCREENSHOTS"); dir != "" {
		args = append(args, filepath.Join(dir, "demo.png"))
	}
	node(t, "page.mjs", args...)
}

func TestChromiumOverTLS(t *testing.T) {
	for _, engine := range []string{"loop", "stdlib"} {
		t.Run(engine, func(t *testing.T) {
			p := start(t, "127.0.0.1", map[string]string{"tls.engine": engine})
			node(t, "pagewss.mjs", p.api+"/", p.urls["wss"], p.token)
		})
	}
}
