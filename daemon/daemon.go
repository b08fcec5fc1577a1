package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klinkio/klink/config"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/crypto/tls13"
	"github.com/klinkio/klink/fe"
	"github.com/klinkio/klink/svc/api"
	"github.com/klinkio/klink/svc/presence"
	"github.com/klinkio/klink/svc/push"
)

// Options is what a process is made of besides its configuration.
type Options struct {
	Config  *config.Loaded
	Log     *slog.Logger
	Level   *slog.LevelVar // of Log; Reload sets it. May be nil
	Version string
	Page    fs.FS      // at / of the API; nil: none
	Dev     *DevFolder // development: its certificate, token key, API key and page configuration; nil in production
}

// Process is one running klink. Make it by Start.
type Process struct {
	cfg     config.Config
	log     *slog.Logger
	level   *slog.LevelVar
	version string
	dev     *DevFolder

	store    *crux.Embedded
	tokens   *tokenKeys
	apiKeys  keyring
	cert     certificate
	origins  atomic.Pointer[originSet]
	push     *push.Service
	presence *presence.Service
	node     *fe.Node
	api      *api.Server
	hot      *api.Hot // nil where net/http serves all of the API
	registry *prometheus.Registry

	apiListener   net.Listener
	adminListener net.Listener
	endpoints     []api.Endpoint

	ready    atomic.Bool // the service manager was told
	kill     context.CancelFunc
	killed   context.Context
	reloadMu sync.Mutex // guards cfg after Start
}

// Start opens and binds everything that the configuration names. Run must follow, or Close.
func Start(ctx context.Context, o Options) (*Process, error) {
	p := &Process{cfg: o.Config.Config, log: o.Log, level: o.Level, version: o.Version, dev: o.Dev}
	p.killed, p.kill = context.WithCancel(context.Background())
	if err := p.start(ctx, &o); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Process) start(ctx context.Context, o *Options) error {
	tuneRuntime(o.Config, p.log)
	if p.cfg.TLS.Engine == "loop" && p.servesTLS() {
		if err := tls13.SelfTest(); err != nil {
			return fmt.Errorf("tls.engine loop does not work here, set tls.engine to stdlib: %w", err)
		}
	}
	var err error
	if p.store, err = crux.NewEmbedded(crux.EmbeddedConfig{Path: p.cfg.Crux.Path, KeepLastSeen: p.cfg.Crux.KeepLastSeen.Std()}); err != nil {
		return fmt.Errorf("open the user state: %w", err)
	}
	if p.cfg.Crux.Path == "" && p.dev == nil {
		p.log.Warn("crux.path is empty: revocations and tags set by back ends are in memory only and end with this process")
	}
	if p.tokens, err = newTokenKeys(ctx, &p.cfg.Auth, p.dev, p.log); err != nil {
		return err
	}
	if err = p.apiKeys.load(&p.cfg.Auth, p.dev); err != nil {
		return err
	}
	if p.servesTLS() {
		if err = p.cert.load(&p.cfg.TLS, p.dev); err != nil {
			return err
		}
	}
	// The API is bound before the front end: its port is in the origins that may connect.
	if p.apiListener, err = bind("api.listen", p.cfg.API.Listen); err != nil {
		return err
	}
	if p.cfg.Admin.Listen != "" {
		if p.adminListener, err = bind("admin.listen", p.cfg.Admin.Listen); err != nil {
			return err
		}
	}
	return p.startServices(ctx, o)
}

func (p *Process) startServices(ctx context.Context, o *Options) error {
	fes := new(ownFrontEnd)
	var err error
	if p.push, err = push.New(push.Config{Store: p.store, Directory: (*pushDirectory)(fes), Timeout: p.cfg.API.Timeout.Std()}); err != nil {
		return err
	}
	p.presence, err = presence.New(presence.Config{Store: p.store, Directory: (*presenceDirectory)(fes), Timeout: p.cfg.API.Timeout.Std()})
	if err != nil {
		return err
	}
	if err := p.listen(ctx); err != nil {
		return err
	}
	fes.push, fes.presence = []push.FrontEnd{p.node}, []presence.FrontEnd{p.node}
	p.registry = newRegistry(p)
	p.api, err = api.New(api.Config{
		Push: p.push, Presence: p.presence, Keys: &p.apiKeys, Endpoints: func() []api.Endpoint { return p.endpoints },
		Ready:    []api.Check{{Name: "front_end", Func: func(context.Context) error { return p.node.Ready() }}},
		Registry: p.registry, Hosts: p.apiHosts(), Page: o.Page, Log: p.log,
	})
	if err != nil {
		return err
	}
	if p.hot, err = p.api.Hot(p.apiListener); err != nil {
		return fmt.Errorf("api: %w", err)
	}
	return nil
}

// Close frees what Start opened. It is for a process that does not run.
func (p *Process) Close() {
	if p.hot != nil {
		_ = p.hot.Close()
	}
	for _, l := range []net.Listener{p.apiListener, p.adminListener} {
		if l != nil {
			_ = l.Close() // nothing was served on it
		}
	}
	if p.node != nil {
		// A node that was bound and never ran frees its sockets by running under a context that has ended.
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.node.Run(ended)
	}
	if p.push != nil {
		p.push.Close()
	}
	if p.store != nil {
		_ = p.store.Close() // nothing was written
	}
	p.kill()
}

// Addresses are where a process listens.
type Addresses struct {
	Devices   []net.Addr
	API       net.Addr
	Admin     net.Addr // nil: none
	Endpoints []api.Endpoint
}

// Addresses are the bound addresses, and the endpoints that clients are told.
func (p *Process) Addresses() Addresses {
	a := Addresses{Devices: p.node.Addrs(), API: p.apiListener.Addr(), Endpoints: p.endpoints}
	if p.adminListener != nil {
		a.Admin = p.adminListener.Addr()
	}
	return a
}

// Sessions counts the live sessions.
func (p *Process) Sessions() int { return p.node.Sessions().Sessions() }

// ownFrontEnd is the front end of the same process; its lists are set once, before anything is served.
type ownFrontEnd struct {
	push     []push.FrontEnd
	presence []presence.FrontEnd
}

type pushDirectory ownFrontEnd

func (d *pushDirectory) FrontEnds() []push.FrontEnd { return d.push }

type presenceDirectory ownFrontEnd

func (d *presenceDirectory) FrontEnds() []presence.FrontEnd { return d.presence }

// apiHandler is the API, in development with the page's configuration.
func (p *Process) apiHandler() http.Handler {
	if p.dev == nil {
		return p.api
	}
	return p.withDemo(p.api)
}

var errNothingTLS = errors.New("tls.cert and tls.key are not set; without them only plain connections could be served, which fe.insecure must allow")
