package tls13

// Record is the state of one established connection: both traffic secrets with their keys, sequence numbers and a few flags.
// It has no pointers, so that a slab of them costs the garbage collector nothing. Its zero value has no keys and refuses everything.
//
// A Record belongs to one goroutine and must be moved, never used from two copies. Calls on one connection take the
// loop's Cache and the key under which the cache knows the connection: a handle that is never reused.
type Record struct {
	read  half
	write half
}

// half is one direction. The last eight bytes of the two halves also carry the state of the connection as a whole:
// they would be padding otherwise.
type half struct {
	seq    uint64
	secret [maxSecretLen]byte
	key    [maxKeyLen]byte
	iv     [ivLen]byte
	epoch  uint8 // counts KeyUpdates; only equality and small distances matter
	suite  suite
	flags  uint8
	count  uint8 // of read: records in a row without application data; of write: unused
}

// Flags of read.flags and of write.flags.
const (
	flagClosed    uint8 = 1 << iota // the direction is over: an alert was received or sent
	flagFailed                      // read: a fatal error was reported
	flagUpdateDue                   // write: a KeyUpdate has to be sent before the next data
	// The low bits above hold how many bytes of a fragmented KeyUpdate were read: 0 to 4, in read.flags.
	partShift = 4
)

// Limits of the record layer.
const (
	headerLen     = 5
	maxPlaintext  = 16384
	maxCiphertext = maxPlaintext + 256
	// maxInner is content, type and padding together (RFC 8446 section 5.4).
	maxInner = maxPlaintext + 1

	// MaxRecord is the largest protected record on the wire, header included.
	MaxRecord = headerLen + maxCiphertext

	// maxIdle is how many records in a row may arrive without application data: KeyUpdates, fragments, empty records, ignored alerts.
	maxIdle = 16

	// keyLimit is how many records one write key protects at most.
	keyLimit = 1 << 24
)

// Content types (RFC 8446 section 5.1).
const (
	typeCCS         = 20
	typeAlert       = 21
	typeHandshake   = 22
	typeApplication = 23
)

// Handshake message type and body values of KeyUpdate (RFC 8446 section 4.6.3).
const (
	msgKeyUpdate       = 24
	updateNotRequested = 0
	updateRequested    = 1
)

// init gives the record its keys. secretLen bytes of each secret are read.
func (r *Record) init(s suite, readSecret, writeSecret []byte, writeSeq uint64) error {
	r.Wipe(nil, 0)
	r.read.suite, r.write.suite = s, s
	copy(r.read.secret[:], readSecret)
	copy(r.write.secret[:], writeSecret)
	if err := r.read.derive(); err != nil {
		return err
	}
	if err := r.write.derive(); err != nil {
		return err
	}
	r.write.seq = writeSeq
	return nil
}

// derive sets key and iv from the secret and starts the sequence (RFC 8446 section 7.3).
func (h *half) derive() error {
	secret := h.secret[:h.suite.secretLen()]
	if err := h.suite.expand(h.key[:h.suite.keyLen()], secret, "key"); err != nil {
		return &Error{ReasonInternal, AlertInternalError, "tls: derive a traffic key", err}
	}
	if err := h.suite.expand(h.iv[:], secret, "iv"); err != nil {
		return &Error{ReasonInternal, AlertInternalError, "tls: derive an initialization vector", err}
	}
	h.seq = 0
	return nil
}

// rotate replaces the secret by the next generation (RFC 8446 section 7.2) and the keys with it.
func (h *half) rotate() error {
	var next [maxSecretLen]byte
	n := h.suite.secretLen()
	if err := h.suite.expand(next[:n], h.secret[:n], "traffic upd"); err != nil {
		return &Error{ReasonInternal, AlertInternalError, "tls: derive the next traffic secret", err}
	}
	h.secret = next
	clear(next[:])
	h.epoch++
	return h.derive()
}

// nonce writes the per-record nonce into n (RFC 8446 section 5.3).
func (h *half) nonce(n *[ivLen]byte) {
	*n = h.iv
	for i := range 8 {
		n[ivLen-1-i] ^= byte(h.seq >> (8 * i))
	}
}

// CipherSuite is the negotiated suite as crypto/tls numbers it, 0 without keys.
func (r *Record) CipherSuite() uint16 {
	if r.write.suite == 0 {
		return 0
	}
	return r.write.suite.id()
}

// Pending says that a KeyUpdate is due: the next AppendSeal sends it, or AppendPending does.
func (r *Record) Pending() bool { return r.write.flags&(flagUpdateDue|flagClosed) == flagUpdateDue }

// ReadClosed says that the peer will send no more: its close_notify or another alert was read.
func (r *Record) ReadClosed() bool { return r.read.flags&flagClosed != 0 }

// WriteClosed says that an alert of ours was sealed: nothing can follow it.
func (r *Record) WriteClosed() bool { return r.write.flags&flagClosed != 0 }

// Wipe zeroes the record and drops its AEADs from the cache. c may be nil when the connection was never in one.
func (r *Record) Wipe(c *Cache, key uint64) {
	*r = Record{}
	if c != nil {
		c.Drop(key)
	}
}
