package tls13

import (
	"bytes"
	"encoding/hex"
	"errors"
)

// Labels of the key log format (RFC 9850 section 2) that carry the secrets of application data.
const (
	labelClient = "CLIENT_TRAFFIC_SECRET_0"
	labelServer = "SERVER_TRAFFIC_SECRET_0"
)

var errKeyLog = errors.New("key log line not as expected")

// keyLog takes the lines that crypto/tls logs, in memory, for the handshake that is being resumed. crypto/tls calls it under a mutex
// of the process, so it is short, and it is the only place where a secret is text.
type keyLog struct{ s *Server }

// Write gets one line. It zeroes it: a writer should leave its argument alone, but this one is made for the call, holds a
// secret, and is dropped by crypto/tls after it. The errors end the handshake.
func (k keyLog) Write(line []byte) (int, error) {
	defer clear(line)
	if k.s.current == nil {
		return 0, errKeyLog
	}
	if err := k.s.current.secrets.add(line); err != nil {
		return 0, err
	}
	return len(line), nil
}

// secrets are what one handshake logged.
type secrets struct {
	random         [32]byte // of the client: must be the same in both lines
	client, server [maxSecretLen]byte
	clientLen      int // 0 until the line came
	serverLen      int
}

// add parses "LABEL random secret\n" in lower-case hexadecimal. Other labels are ignored.
func (s *secrets) add(line []byte) error {
	label, rest, _ := bytes.Cut(line, []byte{' '})
	var into *[maxSecretLen]byte
	var length *int
	switch string(label) {
	case labelClient:
		into, length = &s.client, &s.clientLen
	case labelServer:
		into, length = &s.server, &s.serverLen
	default:
		return nil
	}
	random, secret, ok := bytes.Cut(bytes.TrimSuffix(rest, []byte{'\n'}), []byte{' '})
	if !ok || *length != 0 || len(random) != 2*len(s.random) || len(secret) > 2*maxSecretLen || len(secret) == 0 {
		return errKeyLog
	}
	var r [32]byte
	if _, err := hex.Decode(r[:], random); err != nil {
		return errKeyLog
	}
	if s.clientLen+s.serverLen > 0 && r != s.random {
		return errKeyLog
	}
	n, err := hex.Decode(into[:], secret)
	if err != nil {
		return errKeyLog
	}
	s.random, *length = r, n
	return nil
}

// complete says that both secrets are there with the length of the suite.
func (s *secrets) complete(su suite) bool {
	return su != 0 && s.clientLen == su.secretLen() && s.serverLen == su.secretLen()
}

func (s *secrets) wipe() { *s = secrets{} }
