package sdk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/klinkio/klink"
)

// Client is one install's connection to klink. Its methods may be called from any goroutine and from callbacks.
type Client struct {
	cfg    Config
	dialer *dialer
	events *dispatcher
	stats  counters
	life   context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{}
	wg     sync.WaitGroup // token callbacks

	mu         sync.Mutex
	state      Status
	live       *conn         // nil unless connected
	changed    chan struct{} // closed and replaced when live, running or closed change
	running    bool
	closed     bool
	err        error // why it is closed; nil after Close
	install    Install
	wanted     map[string]bool // tags to subscribe after a reconnect
	wish       uint32          // seconds of heartbeat to ask for
	background bool

	// Owned by the goroutine of Run.
	ring     *ring
	backoff  backoff
	token    string
	until    time.Time // when token expires; zero: not known
	need     TokenReason
	rejected int              // tokens refused in a row
	refusal  *DisconnectError // the last of them
	session  string
	lastErr  error        // of the last connection or attempt
	fetching chan fetched // of the callback that runs; nil: none
}

// Dial makes a client, starts it, and waits until it is logged in. ctx bounds the call, not the life of the client. When ctx ends first,
// or the server refuses for good, the client is closed and the error holds the reason: a [*DisconnectError], or why the last try failed.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	go func() { _ = c.Run(context.WithoutCancel(ctx)) }() // Err and OnStatus tell
	if _, err := c.await(ctx); err != nil {
		_ = c.Close()
		<-c.done
		last := c.lastErr // by the goroutine that has ended
		switch {
		case c.Err() != nil:
			return nil, c.Err()
		case last != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", ctx.Err(), last)
		}
		return nil, err
	}
	return c, nil
}

// New makes a client that does nothing before [Client.Run].
func New(cfg Config) (*Client, error) {
	cfg, eps, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	in, err := cfg.Store.Load()
	if err != nil {
		return nil, fmt.Errorf("sdk: %w", err)
	}
	if in.Device == "" {
		in.Device = klink.NewID(time.Now())
	}
	if err := klink.CheckID("device", in.Device, klink.MaxDeviceLen); err != nil {
		return nil, fmt.Errorf("sdk: %w", err)
	}
	start := 0
	if !cfg.Ordered {
		start = rand.IntN(len(eps))
	}
	c := &Client{
		cfg: cfg, dialer: newDialer(&cfg), done: make(chan struct{}), changed: make(chan struct{}),
		install: in, wanted: make(map[string]bool), wish: seconds(cfg.Heartbeat), background: cfg.Background,
		ring: newRing(eps, start), need: TokenConnect,
	}
	c.ring.pinned = cfg.Pinned
	for _, t := range cfg.Tags {
		c.wanted[t] = true
	}
	c.state.Attempt = in.Attempt
	c.events = newDispatcher(&c.cfg, &c.stats)
	c.life, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Run connects and stays connected until ctx ends, [Client.Close] is called, or the server ends it for good; only the last gives an
// error. It returns after the last callback. A client runs once.
func (c *Client) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.running {
		c.mu.Unlock()
		return errors.New("sdk: the client runs already, or has run")
	}
	c.running = true
	c.mu.Unlock()
	stop := context.AfterFunc(ctx, c.cancel)
	defer stop()
	go c.events.run()
	err := c.serve(c.life)
	c.finish(err)
	<-c.events.done
	c.wg.Wait()
	close(c.done)
	return err
}

// finish makes the client closed: no call waits any longer, and no callback follows the last status.
func (c *Client) finish(err error) {
	c.cancel()
	c.mu.Lock()
	c.closed, c.err = true, err
	c.state = Status{State: StateClosed, Endpoint: c.state.Endpoint, Transport: c.state.Transport, Attempt: c.state.Attempt, Connects: c.state.Connects, Err: err}
	st := c.state
	c.broadcast()
	c.mu.Unlock()
	c.events.close(event{status: &st}, err == nil)
}

// Close says goodbye to the server and ends the client. What still waits for callbacks is dropped, but for the last status. Close does not
// wait; [Client.Done] tells when all is over. It always returns nil.
func (c *Client) Close() error {
	c.cancel()
	c.mu.Lock()
	never := !c.running
	c.running = true
	c.mu.Unlock()
	if never {
		go c.events.run()
		c.finish(nil)
		close(c.done)
	}
	return nil
}

// Done is closed when the client has ended, after the last callback.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err is why the client ended by itself: a [*DisconnectError], or an error that wraps [ErrSignedOut]. It is nil before, and after Close.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Status is the state now; the last one that [Handler.OnStatus] was or will be called with.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Device is the device id of this install.
func (c *Client) Device() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.install.Device
}

// Tags are the tags that are subscribed, or will be after the next login, sorted.
func (c *Client) Tags() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.wanted))
}

// broadcast wakes everyone who waits for a change. c.mu is held.
func (c *Client) broadcast() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// setStatus changes the state and tells the handler, in one order for both.
func (c *Client) setStatus(change func(s *Status)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.state)
	st := c.state
	c.events.add(event{status: &st})
}

// await returns the connection as soon as there is one.
func (c *Client) await(ctx context.Context) (*conn, error) {
	for {
		c.mu.Lock()
		live, changed, closed := c.live, c.changed, c.closed
		c.mu.Unlock()
		switch {
		case closed:
			return nil, c.closedError()
		case live != nil:
			return live, nil
		}
		select {
		case <-changed:
		case <-c.life.Done():
			return nil, c.closedError()
		case <-ctx.Done():
			return nil, ctxError(ctx, "not connected")
		}
	}
}

func (c *Client) closedError() error {
	err := c.Err()
	if err == nil {
		err = ErrClosed
	}
	return klink.Errorf(klink.CodeUnavailable, "not connected: %w", err)
}

// ctxError is a klink.Error of a context that has ended.
func ctxError(ctx context.Context, what string) error {
	return klink.Errorf(klink.CodeTimeout, "%s: %w", what, ctx.Err())
}

// seconds rounds up to what a frame can say, at least one; 0 stays 0.
func seconds(d time.Duration) uint32 {
	return uint32(min((d+time.Second-1)/time.Second, 1<<20))
}

// SetHeartbeat asks for another heartbeat interval, now and at each login; the server bounds it. d is rounded up to whole seconds.
// 0 leaves it to the server from the next login on.
func (c *Client) SetHeartbeat(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wish = seconds(max(0, d))
	if c.live != nil && c.wish > 0 {
		c.live.setHeartbeat(c.wish)
	}
}

// SetBackground says whether the app is in background. There the client sends nothing but heartbeats, answers and renewed tokens, and refuses
// calls with CodeConflict, so that no code which forgot about the background wakes the radio. Pushes go on coming.
func (c *Client) SetBackground(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.background = on
}

// foreground reports why a call is refused in background.
func (c *Client) foreground() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.background {
		c.stats.refused.Add(1)
		return klink.Errorf(klink.CodeConflict, "the app is in background")
	}
	return nil
}
