package api

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klinkio/klink/svc/presence"
	"github.com/klinkio/klink/svc/push"
)

// Endpoint is where devices dial.
type Endpoint struct {
	Transport string // tcp, tls, ws, wss
	URL       string
}

// Check is one named part of readiness. Func returns what is missing; it must not wait long.
type Check struct {
	Name string
	Func func(ctx context.Context) error
}

// Config is what a server is made of. Push, Presence and Keys are needed.
type Config struct {
	Push      *push.Service
	Presence  *presence.Service
	Keys      Keys
	Endpoints func() []Endpoint      // nil: none
	Ready     []Check                // for /readyz
	Registry  *prometheus.Registry   // gets the server's metrics and is served at /metrics; nil: neither
	Hosts     []string               // names that the Host header may have, without port; empty: any
	Page      fs.FS                  // files of the page at /; nil: none
	PageJSON  func() ([]byte, error) // made anew for each GET /demo/config.json; nil: there is none
	Log       *slog.Logger           // audit and defects; nil: discarded
}

// Server is the HTTP API. Use [New].
type Server struct {
	push      *push.Service
	presence  *presence.Service
	keys      Keys
	endpoints func() []Endpoint
	ready     []Check
	hosts     map[string]bool
	log       *slog.Logger
	handler   http.Handler
	metrics   *metrics
	calls     callPool
	idPrefix  string
	requests  atomic.Uint64
	draining  atomic.Bool
}

// New makes a server.
func New(cfg Config) (*Server, error) {
	if cfg.Push == nil || cfg.Presence == nil || cfg.Keys == nil {
		return nil, errors.New("api: no push, no presence or no API keys")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		push: cfg.Push, presence: cfg.Presence, keys: cfg.Keys, endpoints: cfg.Endpoints, ready: cfg.Ready, log: cfg.Log,
		idPrefix: newIDPrefix(),
	}
	for _, h := range cfg.Hosts {
		if s.hosts == nil {
			s.hosts = make(map[string]bool)
		}
		s.hosts[strings.ToLower(h)] = true
	}
	var err error
	if s.metrics, err = newMetrics(cfg.Registry); err != nil {
		return nil, err
	}
	s.handler = s.routes(&cfg)
	return s, nil
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Drain makes /readyz say no, so that a balancer sends nobody any more. Requests are still served.
func (s *Server) Drain() { s.draining.Store(true) }

// Limits of a connection to the API.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10
)

// HTTP makes a server with the limits of the API around it. The caller gives it a listener and shuts it down.
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		Handler: s, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}
