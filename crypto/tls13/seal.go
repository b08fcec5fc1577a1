package tls13

import "slices"

// sealOverhead is what a record adds to its content: header, inner type, tag.
const sealOverhead = headerLen + 1 + tagLen

// SealedLen is how many bytes n bytes of plaintext take on the wire, KeyUpdates (at most one of 27 bytes in 2^24 records) aside.
func SealedLen(n int) int {
	return n + (n+maxPlaintext-1)/maxPlaintext*sealOverhead
}

// AppendSeal protects plaintext in as many records as it needs and appends them to dst, whose spare capacity must not
// overlap plaintext. A KeyUpdate that is due, or that the limit of the write key demands, goes first. What is returned
// has to be sent whole and before anything sealed later. On an error dst must be discarded and the connection closed.
func (r *Record) AppendSeal(c *Cache, key uint64, dst, plaintext []byte) ([]byte, error) {
	if r.write.flags&flagClosed != 0 || r.write.suite == 0 {
		return dst, errClosed
	}
	dst, err := r.AppendPending(c, key, dst)
	if err != nil {
		return dst, err
	}
	dst = slices.Grow(dst, SealedLen(len(plaintext)))
	for len(plaintext) > 0 {
		n := min(len(plaintext), maxPlaintext)
		if r.write.seq >= keyLimit-1 { // the last one is the KeyUpdate
			if dst, err = r.appendUpdate(c, key, dst, updateNotRequested); err != nil {
				return dst, err
			}
		}
		if dst, err = r.sealOne(c, key, dst, typeApplication, plaintext[:n]); err != nil {
			return dst, err
		}
		plaintext = plaintext[n:]
	}
	return dst, nil
}

// AppendPending appends the KeyUpdate that answers the peer's, if one is due: under the old key, which is replaced then. Any
// number of requests since the last call needs one answer (RFC 8446 section 4.6.3).
func (r *Record) AppendPending(c *Cache, key uint64, dst []byte) ([]byte, error) {
	if !r.Pending() {
		return dst, nil
	}
	return r.appendUpdate(c, key, dst, updateNotRequested)
}

// AppendKeyUpdate replaces the write key and asks the peer to replace its own.
func (r *Record) AppendKeyUpdate(c *Cache, key uint64, dst []byte) ([]byte, error) {
	if r.write.flags&flagClosed != 0 || r.write.suite == 0 {
		return dst, errClosed
	}
	return r.appendUpdate(c, key, dst, updateRequested)
}

// NeedsUpdate says that the next AppendSeal will begin with a KeyUpdate: an answer is due, or the write key is near its limit.
func (r *Record) NeedsUpdate() bool {
	return r.Pending() || r.write.flags&flagClosed == 0 && r.write.seq >= keyLimit-1
}

// AppendCloseNotify ends the write direction in order. When it was ended before, it appends nothing.
func (r *Record) AppendCloseNotify(c *Cache, key uint64, dst []byte) ([]byte, error) {
	return r.AppendAlert(c, key, dst, AlertCloseNotify)
}

// AppendAlert tells the peer why the connection ends and closes the write direction: nothing can be sealed after it. When
// the direction was closed before, or a is NoAlert, it appends nothing.
func (r *Record) AppendAlert(c *Cache, key uint64, dst []byte, a Alert) ([]byte, error) {
	if r.write.flags&flagClosed != 0 || r.write.suite == 0 || a == NoAlert {
		return dst, nil
	}
	level := byte(2) // fatal
	if a == AlertCloseNotify || a == AlertUserCanceled {
		level = 1
	}
	c.msg[0], c.msg[1] = level, byte(a)
	dst, err := r.sealOne(c, key, dst, typeAlert, c.msg[:2])
	r.write.flags |= flagClosed
	return dst, err
}

func (r *Record) appendUpdate(c *Cache, key uint64, dst []byte, request byte) ([]byte, error) {
	c.msg = [5]byte{msgKeyUpdate, 0, 0, 1, request}
	dst, err := r.sealOne(c, key, dst, typeHandshake, c.msg[:])
	if err != nil {
		return dst, err
	}
	r.write.flags &^= flagUpdateDue
	if err := r.write.rotate(); err != nil {
		r.write.flags |= flagClosed
		return dst, err
	}
	c.rotatedWrite(key, r.write.epoch)
	return dst, nil
}

// sealOne appends one record (RFC 8446 section 5.2).
func (r *Record) sealOne(c *Cache, key uint64, dst []byte, typ byte, content []byte) ([]byte, error) {
	if r.write.seq >= keyLimit { // unreachable while AppendSeal rotates in time
		r.write.flags |= flagClosed
		return dst, errSequence
	}
	e, err := c.sealer(r, key)
	if err != nil {
		r.write.flags |= flagClosed
		return dst, err
	}
	n := len(content) + 1 + tagLen
	dst = slices.Grow(dst, headerLen+n)
	start := len(dst)
	dst = append(dst, typeApplication, 3, 3, byte(n>>8), byte(n))
	dst = append(dst, content...)
	dst = append(dst, typ)
	r.write.nonce(&c.nonce)
	inner := dst[start+headerLen:]
	e.seal.Seal(inner[:0], c.nonce[:], inner, dst[start:start+headerLen])
	r.write.seq++
	e.next = r.write.seq
	return dst[:start+headerLen+n], nil
}
