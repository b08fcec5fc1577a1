package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of the end of a process.
const (
	apiGrace = 5 * time.Second      // for API requests that are being served
	readyAsk = 5 * time.Millisecond // between two looks whether the front end has started
)

// serving is one part of a process that runs: its goroutines, and what went wrong in them.
type serving struct {
	wg   sync.WaitGroup
	errs chan error // buffered for every part: none blocks at the end
}

func (s *serving) run(what string, f func() error) {
	s.wg.Go(func() {
		if err := f(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.errs <- fmt.Errorf("%s: %w", what, err)
		}
	})
}

// Run serves until ctx ends, then drains. It returns nil after a drain, also one that was cut short; else what failed.
func (p *Process) Run(ctx context.Context) error {
	parts := &serving{errs: make(chan error, 5)}
	nodeCtx, stopNode := context.WithCancel(context.WithoutCancel(ctx))
	defer stopNode()
	keysCtx, stopKeys := context.WithCancel(nodeCtx)
	defer stopKeys()

	started := make(chan struct{})
	parts.run("front end", func() error { return p.node.Run(nodeCtx) })
	web := p.api.HTTP()
	web.Handler = p.apiHandler()
	rest := p.apiListener
	if p.hot != nil {
		parts.run("api", p.hot.Serve)
		rest = p.hot.Fallback()
	}
	parts.run("api", func() error { return web.Serve(rest) })
	admin := p.adminServer()
	if p.adminListener != nil {
		parts.run("admin", func() error { return admin.Serve(p.adminListener) })
	}
	parts.wg.Go(func() { p.tokens.verifier.Run(keysCtx, p.log) })
	parts.wg.Go(func() { p.announce(nodeCtx, started) })

	var failed error
	select {
	case <-ctx.Done():
		select { // a front end ends in order only when it has begun
		case <-started:
			p.drain(nodeCtx)
		case <-p.killed.Done():
		case failed = <-parts.errs:
		}
	case failed = <-parts.errs:
	}
	p.api.Drain()
	if p.hot != nil {
		shutdown(p.killed, p.hot)
	}
	shutdown(p.killed, web)
	p.push.Close()
	stopNode()
	shutdown(p.killed, admin)
	parts.wg.Wait()
	p.kill()
	select {
	case err := <-parts.errs:
		failed = errors.Join(failed, err)
	default:
	}
	if err := p.store.Close(); err != nil {
		failed = errors.Join(failed, fmt.Errorf("close the user state: %w", err))
	}
	return failed
}

// Kill cuts a drain short: what is left is closed at once.
func (p *Process) Kill() { p.kill() }

// announce says that the process is ready, when it is.
func (p *Process) announce(ctx context.Context, started chan struct{}) {
	defer close(started)
	tick := time.NewTicker(readyAsk)
	defer tick.Stop()
	for p.node.Ready() != nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	p.log.Info("ready", "fe", p.cfg.Node.ID, "devices", addresses(p.node.Addrs()), "api", p.apiListener.Addr().String(), "version", p.version)
	p.ready.Store(true)
	p.tell(statusServing)
}

// drain moves the sessions away: readiness first, so that balancers look elsewhere.
func (p *Process) drain(ctx context.Context) {
	c := &p.cfg.Drain
	n := p.Sessions()
	p.log.Info("draining", "sessions", n, "ready_delay", c.ReadyDelay.String(), "timeout", c.Timeout.String())
	// The manager's patience covers all that may still happen; it stops counting its own time.
	end := c.ReadyDelay.Std() + c.Timeout.Std() + 4*apiGrace // three servers, and a little for the rest
	p.tell(fmt.Sprintf("STOPPING=1\nSTATUS=draining %d sessions\nEXTEND_TIMEOUT_USEC=%d", n, end.Microseconds()))
	p.api.Drain()
	ctx, cancel := context.WithTimeout(ctx, (c.ReadyDelay + c.Timeout).Std())
	defer cancel()
	defer context.AfterFunc(p.killed, cancel)()
	if c.ReadyDelay > 0 {
		select {
		case <-time.After(c.ReadyDelay.Std()):
		case <-ctx.Done():
		}
	}
	p.node.Drain(ctx)
	p.log.Info("drained", "sessions", n, "whole", ctx.Err() == nil)
}

// shutdown lets requests end, for a while.
func shutdown(killed context.Context, s stopper) {
	ctx, cancel := context.WithTimeout(killed, apiGrace)
	defer cancel()
	if s.Shutdown(ctx) != nil {
		_ = s.Close() // those that are left are cut off
	}
}

// stopper is a server of HTTP.
type stopper interface {
	Shutdown(ctx context.Context) error
	Close() error
}

// tell informs the service manager.
func (p *Process) tell(lines string) {
	if err := notify(lines); err != nil {
		p.log.Warn("the service manager was not told", "err", err)
	}
}

func addresses(list []net.Addr) []string {
	s := make([]string, len(list))
	for i, a := range list {
		s[i] = a.String()
	}
	return s
}
