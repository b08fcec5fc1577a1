package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/klinkio/klink/config"
	"github.com/klinkio/klink/connmgr"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/crypto/tls13"
	"github.com/klinkio/klink/fe"
	"github.com/klinkio/klink/fe/netloop"
	"github.com/klinkio/klink/svc/api"
)

// PortTakenError says that an address of the configuration is in use.
type PortTakenError struct {
	Key  string // of the configuration
	Addr string
	Err  error
}

func (e *PortTakenError) Error() string {
	return fmt.Sprintf("%s: another process listens on %s", e.Key, e.Addr)
}

func (e *PortTakenError) Unwrap() error { return e.Err }

func bind(key, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, bindError(key, addr, err)
	}
	return l, nil
}

func bindError(key, addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &PortTakenError{Key: key, Addr: addr, Err: err}
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: this user may not listen on %s: %w", key, addr, err)
	}
	return fmt.Errorf("%s: listen on %s: %w", key, addr, err)
}

// servesTLS reports whether devices can connect by TLS: always, but where plaintext is allowed and there is no certificate.
func (p *Process) servesTLS() bool { return p.cfg.TLS.Cert != "" || p.dev != nil || !p.cfg.FE.Insecure }

// listen binds the front end.
func (p *Process) listen(ctx context.Context) error {
	net, err := p.netConfig()
	if err != nil {
		return err
	}
	c := &p.cfg
	p.node, err = fe.Listen(ctx, fe.Config{
		ID: c.Node.ID, Net: net, Sessions: sessionConfig(&c.Sessions), Apps: apps(c.Apps), Store: p.store, Verifier: p.tokens.verifier,
		Publisher: p.push, Log: p.log, Lease: c.FE.Lease.Std(), LoginRate: c.FE.LoginRate,
		DrainPerSecond: c.Drain.PerSecond, DrainSpread: c.Drain.Spread.Std(), DrainTarget: c.Drain.Target,
	})
	if err != nil {
		return bindError("fe.listen", strings.Join(c.FE.Listen, ", "), err)
	}
	p.endpoints = p.madeEndpoints()
	urls := make([]string, len(p.endpoints))
	for i, e := range p.endpoints {
		urls[i] = e.URL
	}
	if len(urls) == 0 {
		p.log.Warn("clients are told no endpoints: fe.advertise is empty and fe.listen names no host")
	}
	p.node.SetEndpoints(urls)
	return nil
}

func (p *Process) netConfig() (netloop.Config, error) {
	c := &p.cfg.FE
	cpus, err := p.cfg.Runtime.CPUList()
	if err != nil {
		return netloop.Config{}, err
	}
	trusted := make([]netip.Prefix, len(c.ProxyTrusted))
	for i, s := range c.ProxyTrusted {
		if trusted[i], err = netip.ParsePrefix(s); err != nil {
			return netloop.Config{}, fmt.Errorf("fe.proxy_trusted: %w", err)
		}
	}
	p.setOrigins()
	n := netloop.Config{
		Loops: c.Loops, HandshakeLoops: c.HandshakeLoops, AEADCache: p.cfg.TLS.AEADCache, Path: c.Path, Origin: p.origin,
		MaxConns: c.MaxConnections, MaxFrame: int(p.cfg.Sessions.MaxFrame), MaxHandshakes: c.MaxHandshakes, AcceptRate: c.AcceptRate,
		SendBuffer: int(c.SendBuffer), CPUs: cpus,
	}
	if n.AEADCache == 0 {
		n.AEADCache = -1 // the transport's word for none
	}
	if p.cfg.TLS.Engine == "stdlib" {
		n.Engine = tls13.EngineStdlib
	}
	if p.servesTLS() {
		n.TLS = &tls.Config{GetCertificate: p.cert.get, MinVersion: tls.VersionTLS13}
	}
	for _, a := range c.Listen {
		n.Listeners = append(n.Listeners, netloop.Listener{Addr: a, TLS: p.servesTLS(), Insecure: c.Insecure, ProxyTrusted: trusted})
	}
	return n, nil
}

func sessionConfig(c *config.Sessions) connmgr.Config {
	return connmgr.Config{
		HeartbeatSeconds: seconds(c.Heartbeat), HeartbeatMin: seconds(c.HeartbeatMin), HeartbeatMax: seconds(c.HeartbeatMax),
		LoginTimeout: c.LoginTimeout.Std(), QueueBytes: int(c.Queue), QueueTotalBytes: int64(c.QueueTotal), MailboxBytes: int64(c.Mailbox),
		MaxTags: c.MaxTags, MaxFrame: int(c.MaxFrame), MaxRequests: c.MaxRequests, FramesPerSecond: c.FrameRate, FrameBurst: c.FrameBurst,
		PublishPayloadBytes: int(c.MaxPayload),
	}
}

// seconds rounds up, so that nothing set becomes zero, which would mean the default.
func seconds(d config.Duration) int { return int((d.Std() + 999_999_999) / 1_000_000_000) }

func apps(list []config.App) map[string]fe.App {
	m := make(map[string]fe.App, len(list))
	for _, a := range list {
		app := fe.App{MaxDevices: a.MaxDevices, Degraded: a.Degraded}
		if a.Devices == "one_per_user" {
			app.Policy = crux.PolicyOnePerUser
		}
		if a.Winner == "oldest" {
			app.Winner = crux.OldestWins
		}
		m[a.Name] = app
	}
	return m
}

// madeEndpoints is fe.advertise, or made from the bound addresses: secure ones first. An address without a host makes none, since nobody could
// dial it.
func (p *Process) madeEndpoints() (list []api.Endpoint) {
	for _, s := range p.cfg.FE.Advertise {
		if u, err := url.Parse(s); err == nil {
			list = append(list, api.Endpoint{Transport: u.Scheme, URL: s})
		}
	}
	if len(list) > 0 {
		return list
	}
	var schemes []string
	if p.servesTLS() {
		schemes = append(schemes, "tls", "wss")
	}
	if p.cfg.FE.Insecure {
		schemes = append(schemes, "tcp", "ws")
	}
	for i, a := range p.node.Addrs() {
		addr, err := netip.ParseAddrPort(a.String())
		if err != nil || addr.Addr().IsUnspecified() {
			continue
		}
		host := a.String()
		// The host as it was configured: a certificate may know the name and not the address.
		if h, _, err := net.SplitHostPort(p.cfg.FE.Listen[i]); err == nil && h != "" {
			_, port, _ := net.SplitHostPort(a.String())
			host = net.JoinHostPort(h, port)
		}
		for _, s := range schemes {
			u := url.URL{Scheme: s, Host: host}
			if s == "ws" || s == "wss" {
				u.Path = p.cfg.FE.Path
			}
			list = append(list, api.Endpoint{Transport: s, URL: u.String()})
		}
	}
	return list
}

// endpoint is the first endpoint of a transport.
func (p *Process) endpoint(transport string) string {
	i := slices.IndexFunc(p.endpoints, func(e api.Endpoint) bool { return e.Transport == transport })
	if i < 0 {
		return ""
	}
	return p.endpoints[i].URL
}
