package sdk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/klinkio/klink"
)

// Version is the version of this package that servers are told.
const Version = "0.1.0"

// Config says how a client connects. Endpoints and Token are needed; the zero value of any other field means what its comment
// says.
type Config struct {
	// Endpoints are where to connect: tls://host:port, wss://host:port/connect, and without encryption, for development,
	// tcp://host:port and ws://host:port/connect. They are tried in turn, from a random one on.
	Endpoints []string
	Ordered   bool // begin with the first
	Pinned    bool // never use other endpoints: what servers tell of theirs is passed over

	// Token returns a token for this user. It is called on a goroutine of its own, never twice at once, with a context that ends with the
	// client, and may take its time. An error is tried again later, unless it wraps [ErrSignedOut].
	Token func(ctx context.Context, reason TokenReason) (string, error)

	Handler Handler // nil: nobody hears
	Store   Store   // of device id and attempts; nil: [NewMemoryStore]

	Tags       []string      // subscribed with the first login
	Heartbeat  time.Duration // interval to ask for, whole seconds; the server bounds it. 0: the server's choice
	Background bool          // see [Client.SetBackground]

	TLS        *tls.Config // RootCAs and so on; TLS 1.3 and ALPN are set by the client
	Header     http.Header // of the WebSocket upgrade
	Platform   string      // told to the server: linux, ios, …
	AppVersion string      // told to the server

	// Dial opens the stream below TLS and WebSocket, for proxies and tests. nil: net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	ConnectTimeout time.Duration // from dialing to Connected: 10 s
	MaxFrame       int           // bytes of a frame from the server: 4 MiB
	QueueEvents    int           // events that wait for callbacks: 1,024
	QueueBytes     int           // of what they hold: 4 MiB
}

// TokenReason says why a token is asked for.
type TokenReason string

// The reasons.
const (
	TokenConnect      TokenReason = "connect"      // for the first login
	TokenExpiring     TokenReason = "expiring"     // soon, so it is exchanged on the connection
	TokenExpired      TokenReason = "expired"      // by the server's word or by its own date
	TokenUnauthorized TokenReason = "unauthorized" // the server did not accept the last one
	TokenRevoked      TokenReason = "revoked"      // the last one
)

var (
	// ErrSignedOut is for Config.Token: there is no token and will be none, so the client stops.
	ErrSignedOut = errors.New("signed out")

	// ErrClosed is why calls fail on a client that was closed.
	ErrClosed = errors.New("client closed")
)

// DisconnectError is the end of a session, or the refusal of a login, by the server.
type DisconnectError struct {
	Code   klink.Disconnect
	Reason string // for people
	Retry  bool   // the client may come back by itself
	Delay  time.Duration
	Target string // endpoint to use, may be empty
}

func (e *DisconnectError) Error() string {
	if e.Reason == "" {
		return "disconnected by the server: " + e.Code.String()
	}
	return "disconnected by the server: " + e.Code.String() + ": " + e.Reason
}

const (
	connectTimeout = 10 * time.Second
	maxFrame       = 4 << 20
	queueEvents    = 1024
	queueBytes     = 4 << 20
	maxTextLen     = 128 // of platform and version, told to the server
)

// withDefaults checks c and returns a copy with defaults in place and its endpoints parsed.
func (c Config) withDefaults() (Config, []endpoint, error) {
	if len(c.Endpoints) == 0 {
		return c, nil, errors.New("sdk: no endpoint")
	}
	if c.Token == nil {
		return c, nil, errors.New("sdk: no token callback")
	}
	eps := make([]endpoint, 0, len(c.Endpoints))
	for _, raw := range c.Endpoints {
		ep, err := parseEndpoint(raw)
		if err != nil {
			return c, nil, fmt.Errorf("sdk: %w", err)
		}
		eps = append(eps, ep)
	}
	for _, t := range c.Tags {
		if err := klink.CheckID("tag", t, klink.MaxTagLen); err != nil {
			return c, nil, fmt.Errorf("sdk: %w", err)
		}
	}
	for what, s := range map[string]string{"platform": c.Platform, "app version": c.AppVersion} {
		if s == "" {
			continue
		}
		if err := klink.CheckID(what, s, maxTextLen); err != nil {
			return c, nil, fmt.Errorf("sdk: %w", err)
		}
	}
	if c.Heartbeat < 0 || c.ConnectTimeout < 0 || c.MaxFrame < 0 || c.QueueEvents < 0 || c.QueueBytes < 0 {
		return c, nil, errors.New("sdk: a limit is negative")
	}
	if c.Handler == nil {
		c.Handler = new(Callbacks)
	}
	if c.Store == nil {
		c.Store = NewMemoryStore("")
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.MaxFrame, maxFrame)
	def(&c.QueueEvents, queueEvents)
	def(&c.QueueBytes, queueBytes)
	return c, eps, nil
}
