package floor

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
)

// Types of the content of a record (RFC 8446 section 5.1).
const (
	RecordAlert     = 21
	RecordHandshake = 22
	RecordData      = 23
)

const (
	recordHeader = 5
	maxRecord    = recordHeader + 1<<14 + 256
)

// ErrRecord says that a record is not as it should be. The connection is over.
var ErrRecord = errors.New("tls: bad record")

// Record protects one direction of a TLS 1.3 connection after its handshake. Its AEAD object is kept, so that a seal is a seal and
// nothing else.
type Record struct {
	aead  cipher.AEAD
	iv    [12]byte
	nonce [12]byte // scratch: what an interface gets must not be on the stack
	seq   uint64
}

// NewRecord makes the keys of a direction from its traffic secret.
func NewRecord(suite uint16, secret []byte) (*Record, error) {
	var h func() hash.Hash
	var size int
	switch suite {
	case tls.TLS_AES_128_GCM_SHA256:
		h, size = sha256.New, 16
	case tls.TLS_AES_256_GCM_SHA384:
		h, size = sha512.New384, 32
	default:
		return nil, fmt.Errorf("cipher suite %s is not one of AES-GCM", tls.CipherSuiteName(suite))
	}
	key, err := expandLabel(h, secret, "key", size)
	if err != nil {
		return nil, err
	}
	iv, err := expandLabel(h, secret, "iv", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	r := &Record{iv: [12]byte(iv)}
	r.aead, err = cipher.NewGCM(block)
	return r, err
}

// expandLabel is HKDF-Expand-Label with an empty context (RFC 8446 section 7.1).
func expandLabel(h func() hash.Hash, secret []byte, label string, n int) ([]byte, error) {
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(info, byte(len("tls13 ")+len(label)))
	info = append(info, "tls13 "+label...)
	info = append(info, 0)
	return hkdf.Expand(h, secret, string(info), n)
}

// next makes the nonce of the next record.
func (r *Record) next() []byte {
	r.nonce = r.iv
	binary.BigEndian.PutUint64(r.nonce[4:], binary.BigEndian.Uint64(r.nonce[4:])^r.seq)
	r.seq++
	return r.nonce[:]
}

// Seal appends plaintext, at most 16 KiB, as one record of application data to dst, whose spare capacity must not overlap plaintext.
func (r *Record) Seal(dst, plaintext []byte) []byte {
	at := len(dst)
	dst = append(dst, RecordData, 3, 3, 0, 0)
	binary.BigEndian.PutUint16(dst[at+3:], uint16(len(plaintext)+1+r.aead.Overhead()))
	dst = append(dst, plaintext...)
	dst = append(dst, RecordData)
	head := dst[at : at+recordHeader]
	body := dst[at+recordHeader:]
	sealed := r.aead.Seal(body[:0], r.next(), body, head)
	return append(dst[:at+recordHeader], sealed...)
}

// RecordLen is the length of the record at the start of b with its header, 0 while the header is not there.
func RecordLen(b []byte) int {
	if len(b) < recordHeader {
		return 0
	}
	return recordHeader + int(binary.BigEndian.Uint16(b[3:]))
}

// Open decrypts one whole record in place. plaintext aliases it.
func (r *Record) Open(record []byte) (kind uint8, plaintext []byte, err error) {
	if len(record) > maxRecord || record[0] != RecordData {
		return 0, nil, ErrRecord
	}
	body := record[recordHeader:]
	p, err := r.aead.Open(body[:0], r.next(), body, record[:recordHeader])
	if err != nil {
		return 0, nil, err
	}
	for len(p) > 0 && p[len(p)-1] == 0 {
		p = p[:len(p)-1]
	}
	if len(p) == 0 {
		return 0, nil, ErrRecord
	}
	return p[len(p)-1], p[:len(p)-1], nil
}

// secrets is a key log that keeps the traffic secrets of one connection.
type secrets struct{ client, server []byte }

func (s *secrets) Write(line []byte) (int, error) {
	f := bytes.Fields(line)
	if len(f) != 3 {
		return 0, errors.New("key log line not understood")
	}
	secret, err := hex.DecodeString(string(f[2]))
	if err != nil {
		return 0, err
	}
	switch string(f[0]) {
	case "CLIENT_TRAFFIC_SECRET_0":
		s.client = secret
	case "SERVER_TRAFFIC_SECRET_0":
		s.server = secret
	}
	return len(line), nil
}
