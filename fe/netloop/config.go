package netloop

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/crypto/tls13"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
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
	Loops          int         // one a core
	HandshakeLoops int         // half of the cores, at least one
	TLS            *tls.Config // cloned; NextProtos is replaced. See tls13.NewServer for what is refused
	Engine         tls13.Engine
	AEADCache      int // connections with cipher objects ready, for each loop: 1,024; negative: none

	NewHandler func(link.Loop) link.Handler // called once a loop, in order, by Listen
	Path       string                       // of the WebSocket upgrade: /connect

	// Origin decides on the Origin header of browsers: scheme://host[:port], and the Host header. It is called on the loops and must not
	// block. Nil accepts the origin whose host and port are those of Host. Clients that send no Origin are not asked.
	Origin func(origin, host string) bool

	MaxConns            int           // what RLIMIT_NOFILE allows, less 64
	MaxFrame            int           // body of a frame: 64 KiB
	MaxInputBytes       int64         // partial input of all connections of a loop: 64 MiB
	MaxOutputBytes      int64         // unsent output of all connections of a loop: 256 MiB
	MaxHandshakes       int           // in flight over all loops: 2,000
	MaxHandshakesPerNet int           // of them from one /24, or /56 of IPv6, that is not loopback: 5 %
	AcceptRate          float64       // connections a second over all loops, before TLS; 0: no limit
	AcceptBurst         float64       // at once: a second's worth
	SendBuffer          int           // SO_SNDBUF: 32 KiB
	HandshakeTimeout    time.Duration // from accept to the end of TLS: 5 s
	UpgradeTimeout      time.Duration // from there to a whole upgrade request: 5 s
	CloseGrace          time.Duration // from the end of a connection to its last byte and the client's FIN: 2 s
	CPUs                []int         // cores that the I/O loops are pinned to, in turn; none

	countLoopback bool // tests: loopback counts as a network, too
}

// prepare fills in the defaults and checks what can be checked without a socket.
func (c *Config) prepare() error {
	if c.NewHandler == nil {
		return errors.New("no handler")
	}
	orInt(&c.Loops, runtime.GOMAXPROCS(0))
	orInt(&c.HandshakeLoops, max(1, runtime.GOMAXPROCS(0)/2))
	orInt(&c.AEADCache, 1024)
	orInt(&c.MaxFrame, frame.MaxBody)
	orInt(&c.MaxHandshakes, 2000)
	orInt(&c.MaxHandshakesPerNet, max(1, c.MaxHandshakes/20))
	orInt(&c.SendBuffer, 32<<10)
	orTime(&c.HandshakeTimeout, 5*time.Second)
	orTime(&c.UpgradeTimeout, 5*time.Second)
	orTime(&c.CloseGrace, 2*time.Second)
	if c.MaxInputBytes == 0 {
		c.MaxInputBytes = 64 << 20
	}
	if c.MaxOutputBytes == 0 {
		c.MaxOutputBytes = 256 << 20
	}
	if c.Path == "" {
		c.Path = "/connect"
	}
	if c.AcceptRate > 0 && c.AcceptBurst < 1 {
		c.AcceptBurst = max(1, c.AcceptRate)
	}
	if c.MaxConns == 0 {
		var lim unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
			return fmt.Errorf("limit of descriptors: %w", err)
		}
		c.MaxConns = max(1, int(min(lim.Cur, maxSlots))-64)
	}
	return c.check()
}

func (c *Config) check() error {
	for _, n := range []struct {
		name      string
		v, lo, hi int
	}{
		{"loops", c.Loops, 1, 255},
		{"handshake loops", c.HandshakeLoops, 1, 255},
		{"listeners", len(c.Listeners), 1, 255},
		{"max conns", c.MaxConns, 1, math.MaxInt32},
		{"max frame", c.MaxFrame, 1, math.MaxInt32},
		{"send buffer", c.SendBuffer, 1, math.MaxInt32},
		{"max handshakes", c.MaxHandshakes, 1, math.MaxInt32},
		{"max handshakes per net", c.MaxHandshakesPerNet, 1, math.MaxInt32},
	} {
		if n.v < n.lo || n.v > n.hi {
			return fmt.Errorf("%s: %d is not within %d and %d", n.name, n.v, n.lo, n.hi)
		}
	}
	for _, d := range []time.Duration{c.HandshakeTimeout, c.UpgradeTimeout, c.CloseGrace} {
		if d < time.Millisecond || d > time.Hour {
			return fmt.Errorf("a timeout of %v is not within 1 ms and 1 h", d)
		}
	}
	switch {
	case c.MaxInputBytes < 1:
		return fmt.Errorf("max input bytes: %d is not above 0", c.MaxInputBytes)
	case !(c.AcceptRate >= 0 && c.AcceptBurst >= 0): // also not a number
		return fmt.Errorf("accept rate %v and burst %v are not above 0", c.AcceptRate, c.AcceptBurst)
	case c.Path[0] != '/':
		return fmt.Errorf("path %q does not begin with a slash", c.Path)
	}
	for _, l := range c.Listeners {
		if !l.TLS && !l.Insecure {
			return fmt.Errorf("listener %s: neither TLS nor insecure", l.Addr)
		}
		if l.TLS && c.TLS == nil {
			return fmt.Errorf("listener %s: TLS without a certificate", l.Addr)
		}
	}
	return c.checkCPUs()
}

func (c *Config) checkCPUs() error {
	if len(c.CPUs) == 0 {
		return nil
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return fmt.Errorf("cores of this process: %w", err)
	}
	for _, cpu := range c.CPUs {
		if cpu < 0 || !set.IsSet(cpu) {
			return fmt.Errorf("core %d is not one of this process", cpu)
		}
	}
	return nil
}

func orInt(p *int, v int) {
	if *p == 0 {
		*p = v
	}
}

func orTime(p *time.Duration, v time.Duration) {
	if *p == 0 {
		*p = v
	}
}
