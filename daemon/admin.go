package daemon

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of the admin address; a profile takes as long as it was asked to.
const (
	adminHeaderTimeout = 5 * time.Second
	adminIdleTimeout   = time.Minute
)

// adminServer serves operators: metrics, profiles, build information, readiness.
func (p *Process) adminServer() *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", p.health)
	mux.HandleFunc("GET /readyz", p.health)
	mux.HandleFunc("GET /buildinfo", p.buildInfo)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return &http.Server{Handler: mux, ReadHeaderTimeout: adminHeaderTimeout, IdleTimeout: adminIdleTimeout}
}

// health asks the API, under one of its own names: a prober dials an address.
func (p *Process) health(w http.ResponseWriter, r *http.Request) {
	if hosts := p.apiHosts(); len(hosts) > 0 {
		r = r.Clone(r.Context())
		r.Host = hosts[0]
	}
	p.api.ServeHTTP(w, r)
}

func (p *Process) buildInfo(w http.ResponseWriter, _ *http.Request) {
	out := map[string]any{"version": p.version}
	if b, ok := debug.ReadBuildInfo(); ok {
		out["go"] = b.GoVersion
		deps := make(map[string]string, len(b.Deps))
		for _, d := range b.Deps {
			deps[d.Path] = d.Version
		}
		out["modules"] = deps
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // an error means that the reader has left
}
