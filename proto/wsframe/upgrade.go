package wsframe

import (
	"bytes"
	"encoding/base64"
	"errors"
)

// Limits of the opening handshake.
const (
	MaxRequest   = 8 << 10 // bytes of the request, with its empty line
	maxHeaders   = 64
	maxProtocols = 8 // offers beyond these are not looked at
)

// ErrShort says that the request is not complete.
var ErrShort = errors.New("wsframe: the request is not complete")

// RequestError is a request that can't be upgraded, with the HTTP status that answers it.
type RequestError struct {
	Status int
	Text   string
}

func (e *RequestError) Error() string { return e.Text }

var (
	errStart     = &RequestError{400, "not an HTTP/1.1 request"}
	errMethod    = &RequestError{405, "the method must be GET"}
	errVersion   = &RequestError{505, "the HTTP version must be 1.1"}
	errTarget    = &RequestError{400, "the request target must be a path"}
	errTooLarge  = &RequestError{431, "the request is larger than 8 KiB or has more than 64 header lines"}
	errHeader    = &RequestError{400, "a header line is malformed"}
	errTwice     = &RequestError{400, "a header that may stand once stands twice"}
	errHost      = &RequestError{400, "the Host header is missing"}
	errBody      = &RequestError{400, "an upgrade request has no body"}
	errUpgrade   = &RequestError{426, "this address speaks WebSocket: send Upgrade: websocket and Connection: Upgrade"}
	errWSVersion = &RequestError{426, "the Sec-WebSocket-Version must be 13"}
	errKey       = &RequestError{400, "the Sec-WebSocket-Key must be 16 bytes in base64"}
)

// Upgrade is what a client asked for. The slices alias the request.
type Upgrade struct {
	Path          []byte
	Query         []byte // without the question mark
	Host          []byte
	Origin        []byte // empty: not a browser
	Authorization []byte

	key       [24]byte
	protocols [maxProtocols][]byte
	offered   int
}

// Offers reports whether the client offered the subprotocol (case-sensitive, as the RFC says).
func (u *Upgrade) Offers(name string) bool {
	for _, p := range u.protocols[:u.offered] {
		if string(p) == name {
			return true
		}
	}
	return false
}

// Choose is the first of names that the client offered, or empty.
func (u *Upgrade) Choose(names ...string) string {
	for _, n := range names {
		if u.Offers(n) {
			return n
		}
	}
	return ""
}

// ParseUpgrade reads one request from the start of in and returns how many bytes it takes. ErrShort: wait for more. A
// [*RequestError] says how to refuse it; it may come before the request is complete.
func ParseUpgrade(in []byte, u *Upgrade) (n int, err error) {
	if err := checkStart(in); err != nil {
		return 0, err
	}
	end := bytes.Index(in[:min(len(in), MaxRequest)], []byte("\r\n\r\n"))
	if end < 0 {
		if len(in) >= MaxRequest {
			return 0, errTooLarge
		}
		return 0, ErrShort
	}
	*u = Upgrade{}
	head := in[:end+2] // each line with its CRLF
	line, rest, _ := cutLine(head)
	if err := u.requestLine(line); err != nil {
		return 0, err
	}
	if err := u.headers(rest); err != nil {
		return 0, err
	}
	return end + 4, nil
}

// checkStart refuses what can't become a GET, before it is complete.
func checkStart(in []byte) error {
	const get = "GET "
	if n := min(len(in), len(get)); string(in[:n]) == get[:n] {
		return nil
	}
	for i, c := range in[:min(len(in), 16)] {
		if c == ' ' && i > 0 {
			return errMethod
		}
		if c < 'A' || c > 'Z' {
			return errStart
		}
	}
	if len(in) < 16 {
		return ErrShort
	}
	return errStart
}

// cutLine cuts at CRLF. A CR or LF alone stays in the line, where no rule accepts it.
func cutLine(b []byte) (line, rest []byte, ok bool) {
	i := bytes.Index(b, []byte("\r\n"))
	if i < 0 {
		return b, nil, false
	}
	return b[:i], b[i+2:], true
}

func (u *Upgrade) requestLine(line []byte) error {
	target, version, ok := bytes.Cut(line[len("GET "):], []byte(" "))
	if !ok || !bytes.HasPrefix(version, []byte("HTTP/")) {
		return errStart
	}
	if string(version) != "HTTP/1.1" {
		return errVersion
	}
	if len(target) == 0 || target[0] != '/' {
		return errTarget
	}
	for _, c := range target {
		if c <= ' ' || c >= 0x7f || c == '#' {
			return errTarget
		}
	}
	u.Path, u.Query, _ = bytes.Cut(target, []byte("?"))
	return nil
}

// seen bits of headers that matter.
const (
	seenHost = 1 << iota
	seenOrigin
	seenAuth
	seenKey
	seenVersion
	seenUpgrade
	seenConnection
)

func (u *Upgrade) headers(b []byte) error {
	seen := 0
	for count := 0; len(b) > 0; count++ {
		if count == maxHeaders {
			return errTooLarge
		}
		line, rest, _ := cutLine(b)
		b = rest
		name, value, err := splitHeader(line)
		if err != nil {
			return err
		}
		bit, err := u.header(name, value)
		if err != nil {
			return err
		}
		const once = seenHost | seenOrigin | seenAuth | seenKey | seenVersion
		if seen&bit&once != 0 {
			return errTwice
		}
		seen |= bit
	}
	switch {
	case seen&seenHost == 0:
		return errHost
	case seen&seenUpgrade == 0 || seen&seenConnection == 0:
		return errUpgrade
	case seen&seenVersion == 0:
		return errWSVersion
	case seen&seenKey == 0:
		return errKey
	}
	return nil
}

// splitHeader cuts name and value and checks their bytes (RFC 9110, section 5.5; a folded line is refused).
func splitHeader(line []byte) (name, value []byte, err error) {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || len(name) == 0 {
		return nil, nil, errHeader
	}
	for _, c := range name {
		if !isToken(c) {
			return nil, nil, errHeader
		}
	}
	value = bytes.Trim(value, " \t")
	for _, c := range value {
		if (c < ' ' && c != '\t') || c == 0x7f {
			return nil, nil, errHeader
		}
	}
	return name, value, nil
}

func (u *Upgrade) header(name, value []byte) (bit int, err error) {
	switch {
	case fold(name, "host"):
		u.Host = value
		if len(value) == 0 {
			return 0, errHost
		}
		return seenHost, nil
	case fold(name, "origin"):
		u.Origin = value
		return seenOrigin, nil
	case fold(name, "authorization"):
		u.Authorization = value
		return seenAuth, nil
	case fold(name, "upgrade"):
		if hasToken(value, "websocket") {
			return seenUpgrade, nil
		}
	case fold(name, "connection"):
		if hasToken(value, "upgrade") {
			return seenConnection, nil
		}
	case fold(name, "sec-websocket-version"):
		if string(value) != "13" {
			return 0, errWSVersion
		}
		return seenVersion, nil
	case fold(name, "sec-websocket-key"):
		var raw [18]byte
		if len(value) != len(u.key) {
			return 0, errKey
		}
		if n, err := base64.StdEncoding.Strict().Decode(raw[:], value); err != nil || n != 16 {
			return 0, errKey
		}
		copy(u.key[:], value)
		return seenKey, nil
	case fold(name, "sec-websocket-protocol"):
		u.addProtocols(value)
	case fold(name, "transfer-encoding"):
		return 0, errBody
	case fold(name, "content-length"):
		if string(value) != "0" {
			return 0, errBody
		}
	}
	return 0, nil
}

func (u *Upgrade) addProtocols(value []byte) {
	for len(value) > 0 && u.offered < maxProtocols {
		var item []byte
		item, value, _ = bytes.Cut(value, []byte(","))
		if item = bytes.Trim(item, " \t"); len(item) > 0 {
			u.protocols[u.offered] = item
			u.offered++
		}
	}
}

// hasToken looks for a token in a comma-separated list, without regard to case.
func hasToken(list []byte, token string) bool {
	for len(list) > 0 {
		var item []byte
		item, list, _ = bytes.Cut(list, []byte(","))
		if fold(bytes.Trim(item, " \t"), token) {
			return true
		}
	}
	return false
}

// fold compares without regard to ASCII case; lower is in lower case.
func fold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func isToken(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) >= 0
}
