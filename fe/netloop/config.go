package netloop

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/crypto/tls13"
	"github.com/klinkio/klink/fe/link"
)

// The subprotocols of WebSocket connections, and the ALPN of streams.
const (
	SubprotocolBinary = "klink.v1"
	SubprotocolJSON   = "klink.v1.json"
	ALPN              = "klink/1"
)

// Listener is one address to listen on.
type Listener struct {
	Addr         string         // host:port; port 0: the system chooses, the same for all loops
	TLS          bool           // TLS and WSS
	Insecure     bool           // plain TCP and WS; with TLS the first bytes decide
	ProxyTrusted []netip.Prefix // where a PROXY v2 header is believed
}

// Config is how the server listens and what it bounds. The zero value of a field means the default in its comment.
type Config struct {
	Listeners      []Listener
	Loops          int // one a core
	HandshakeLoops int // half of the cores, at least one
	TLS            *tls.Config
	Engine         tls13.Engine
	AEADCache      int // connections with cipher objects ready, for each loop: 1,024; negative: none

	NewHandler func(link.Loop) link.Handler // called once a loop, in order, by Listen
	Path       string                       // of the WebSocket upgrade: /connect
	Origin     func(origin, host string) bool

	MaxConns            int           // what RLIMIT_NOFILE allows, less 64
	MaxFrame            int           // body of a frame: 64 KiB
	MaxInputBytes       int64         // partial input of all connections of a loop: 64 MiB
	MaxHandshakes       int           // in flight over all loops: 2,000
	MaxHandshakesPerNet int           // of them from one /24 or /56 that is not loopback: 5 %
	AcceptRate          float64       // connections a second over all loops, before TLS; 0: no limit
	AcceptBurst         float64       // at once: a second's worth
	SendBuffer          int           // SO_SNDBUF: 32 KiB
	HandshakeTimeout    time.Duration // from accept to the end of TLS: 5 s
	UpgradeTimeout      time.Duration // from there to a whole upgrade request: 5 s
	CloseGrace          time.Duration // for writing what is left and hearing the client's FIN: 2 s
	CPUs                []int         // cores that the I/O loops are pinned to, in turn; none

	countLoopback bool // tests: loopback counts as a network, too
}

func (c *Config) prepare() error {
	if len(c.Listeners) == 0 {
		return errors.New("no listener")
	}
	if c.NewHandler == nil {
		return errors.New("no handler")
	}
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.Loops, runtime.GOMAXPROCS(0))
	def(&c.HandshakeLoops, max(1, runtime.GOMAXPROCS(0)/2))
	def(&c.AEADCache, 1024)
	def(&c.MaxFrame, 64<<10)
	def(&c.MaxHandshakes, 2000)
	def(&c.MaxHandshakesPerNet, max(1, c.MaxHandshakes/20))
	def(&c.SendBuffer, 32<<10)
	if c.MaxInputBytes == 0 {
		c.MaxInputBytes = 64 << 20
	}
	if c.Path == "" {
		c.Path = "/connect"
	}
	for d, v := range map[*time.Duration]time.Duration{&c.HandshakeTimeout: 5 * time.Second, &c.UpgradeTimeout: 5 * time.Second, &c.CloseGrace: 2 * time.Second} {
		if *d == 0 {
			*d = v
		}
	}
	if c.AcceptRate > 0 && c.AcceptBurst < 1 {
		c.AcceptBurst = max(1, c.AcceptRate)
	}
	if c.MaxConns == 0 {
		var lim unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
			return fmt.Errorf("limit of descriptors: %w", err)
		}
		c.MaxConns = int(min(lim.Cur, maxSlots)) - 64
	}
	if c.Loops < 1 || c.Loops > 255 {
		return fmt.Errorf("%d loops: want 1 to 255", c.Loops)
	}
	for _, l := range c.Listeners {
		if !l.TLS && !l.Insecure {
			return fmt.Errorf("listener %s: neither TLS nor insecure", l.Addr)
		}
		if l.TLS && c.TLS == nil {
			return fmt.Errorf("listener %s: TLS without a certificate", l.Addr)
		}
	}
	return nil
}
