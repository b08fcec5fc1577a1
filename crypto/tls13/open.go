package tls13

import "math"

// Event is what a record was.
type Event uint8

// The events.
const (
	EventNone        Event = iota // an error
	EventData                     // plaintext is application data, never empty
	EventKeyUpdate                // the peer's key was replaced; see Record.Pending for the answer that may be due
	EventCloseNotify              // the peer closed its direction in order
	EventAlert                    // the peer gave up; plaintext is the alert, two bytes: level and description
	EventIgnored                  // nothing to do: empty record, part of a message, or something after the close
)

// RecordLen reads the header of a protected record. It wants five bytes: with fewer, ok is false and err nil. total
// counts the header and is at most MaxRecord. An error is final, and its alert should be sent.
func RecordLen(hdr []byte) (total int, ok bool, err error) {
	if len(hdr) >= 1 && hdr[0] != typeApplication {
		// After the handshake there are no other outer types: change_cipher_spec ends with the Finished (section 5), and
		// alerts are protected.
		return 0, false, errType
	}
	if len(hdr) >= 3 && (hdr[1] != 3 || hdr[2] != 3) {
		return 0, false, errVersion
	}
	if len(hdr) < headerLen {
		return 0, false, nil
	}
	n := int(hdr[3])<<8 | int(hdr[4])
	if n > maxCiphertext {
		return 0, false, errOverflow
	}
	return headerLen + n, true, nil
}

// Open decrypts one record in place; rec is exactly what RecordLen measured. plaintext aliases rec. On an error the
// connection is over: send the alert of the error and close. Further calls answer an error, too.
func (r *Record) Open(c *Cache, key uint64, rec []byte) (ev Event, plaintext []byte, err error) {
	if r.read.suite == 0 || r.read.flags&flagFailed != 0 {
		return EventNone, nil, errClosed
	}
	if r.read.flags&flagClosed != 0 {
		return EventIgnored, nil, nil // section 6.1: what follows a closure alert is ignored
	}
	ev, plaintext, err = r.open(c, key, rec)
	if err != nil {
		r.read.flags |= flagFailed
	}
	return ev, plaintext, err
}

func (r *Record) open(c *Cache, key uint64, rec []byte) (Event, []byte, error) {
	total, ok, err := RecordLen(rec)
	if err != nil {
		return EventNone, nil, err
	}
	if !ok || total != len(rec) {
		return EventNone, nil, errLength
	}
	if r.read.seq == math.MaxUint64 {
		return EventNone, nil, errSequence
	}
	aead, err := c.opener(r, key)
	if err != nil {
		return EventNone, nil, err
	}
	r.read.nonce(&c.nonce)
	inner, err := aead.Open(rec[headerLen:headerLen], c.nonce[:], rec[headerLen:], rec[:headerLen])
	if err != nil {
		return EventNone, nil, errMAC
	}
	r.read.seq++
	if len(inner) > maxInner {
		return EventNone, nil, errOverflow
	}
	for len(inner) > 0 && inner[len(inner)-1] == 0 {
		inner = inner[:len(inner)-1]
	}
	if len(inner) == 0 {
		return EventNone, nil, errPadding
	}
	content, typ := inner[:len(inner)-1], inner[len(inner)-1]
	if typ != typeHandshake && r.read.flags>>partShift != 0 {
		return EventNone, nil, errMessage // section 5.1: nothing comes between the parts of a handshake message
	}
	if typ == typeApplication && len(content) > 0 {
		r.read.count = 0
		return EventData, content, nil
	}
	if r.read.count++; r.read.count > maxIdle {
		return EventNone, nil, errFlood
	}
	switch typ {
	case typeApplication:
		return EventIgnored, nil, nil
	case typeAlert:
		return r.openAlert(content)
	case typeHandshake:
		return r.openHandshake(c, key, content)
	}
	return EventNone, nil, errMessage
}

func (r *Record) openAlert(content []byte) (Event, []byte, error) {
	if len(content) != 2 {
		return EventNone, nil, errDecode
	}
	switch Alert(content[1]) {
	case AlertUserCanceled: // says nothing by itself; a close_notify follows (section 6.1)
		return EventIgnored, nil, nil
	case AlertCloseNotify:
		r.read.flags |= flagClosed
		return EventCloseNotify, nil, nil
	}
	r.read.flags |= flagClosed
	return EventAlert, content, nil
}

// openHandshake takes a KeyUpdate, whole or in parts, which is the only handshake message that a client may send now. It
// must end where its record ends, as the next record has another key.
func (r *Record) openHandshake(c *Cache, key uint64, content []byte) (Event, []byte, error) {
	if len(content) == 0 {
		return EventNone, nil, errMessage // section 5.1: no empty fragments
	}
	part := r.read.flags >> partShift
	for i, b := range content {
		switch {
		case part == 0 && b != msgKeyUpdate:
			return EventNone, nil, errMessage
		case part == 1 && b != 0, part == 2 && b != 0, part == 3 && b != 1:
			return EventNone, nil, errDecode // the body is one byte
		case part == 4 && b != updateNotRequested && b != updateRequested:
			return EventNone, nil, errIllegal
		case part == 4 && i != len(content)-1:
			return EventNone, nil, errMessage
		}
		part++
	}
	r.read.flags &= 1<<partShift - 1
	if part < 5 {
		r.read.flags |= part << partShift
		return EventIgnored, nil, nil
	}
	if content[len(content)-1] == updateRequested {
		r.write.flags |= flagUpdateDue
	}
	if err := r.read.rotate(); err != nil {
		return EventNone, nil, err
	}
	c.rotatedRead(key)
	return EventKeyUpdate, nil, nil
}
