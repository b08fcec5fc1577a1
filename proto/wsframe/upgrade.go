package wsframe

import (
	"bytes"
	"encoding/base64"
)

// Limits of the opening handshake.
const (
	MaxRequest   = 8 << 10 // bytes of the request, with its empty line
	maxHeaders   = 64
	maxProtocols = 8 // offers beyond these are not looked at
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

// ParseUpgrade reads one request from the start of in and returns how many bytes it takes, with the empty line at its end. [ErrShort]: call
// again with more bytes, all from the start; what that looks at again are 8 KiB at most, for line ends alone. A [*RequestError] says how
// to refuse it; it may come before the request is complete. After an error u means nothing.
func ParseUpgrade(in []byte, u *Upgrade) (n int, err error) {
	if err := checkStart(in); err != nil {
		return 0, err
	}
	n, err = requestEnd(in)
	if err != nil {
		return 0, err
	}
	*u = Upgrade{}
	line, rest := cutLine(in[:n-2])
	if err := u.requestLine(line); err != nil {
		return 0, err
	}
	if err := u.headers(rest); err != nil {
		return 0, err
	}
	return n, nil
}

// requestEnd finds the end of a request and refuses what makes it endless: too many bytes or lines, or lines that end in a way that is not ours.
func requestEnd(in []byte) (int, error) {
	in = in[:min(len(in), MaxRequest)]
	for start, lines := 0, 0; ; lines++ {
		i := bytes.IndexByte(in[start:], '\n')
		switch {
		case i < 0 && len(in) == MaxRequest, i > 1 && lines > maxHeaders:
			return 0, errTooLarge
		case i < 0:
			return 0, ErrShort
		case i == 0 || in[start+i-1] != '\r':
			return 0, errLine
		case i == 1:
			return start + 2, nil
		}
		start += i + 1
	}
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

// cutLine takes the first of lines that all end with CRLF. A CR alone stays in the line, where no rule accepts it.
func cutLine(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n')
	return b[:i-1], b[i+1:]
}

func (u *Upgrade) requestLine(line []byte) error {
	target, version, ok := bytes.Cut(line[len("GET "):], []byte(" "))
	if !ok || !isVersion(version) {
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

// isVersion accepts HTTP/ digit . digit (RFC 9112, section 2.3).
func isVersion(v []byte) bool {
	const form = "HTTP/d.d"
	if len(v) != len(form) {
		return false
	}
	for i, c := range v {
		if want := form[i]; want == 'd' && (c < '0' || c > '9') || want != 'd' && c != want {
			return false
		}
	}
	return true
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
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
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
		if !isHost(value) {
			return 0, errHost
		}
		u.Host = value
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
		if len(value) != len(u.key) {
			return 0, errKey
		}
		var raw [18]byte // the most that 24 characters can be
		if n, err := base64.StdEncoding.Decode(raw[:], value); err != nil || n != 16 {
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

// isToken accepts the bytes of header names (RFC 9110, section 5.6.2).
func isToken(c byte) bool {
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		return true
	}
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// isHost keeps out what could be read as more than a host and a port. Names are compared, never resolved.
func isHost(h []byte) bool {
	for _, c := range h {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case bytes.IndexByte([]byte("-._~!$&'()*+,;=:[]%"), c) >= 0:
		default:
			return false
		}
	}
	return len(h) > 0
}
