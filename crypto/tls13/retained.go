package tls13

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
)

// scratchLen is how much plaintext Retained decrypts at a time.
const scratchLen = 16 << 10

// Retained is a connection of EngineStdlib: crypto/tls keeps its state (3.9 to 6.7 KB) over a shim in memory. It has the shape of a
// Record, so that a loop can use either. One goroutine uses it. There is nothing to wipe: crypto/tls offers no way.
type Retained struct {
	conn    *tls.Conn
	shim    *shim
	scratch *sync.Pool
	sealed  uint32 // records written, for the limit of the key
	limited bool   // AES-GCM: crypto/tls never replaces its write key by itself
	closed  bool   // close_notify is written
}

// Feed gives ciphertext that arrived and calls yield for each piece of plaintext in it, which is valid until yield returns. yield may
// call AppendSeal. closed: the client has closed its direction in order. On an error an alert may be in AppendPending. cipher is not kept.
func (r *Retained) Feed(cipher []byte, yield func(plain []byte)) (closed bool, err error) {
	if len(r.shim.in) > 0 { // what came behind the Finished, at the first call
		r.shim.in = append(r.shim.in, cipher...)
	} else {
		r.shim.in = cipher
	}
	buf, dirty := r.scratch.Get().(*[scratchLen]byte), 0
	defer func() {
		// crypto/tls has taken all of cipher, or has failed and takes no more.
		r.shim.in = nil
		clear(buf[:dirty])
		r.scratch.Put(buf)
	}()
	for {
		n, err := r.conn.Read(buf[:])
		if n > 0 {
			dirty = max(dirty, n)
			yield(buf[:n])
		}
		var temporary again
		switch {
		case err == nil:
		case errors.As(err, &temporary):
			return false, nil
		case errors.Is(err, io.EOF):
			return true, nil
		default:
			return false, connError(err)
		}
	}
}

// AppendSeal protects plaintext and appends the records, after what is pending, to dst. An error with ReasonKeyLimit: the
// connection has to be closed, as this engine can't replace its key.
func (r *Retained) AppendSeal(dst, plaintext []byte) ([]byte, error) {
	dst = r.AppendPending(dst)
	records := (len(plaintext) + maxPlaintext - 1) / maxPlaintext
	if r.limited && int(r.sealed)+records >= keyLimit {
		return dst, errKeyLimit
	}
	r.sealed += uint32(records)
	r.shim.out = dst
	_, err := r.conn.Write(plaintext)
	dst = r.shim.out
	r.shim.out = nil
	if err != nil {
		return dst, connError(err)
	}
	return dst, nil
}

// Pending says that crypto/tls wrote something by itself: the answer to a KeyUpdate or an alert.
func (r *Retained) Pending() bool { return len(r.shim.out) > 0 }

// AppendPending appends that to dst.
func (r *Retained) AppendPending(dst []byte) []byte {
	dst = append(dst, r.shim.out...)
	r.shim.out = nil
	return dst
}

// AppendCloseNotify ends the write direction in order, once.
func (r *Retained) AppendCloseNotify(dst []byte) ([]byte, error) {
	if r.closed {
		return dst, nil
	}
	r.closed = true
	err := r.conn.CloseWrite()
	dst = r.AppendPending(dst)
	if err != nil {
		return dst, connError(err)
	}
	return dst, nil
}

func connError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return &Error{ReasonPeerAlert, NoAlert, "tls", err}
	}
	return &Error{ReasonConn, NoAlert, "tls", err}
}
