package fe

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/connmgr"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/fe/netloop"

	"github.com/klinkio/klink"
)

// Config is what a node is made of. Store, Verifier and Net are needed.
type Config struct {
	ID        string // of this FE, unique in the cluster
	Endpoints []string
	Net       netloop.Config // NewHandler is set by the node
	Sessions  connmgr.Config
	Apps      map[string]App // by name; an app that is not here can't log in
	Store     crux.Store
	Verifier  *auth.Verifier
	Publisher Publisher // for Publish frames; nil: refused as unavailable
	Log       *slog.Logger

	Lease      time.Duration // 10 s; renewed every fifth of it
	LoginRate  float64       // logins a second over all loops that are admitted after Connect; 0: no limit
	LoginBurst float64
	Verifiers  int // workers that check expensive tokens: 2

	DrainPerSecond int           // sessions ended a second: 1,000
	DrainSpread    time.Duration // time over which clients come back: 5 s
	DrainTarget    string
}

// App is the rules of one app.
type App struct {
	Policy     crux.Policy
	Winner     crux.Winner
	MaxDevices int  // 0: crux.DefaultMaxDevices
	Degraded   bool // sessions are admitted while the user state is away
}

// Publisher pushes what a client publishes. Publish must not block: it is called on an event loop. done is called once, on any
// goroutine, and must not block either.
type Publisher interface {
	Publish(p *klink.Push, done func(klink.Report, error))
}

func (c *Config) prepare() error {
	switch {
	case c.ID == "":
		return errors.New("fe: no id")
	case c.Store == nil || c.Verifier == nil:
		return errors.New("fe: no user state or no token verifier")
	case len(c.Apps) == 0:
		return errors.New("fe: no app is configured")
	}
	if err := c.Sessions.Validate(); err != nil {
		return fmt.Errorf("fe: sessions: %w", err)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Lease == 0 {
		c.Lease = 10 * time.Second
	}
	if c.Lease < time.Second {
		return fmt.Errorf("fe: lease %v is below 1 s", c.Lease)
	}
	if c.Verifiers == 0 {
		c.Verifiers = 2
	}
	if c.DrainPerSecond == 0 {
		c.DrainPerSecond = 1000
	}
	if c.DrainSpread == 0 {
		c.DrainSpread = 5 * time.Second
	}
	if c.LoginRate > 0 && c.LoginBurst < 1 {
		c.LoginBurst = max(1, c.LoginRate)
	}
	return nil
}
