package tls13

import (
	"net"
	"time"
)

// shim is the net.Conn under a crypto/tls connection: memory on both sides. It has two lives. During the handshake
// it hands out one record at a time, and parks the coroutine where a socket would block; after it (Retained), it answers with a
// temporary error there. It takes every byte that is written: crypto/tls keeps a write error for ever, also a temporary one.
type shim struct {
	in   []byte // arrived, not read yet
	left int    // bytes of the record at the front that may still be read; 0 at a record boundary
	out  []byte // written, not taken yet

	yield func(Status) bool // of the coroutine; nil when it does not run
	moved bool              // keys are exported: nothing may be written
}

// again is what a non-blocking socket would say. Temporary must be true: crypto/tls keeps other errors for ever, and Timeout alone does not help.
type again struct{}

func (again) Error() string   { return "no bytes yet" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

// park gives control back to who resumed the coroutine. False: the handshake is aborted, unwind.
func (c *shim) park(st Status) bool { return c.yield != nil && c.yield(st) }

// Read implements net.Conn.
func (c *shim) Read(p []byte) (int, error) {
	if c.yield == nil {
		return c.readRetained(p)
	}
	for c.left == 0 && !c.boundary() || len(c.in) == 0 {
		if !c.park(NeedMore) {
			return 0, errAborted
		}
	}
	n := copy(p, c.in[:min(c.left, len(c.in))])
	c.in = c.in[n:]
	c.left -= n
	if len(c.in) == 0 {
		c.in = nil // the memory is not needed while the client thinks
	}
	return n, nil
}

// boundary measures the record at the front. Bytes behind the client's Finished must stay here, as they belong to Record; so crypto/tls
// never sees beyond the record that it reads. A length over any limit is shown as a bare header, which crypto/tls refuses.
func (c *shim) boundary() bool {
	if len(c.in) < headerLen {
		return false
	}
	n := int(c.in[3])<<8 | int(c.in[4])
	if n > maxLegacyCiphertext {
		n = 0
	}
	c.left = headerLen + n
	return true
}

// maxLegacyCiphertext is the limit that crypto/tls has until the version is known.
const maxLegacyCiphertext = maxPlaintext + 2048

func (c *shim) readRetained(p []byte) (int, error) {
	if len(c.in) == 0 {
		return 0, again{}
	}
	n := copy(p, c.in)
	c.in = c.in[n:]
	return n, nil
}

// Write implements net.Conn.
func (c *shim) Write(p []byte) (int, error) {
	if c.moved {
		return 0, misuse(ErrMisuse)
	}
	c.out = append(c.out, p...)
	return len(p), nil
}

// The rest of net.Conn. Deadlines are the loop's business.

func (c *shim) Close() error                     { return nil }
func (c *shim) LocalAddr() net.Addr              { return memAddr{} }
func (c *shim) RemoteAddr() net.Addr             { return memAddr{} }
func (c *shim) SetDeadline(time.Time) error      { return nil }
func (c *shim) SetReadDeadline(time.Time) error  { return nil }
func (c *shim) SetWriteDeadline(time.Time) error { return nil }

// memAddr is the address of a shim: callbacks of the configuration see it in ClientHelloInfo.Conn.
type memAddr struct{}

func (memAddr) Network() string { return "memory" }
func (memAddr) String() string  { return "memory" }
