package fe

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/connmgr"
	"github.com/klinkio/klink/fe/netloop"
)

// Node is one front end.
type Node struct {
	cfg      Config
	net      *netloop.Server
	sessions *connmgr.Manager
	verify   *verifyPool
	batch    *registrar // nil where the store answers from memory
	admit    []admission
	exprs    exprCache

	inc        atomic.Pointer[klink.Incarnation]
	known      klink.Incarnation // under which all sessions are registered; of keepKnown
	degraded   atomic.Bool       // there may be sessions that the user state does not know
	renewNow   chan struct{}     // size 1
	resync     chan struct{}     // size 1
	draining   atomic.Bool
	accepting  atomic.Bool
	leaseOK    atomic.Bool
	publishing map[string]*atomic.Int64 // by app
	loginBytes atomic.Int64             // of logins that wait

	wg sync.WaitGroup
}

// Listen binds the listeners. Run must follow, or Close.
func Listen(_ context.Context, cfg Config) (*Node, error) {
	if err := cfg.prepare(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, renewNow: make(chan struct{}, 1), resync: make(chan struct{}, 1), publishing: make(map[string]*atomic.Int64)}
	for name := range cfg.Apps {
		n.publishing[name] = new(atomic.Int64)
	}
	n.inc.Store(&klink.Incarnation{})
	cfg.Sessions.Endpoints, cfg.Sessions.TokenGrace = cfg.Endpoints, cfg.Verifier.Leeway()
	n.sessions = connmgr.NewManager(cfg.Sessions, n)
	cfg.Net.NewHandler = n.sessions.NewHandler
	if cfg.Net.MaxFrame == 0 {
		cfg.Net.MaxFrame = n.sessions.Config().MaxFrame
	}
	srv, err := netloop.Listen(cfg.Net)
	if err != nil {
		return nil, fmt.Errorf("front end: %w", err)
	}
	n.net = srv
	n.verify = newVerifyPool(cfg.Verifier)
	if !cfg.Store.NonBlocking() {
		n.batch = newRegistrar(cfg.Store, cfg.Log)
	}
	return n, nil
}

// SetEndpoints changes what clients are told to dial; before Run only, when the ports were chosen by the system.
func (n *Node) SetEndpoints(e []string) {
	n.cfg.Endpoints = e
	n.sessions.SetEndpoints(e)
}

// Close frees the listeners of a node that does not run.
func (n *Node) Close() {
	n.net.Close()
	n.sessions.Close()
}

// Run registers the node in the user state and serves until ctx ends and everything is closed. Call [Node.Drain] first to end in peace.
func (n *Node) Run(ctx context.Context) error {
	if err := n.register(ctx); err != nil {
		n.Close()
		return err
	}
	n.known = n.incarnation()
	// Workers outlive the loops, which hand them logouts until their last connection is closed.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.verify.run(work, n.cfg.Verifiers, &n.wg)
	if n.batch != nil {
		n.wg.Go(func() { n.batch.run(work) })
	}
	n.wg.Go(func() { n.keepLease(work) })
	n.wg.Go(func() { n.keepKnown(work) })
	n.startAdmission()
	n.accepting.Store(true)
	err := n.net.Run(ctx)
	n.accepting.Store(false)
	n.sessions.Close() // the loops have ended: what is still posted is answered here
	stop()
	n.wg.Wait()

	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if rerr := n.cfg.Store.ReleaseFE(release, n.incarnation()); rerr != nil {
		n.cfg.Log.Warn("lease not released, it ends by itself", "fe", n.cfg.ID, "err", rerr)
	}
	return err
}

// Drain moves everybody away: no new logins, listen queues emptied and closed, a paced Disconnect to each session. It returns
// when all are gone or ctx ends.
func (n *Node) Drain(ctx context.Context) {
	n.draining.Store(true)
	if !n.accepting.Load() {
		return // there is nobody, and no loop that could do anything
	}
	n.net.StopAccepting()
	n.sessions.Drain(ctx, connmgr.Drain{
		PerSecond: n.cfg.DrainPerSecond, Spread: n.cfg.DrainSpread, Target: n.cfg.DrainTarget, Reason: "the front end drains",
	})
}

// Ready names what keeps the node from taking new devices; nil: nothing.
func (n *Node) Ready() error {
	switch {
	case n.draining.Load():
		return klink.Errorf(klink.CodeUnavailable, "draining")
	case !n.accepting.Load():
		return klink.Errorf(klink.CodeUnavailable, "not started")
	}
	return nil
}

// LeaseHeld reports whether the last renewal of the lease succeeded. It does not count for readiness: a store that is away must not take all
// front ends out of the balancer.
func (n *Node) LeaseHeld() bool { return n.leaseOK.Load() }

// ID is the FE's id.
func (n *Node) ID() string { return n.cfg.ID }

// Addrs are the bound addresses in the order of the configured listeners.
func (n *Node) Addrs() []net.Addr { return n.net.Addrs() }

// Sessions gives access to the sessions, for metrics and traces.
func (n *Node) Sessions() *connmgr.Manager { return n.sessions }

// NetStats are the transport's counters.
func (n *Node) NetStats() netloop.Stats { return n.net.Stats() }
