package sdk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

const (
	alpn         = "klink/1"
	subprotocol  = "klink.v1"
	writeTimeout = 10 * time.Second // for one write; a peer that takes nothing for so long is gone
)

// transport carries frame bodies of one connection. One goroutine reads, one writes; close may be called from any, and makes both return.
type transport interface {
	// read returns the next body, valid until the next call. A [*DisconnectError] is the peer's close code.
	read() ([]byte, error)

	// write sends bodies, in order.
	write(bodies [][]byte) error

	close()
}

// dialer opens transports.
type dialer struct {
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	tls      *tls.Config // the base of all; keeps sessions for resumption
	header   http.Header
	maxFrame int
}

func newDialer(c *Config) *dialer {
	base := c.TLS.Clone()
	if base == nil {
		base = new(tls.Config)
	}
	base.MinVersion = tls.VersionTLS13
	if base.ClientSessionCache == nil {
		base.ClientSessionCache = tls.NewLRUClientSessionCache(maxEndpoints)
	}
	return &dialer{dial: c.Dial, tls: base, header: c.Header, maxFrame: c.MaxFrame}
}

// open connects to ep. ctx bounds the call, by its end at once; afterwards it has no meaning.
func (d *dialer) open(ctx context.Context, ep endpoint) (transport, error) {
	var stop func() bool
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := d.dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		stop = context.AfterFunc(ctx, func() { _ = c.Close() })
		return c, nil
	}
	t, err := d.layers(ctx, ep, dial)
	if stop != nil && !stop() && err == nil { // too late: it was closed meanwhile
		t.close()
		err = ctx.Err()
	}
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, fmt.Errorf("connect to %s: %w", ep.url, err)
	}
	return t, nil
}

func (d *dialer) layers(ctx context.Context, ep endpoint, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (transport, error) {
	switch ep.transport {
	case klink.TransportWS, klink.TransportWSS:
		return d.openWS(ctx, ep, dial)
	}
	c, err := dial(ctx, "tcp", ep.addr)
	if err != nil {
		return nil, err
	}
	if ep.transport == klink.TransportTLS {
		tc := tls.Client(c, d.tlsFor(ep, alpn))
		if err := tc.HandshakeContext(ctx); err != nil {
			_ = c.Close()
			return nil, err
		}
		if got := tc.ConnectionState().NegotiatedProtocol; got != alpn {
			_ = tc.Close()
			return nil, fmt.Errorf("the server does not speak %s", alpn)
		}
		c = tc
	}
	return &streamTransport{c: c, r: frame.NewReader(c, d.maxFrame)}, nil
}

func (d *dialer) tlsFor(ep endpoint, proto string) *tls.Config {
	cfg := d.tls.Clone()
	cfg.NextProtos = []string{proto}
	if cfg.ServerName == "" {
		cfg.ServerName = ep.host
	}
	return cfg
}

func (d *dialer) openWS(ctx context.Context, ep endpoint, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (transport, error) {
	wd := websocket.Dialer{
		NetDialContext: dial, TLSClientConfig: d.tlsFor(ep, "http/1.1"), Subprotocols: []string{subprotocol},
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
	}
	c, resp, err := wd.DialContext(ctx, ep.url, d.header)
	if err != nil {
		if resp != nil {
			return nil, fmt.Errorf("upgrade refused with %s: %w", resp.Status, err)
		}
		return nil, err
	}
	if c.Subprotocol() != subprotocol {
		_ = c.Close()
		return nil, fmt.Errorf("the server does not speak %s", subprotocol)
	}
	c.SetReadLimit(int64(d.maxFrame))
	return &wsTransport{c: c}, nil
}

// streamTransport is TCP or TLS.
type streamTransport struct {
	c   net.Conn
	r   *frame.Reader
	out []byte
}

func (t *streamTransport) read() ([]byte, error) { return t.r.Next() }

func (t *streamTransport) write(bodies [][]byte) error {
	t.out = t.out[:0]
	for _, b := range bodies {
		t.out = frame.AppendStream(t.out, b)
	}
	if err := t.c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := t.c.Write(t.out)
	if cap(t.out) > keepBytes {
		t.out = nil
	}
	return err
}

func (t *streamTransport) close() { _ = t.c.Close() }

// wsTransport is WS or WSS.
type wsTransport struct {
	c   *websocket.Conn
	buf []byte
}

// keepBytes is the largest buffer that is kept between two frames.
const keepBytes = 16 << 10

func (t *wsTransport) read() ([]byte, error) {
	kind, r, err := t.c.NextReader()
	if err != nil {
		return nil, closeCode(err)
	}
	if kind != websocket.BinaryMessage {
		return nil, errors.New("the server sent a text message")
	}
	if cap(t.buf) > keepBytes {
		t.buf = nil
	}
	t.buf = t.buf[:0]
	for {
		if len(t.buf) == cap(t.buf) {
			t.buf = append(t.buf, make([]byte, max(512, cap(t.buf)))...)[:len(t.buf)]
		}
		n, err := r.Read(t.buf[len(t.buf):cap(t.buf)])
		t.buf = t.buf[:len(t.buf)+n]
		if err == io.EOF {
			return t.buf, nil
		}
		if err != nil {
			return nil, closeCode(err)
		}
	}
}

// closeCode turns a WebSocket close code of klink into what the Disconnect frame would say.
func closeCode(err error) error {
	ce, ok := errors.AsType[*websocket.CloseError](err)
	if !ok {
		return err
	}
	if ce.Code == websocket.CloseNormalClosure {
		return io.EOF
	}
	if ce.Code < 4000 || ce.Code > 4999 {
		return err
	}
	code := klink.Disconnect(ce.Code)
	return &DisconnectError{Code: code, Reason: ce.Text, Retry: code.Info().Retry}
}

func (t *wsTransport) write(bodies [][]byte) error {
	for _, b := range bodies {
		if err := t.c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if err := t.c.WriteMessage(websocket.BinaryMessage, b); err != nil {
			return err
		}
	}
	return nil
}

func (t *wsTransport) close() { _ = t.c.Close() }
