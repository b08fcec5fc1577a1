package floor

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Handshake runs crypto/tls over a blocking socket, as a client or as a server, and returns the keys of both directions. It reads no byte behind
// the handshake. cfg is copied.
func Handshake(fd int, cfg *tls.Config, client bool) (in, out *Record, state tls.ConnectionState, err error) {
	var s secrets
	cfg = cfg.Clone()
	cfg.KeyLogWriter = &s
	cfg.SessionTicketsDisabled = true
	rc := &RecordConn{FD: fd}
	var c *tls.Conn
	if client {
		c = tls.Client(rc, cfg)
	} else {
		c = tls.Server(rc, cfg)
	}
	if err := c.Handshake(); err != nil {
		return nil, nil, state, fmt.Errorf("tls handshake: %w", err)
	}
	state = c.ConnectionState()
	if s.client == nil || s.server == nil || state.Version != tls.VersionTLS13 {
		return nil, nil, state, errors.New("tls handshake: no traffic secrets of TLS 1.3")
	}
	mine, theirs := s.server, s.client
	if client {
		mine, theirs = theirs, mine
	}
	if out, err = NewRecord(state.CipherSuite, mine); err != nil {
		return nil, nil, state, err
	}
	in, err = NewRecord(state.CipherSuite, theirs)
	return in, out, state, err
}

// RecordConn is a blocking socket as crypto/tls wants it. No read goes beyond the end of a record, so that what follows the handshake
// stays in the socket. It does not close the descriptor.
type RecordConn struct {
	FD int

	left   int // of the header or the body that is being read
	header [recordHeader]byte
	have   int // bytes of the header
	body   bool
}

// Read implements net.Conn.
func (c *RecordConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		c.left, c.have, c.body = recordHeader, 0, false
	}
	n, err := retry(func() (int, error) { return unix.Read(c.FD, p[:min(len(p), c.left)]) })
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	c.left -= n
	if !c.body {
		c.have += copy(c.header[c.have:], p[:n])
		if c.left == 0 {
			c.left, c.body = int(binary.BigEndian.Uint16(c.header[3:])), true
		}
	}
	return n, nil
}

// Write implements net.Conn.
func (c *RecordConn) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n, err := retry(func() (int, error) { return unix.SendmsgN(c.FD, p[done:], nil, nil, unix.MSG_NOSIGNAL) })
		if err != nil {
			return done, err
		}
		done += n
	}
	return len(p), nil
}

func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// Close implements net.Conn; the descriptor stays open.
func (c *RecordConn) Close() error { return nil }

// LocalAddr implements net.Conn.
func (c *RecordConn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements net.Conn.
func (c *RecordConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline implements net.Conn; the socket's own timeouts hold.
func (c *RecordConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn; the socket's own timeouts hold.
func (c *RecordConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn; the socket's own timeouts hold.
func (c *RecordConn) SetWriteDeadline(time.Time) error { return nil }
