package netloop

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/proto/frame"
)

// peer is a client of any transport.
type peer interface {
	send(body []byte) error
	recv() ([]byte, error)
	Close() error
}

type streamPeer struct {
	net.Conn
	r *bufio.Reader
}

func (p *streamPeer) send(b []byte) error {
	_, err := p.Write(frame.AppendStream(nil, b))
	return err
}

func (p *streamPeer) recv() ([]byte, error) {
	n, err := binary.ReadUvarint(p.r)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(p.r, b)
	return b, err
}

type wsPeer struct {
	*websocket.Conn
}

func (p *wsPeer) send(b []byte) error { return p.WriteMessage(websocket.BinaryMessage, b) }
func (p *wsPeer) recv() ([]byte, error) {
	_, b, err := p.ReadMessage()
	return b, err
}

func (ts *testServer) clientTLS() *tls.Config {
	return &tls.Config{RootCAs: ts.roots, ServerName: "localhost", NextProtos: []string{ALPN}}
}

func (ts *testServer) dial(t testing.TB, transport string) peer {
	t.Helper()
	return ts.dialSmall(t, transport, 0)
}

// dialSmall is dial with a bounded receive buffer of the client.
func (ts *testServer) dialSmall(t testing.TB, transport string, receiveBuffer int) peer {
	t.Helper()
	p, err := ts.tryDial(transport, receiveBuffer)
	if err != nil {
		t.Fatalf("dial %s: %v", transport, err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func (ts *testServer) tryDial(transport string, receiveBuffer int) (peer, error) {
	c, err := dialTCP(ts.addr, receiveBuffer)
	if err != nil {
		return nil, err
	}
	p, err := ts.upon(c, transport)
	if err != nil {
		c.Close()
	}
	return p, err
}

// upon makes a client out of a connection.
func (ts *testServer) upon(c net.Conn, transport string) (peer, error) {
	switch transport {
	case "tcp":
		return &streamPeer{c, bufio.NewReader(c)}, nil
	case "tls":
		tc := tls.Client(c, ts.clientTLS())
		if err := tc.Handshake(); err != nil {
			return nil, err
		}
		return &streamPeer{tc, bufio.NewReader(tc)}, nil
	}
	d := websocket.Dialer{
		Subprotocols: []string{SubprotocolBinary}, TLSClientConfig: ts.clientTLS(), HandshakeTimeout: hangAfter,
		NetDial: func(string, string) (net.Conn, error) { return c, nil },
	}
	d.TLSClientConfig.NextProtos = nil
	ws, resp, err := d.Dial(transport+"://"+ts.addr+"/connect", http.Header{})
	if err != nil {
		if resp != nil {
			b, _ := io.ReadAll(resp.Body)
			err = fmt.Errorf("%w: %s %s", err, resp.Status, b)
		}
		return nil, err
	}
	return &wsPeer{ws}, errors.Join(ws.SetReadDeadline(time.Now().Add(hangAfter)), ws.SetWriteDeadline(time.Now().Add(hangAfter)))
}

// tcp is a bare connection. A receive buffer of 0 is the system's choice.
func (ts *testServer) tcp(t testing.TB, receiveBuffer int) *net.TCPConn {
	t.Helper()
	c, err := dialTCP(ts.addr, receiveBuffer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func dialTCP(addr string, receiveBuffer int) (*net.TCPConn, error) {
	d := net.Dialer{Control: func(_, _ string, rc syscall.RawConn) (err error) {
		if receiveBuffer > 0 {
			cerr := rc.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer) })
			err = errors.Join(err, cerr)
		}
		return err
	}}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), c.SetDeadline(time.Now().Add(hangAfter))
}

// clientHello is the first flight of a TLS client of this server.
func clientHello(t testing.TB) []byte {
	t.Helper()
	a, b := net.Pipe()
	defer b.Close()
	go func() {
		_ = tls.Client(a, &tls.Config{ServerName: "localhost", NextProtos: []string{ALPN}}).Handshake() // fails when b is closed
		a.Close()
	}()
	hello := make([]byte, 16<<10)
	n, err := io.ReadAtLeast(b, hello, 5)
	if err != nil {
		t.Fatal(err)
	}
	return hello[:n]
}
