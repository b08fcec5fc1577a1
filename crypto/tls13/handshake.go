package tls13

import (
	"context"
	"crypto/tls"
	"errors"
	"iter"
	"net"
)

// Status is how far a handshake is.
type Status uint8

// The states of a handshake.
const (
	NeedMore Status = iota // more bytes of the client are needed
	Waiting                // a signature is on its way; call Resume when OnSigned tells
	Done                   // send Output, then call Export or Conn
	Failed                 // send Output (the alert), then close; also after Abort
	Moved                  // Export or Conn was called
)

// MaxPending is how many bytes a handshake keeps that crypto/tls has not read: what one read of a loop's buffer can bring behind the
// client's Finished, and a record that was begun before. While it waits for a signature a client has nothing to say: one record then.
const MaxPending = 64<<10 + MaxRecord

// Result describes a finished handshake.
type Result struct {
	ALPN        string // negotiated protocol, empty if none
	ServerName  string // the host that the client named
	CipherSuite uint16
	Curve       tls.CurveID
	Resumed     bool // by ticket
	Retried     bool // with a HelloRetryRequest
}

// Handshake is one handshake of a Server. It has no stack before the client's first record is complete, and about 20 KB from then
// until it ends.
type Handshake struct {
	// Owner is the caller's: for example the handle of the connection, for OnSigned.
	Owner uint64

	server   *Server
	conn     *shim
	tls      *tls.Conn // nil before the first record and after the move
	next     func() (Status, bool)
	stop     func()
	status   Status
	err      error
	ended    bool // the coroutine has returned; hsErr is its result
	hsErr    error
	taken    bool     // conn.out was given out
	job      *signJob // the signature that the coroutine waits for
	unsigned bool     // the signer answered with an error
	secrets  secrets
	tickets  uint64
	result   Result
}

// NewHandshake begins with nothing: about 500 bytes until the first record is complete.
func (s *Server) NewHandshake() *Handshake { return &Handshake{server: s, conn: &shim{}} }

// Status is what the last call answered.
func (h *Handshake) Status() Status { return h.status }

// Waiting says that a signature is on its way.
func (h *Handshake) Waiting() bool { return h.status == Waiting }

// Result is valid from Done on.
func (h *Handshake) Result() Result { return h.result }

// Feed gives bytes that arrived, which it copies, and runs the handshake for as long as there is progress. Bytes behind the
// client's Finished are kept for Export; they may also come in Feeds after Done. On an error there may be an alert in
// Output.
func (h *Handshake) Feed(in []byte) (Status, error) {
	switch h.status {
	case Failed:
		return Failed, h.err
	case Moved:
		return Moved, misuse(ErrMisuse)
	}
	limit := MaxPending
	if h.status == Waiting {
		limit = MaxRecord
	}
	if len(h.conn.in)+len(in) > limit {
		return h.fail(errPending)
	}
	h.conn.in = append(h.conn.in, in...)
	if h.status != NeedMore {
		return h.status, nil
	}
	if h.next == nil {
		if ok, err := h.first(); !ok {
			if err != nil {
				return h.fail(err)
			}
			return NeedMore, nil
		}
		h.start()
	}
	return h.resume()
}

// Resume goes on after OnSigned told about this handshake. At any other time it changes nothing.
func (h *Handshake) Resume() (Status, error) {
	if h.status != Waiting {
		return h.status, h.err
	}
	if h.job != nil && !h.job.ready() {
		return Waiting, nil
	}
	return h.resume()
}

// Output is what has to be sent to the client since the last call. It is valid until the next call of Feed, Resume or Output; and may be
// called in every state: after Done it must be sent before anything that a Record seals.
func (h *Handshake) Output() []byte {
	if h.taken {
		h.conn.out = nil
	}
	h.taken = len(h.conn.out) > 0
	return h.conn.out
}

// Export moves the keys into the zeroed record that a connection will use from now on, and empties the handshake. leftover is
// ciphertext that arrived behind the client's Finished: it may be any part of any number of records, belongs to the caller, and has to
// go through Record.Open before what is read next. Only with EngineLoop.
func (h *Handshake) Export(into *Record) (leftover []byte, err error) {
	if h.status != Done || h.server.engine != EngineLoop {
		return nil, misuse(ErrMisuse)
	}
	su := suiteOf(h.result.CipherSuite)
	err = into.init(su, h.secrets.client[:h.secrets.clientLen], h.secrets.server[:h.secrets.serverLen], h.tickets)
	h.secrets.wipe()
	leftover = h.move()
	if err != nil {
		return nil, err
	}
	return leftover, nil
}

// Conn moves the connection out of the handshake. Call its Feed with no bytes first: application data may have arrived already. Only with
// EngineStdlib.
func (h *Handshake) Conn() (*Retained, error) {
	if h.status != Done || h.server.engine != EngineStdlib {
		return nil, misuse(ErrMisuse)
	}
	r := &Retained{conn: h.tls, shim: h.conn, scratch: h.server.scratch, limited: suiteOf(h.result.CipherSuite) != suiteChaCha20}
	// The shim stays under the connection; another takes its place here and keeps what Output still owes.
	h.conn = &shim{out: r.shim.out}
	r.shim.out = nil
	h.move()
	return r, nil
}

// Abort ends a handshake at any point: its coroutine unwinds before Abort returns. After the end of a handshake it only wipes.
// It must not be called from a callback of the configuration.
func (h *Handshake) Abort() {
	if h.status == Moved || h.status == Failed {
		return
	}
	_, _ = h.fail(errAborted)
}

// first looks at the first record before any stack is spent: whether it can be a ClientHello, and whether it is complete.
func (h *Handshake) first() (ok bool, err error) {
	in := h.conn.in
	if len(in) >= 1 && in[0] != typeHandshake || len(in) >= 2 && in[1] != 3 {
		return false, errNotTLS
	}
	if len(in) < headerLen {
		return false, nil
	}
	n := int(in[3])<<8 | int(in[4])
	if n > maxPlaintext {
		h.conn.out = append(h.conn.out, typeAlert, 3, 3, 0, 2, 2, byte(AlertRecordOverflow))
		return false, errFirstSize
	}
	return len(in) >= headerLen+n, nil
}

// start makes the coroutine; resume runs it.
func (h *Handshake) start() {
	h.server.stats.started.Add(1)
	h.server.stats.active.Add(1)
	h.tls = tls.Server(h.conn, h.server.cfg)
	h.next, h.stop = iter.Pull(func(yield func(Status) bool) {
		h.conn.yield = yield
		// The background context has no end, so crypto/tls starts no goroutine that waits for it.
		h.hsErr = h.tls.HandshakeContext(context.Background())
		h.conn.yield = nil
		h.ended = true
	})
}

// resume runs the coroutine until it parks or returns. current is restored also when a callback panics.
func (h *Handshake) resume() (Status, error) {
	if h.taken {
		h.conn.out, h.taken = nil, false
	}
	st := h.run()
	if !h.ended {
		h.status = st
		return st, nil
	}
	h.release()
	if h.hsErr != nil {
		return h.fail(h.classify(h.hsErr))
	}
	return h.finish()
}

func (h *Handshake) run() Status {
	h.server.current = h
	defer func() { h.server.current = nil }()
	st, _ := h.next()
	return st
}

// finish checks what the handshake left and keeps it.
func (h *Handshake) finish() (Status, error) {
	cs := h.tls.ConnectionState()
	h.result = Result{
		ALPN:        cs.NegotiatedProtocol,
		ServerName:  cs.ServerName,
		CipherSuite: cs.CipherSuite,
		Curve:       cs.CurveID,
		Resumed:     cs.DidResume,
		Retried:     cs.HelloRetryRequest,
	}
	if cs.Version != tls.VersionTLS13 || suiteOf(cs.CipherSuite) == 0 {
		return h.fail(&Error{ReasonInternal, NoAlert, "tls: handshake ended without TLS 1.3", nil})
	}
	if h.server.engine == EngineLoop && !h.secrets.complete(suiteOf(cs.CipherSuite)) {
		return h.fail(&Error{ReasonInternal, NoAlert, "tls: handshake ended without its secrets", errKeyLog})
	}
	h.server.stats.done.Add(1)
	if cs.DidResume {
		h.server.stats.resumed.Add(1)
	}
	h.status = Done
	return Done, nil
}

// fail ends the handshake; an alert may be left in Output.
func (h *Handshake) fail(err error) (Status, error) {
	h.err, h.status = err, Failed
	if h.job != nil {
		h.job.state.Store(jobDropped)
		h.job = nil
	}
	if h.stop != nil && !h.ended {
		h.server.current = h
		h.stop()
		h.server.current = nil
		h.release()
	}
	h.secrets.wipe()
	h.tls, h.next, h.stop = nil, nil, nil
	h.conn.in = nil
	var e *Error
	if errors.As(err, &e) {
		h.server.stats.failed[e.Reason].Add(1)
	}
	return Failed, err
}

// release counts the coroutine as gone.
func (h *Handshake) release() { h.server.stats.active.Add(^uint64(0)) }

// move empties the handshake, but for Output.
func (h *Handshake) move() (leftover []byte) {
	leftover = h.conn.in
	h.conn.in, h.conn.moved = nil, true
	h.tls, h.next, h.stop = nil, nil, nil
	h.status = Moved
	return leftover
}

// classify gives an error of crypto/tls the reason under which it is counted. The alert is in Output already.
func (h *Handshake) classify(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	reason := ReasonHandshake
	var op *net.OpError
	var header tls.RecordHeaderError
	switch {
	case h.unsigned:
		reason = ReasonSigner
	case errors.As(err, &op) && op.Op == "remote error":
		reason = ReasonPeerAlert
	case errors.As(err, &header):
		reason = ReasonNotTLS
	case errors.Is(err, errKeyLog):
		reason = ReasonInternal
	}
	return &Error{reason, NoAlert, "tls handshake", err}
}
