package h1

import (
	"bytes"
	"strconv"
)

// Limits of a request that is served here; larger ones go to net/http.
const (
	maxHead = 8 << 10
	maxBody = 64 << 10
)

// Request is one request. Its bytes are valid until the handler returns.
type Request struct {
	Route         int // index of the request line
	Host          []byte
	Authorization []byte
	ContentType   []byte
	RequestID     []byte // X-Request-Id
	Body          []byte
}

// verdict is what the start of a connection's bytes is.
type verdict uint8

const (
	short   verdict = iota // not complete
	whole                  // a request for a handler
	foreign                // for net/http
)

// headers that are read, or that make a request foreign.
var headers = [...]struct {
	name    string
	foreign bool
}{
	{"host", false}, {"authorization", false}, {"content-type", false}, {"x-request-id", false}, {"content-length", false}, {"connection", false},
	{"transfer-encoding", true}, {"expect", true}, {"upgrade", true}, {"origin", true}, {"sec-fetch-site", true}, {"idempotency-key", true},
	{"content-encoding", true}, {"trailer", true}, {"te", true}, {"x-http-method-override", true},
}

// parse reads one request from the start of in. n is how many bytes it takes, where that is known: 0 for one without its whole head.
func parse(in []byte, lines []string, r *Request) (v verdict, n int) {
	route, v := requestLine(in, lines)
	if v != whole {
		return v, 0
	}
	end := bytes.Index(in[:min(len(in), maxHead)], []byte("\r\n\r\n"))
	if end < 0 {
		if len(in) >= maxHead {
			return foreign, 0
		}
		return short, 0
	}
	*r = Request{Route: route}
	size, ok := r.fields(in[len(lines[route]) : end+2])
	if !ok {
		return foreign, 0
	}
	if n = end + 4 + size; len(in) < n {
		return short, n
	}
	r.Body = in[end+4 : n : n]
	return whole, n
}

// requestLine finds which of the lines in begins with.
func requestLine(in []byte, lines []string) (route int, v verdict) {
	v = foreign
	for i, l := range lines {
		if len(in) >= len(l) {
			if string(in[:len(l)]) == l {
				return i, whole
			}
		} else if l[:len(in)] == string(in) {
			v = short
		}
	}
	return 0, v
}

// fields reads the header lines, each with its CRLF; false: something here is for net/http.
func (r *Request) fields(b []byte) (size int, ok bool) {
	size = -1
	seen := 0
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n') // the last line ends in one
		line := b[:i]
		b = b[i+1:]
		if len(line) == 0 || line[len(line)-1] != '\r' {
			return 0, false
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 {
			return 0, false
		}
		value := bytes.Trim(line[colon+1:len(line)-1], " \t")
		if !tokens(line[:colon]) || !printable(value) {
			return 0, false
		}
		k := header(line[:colon])
		if k < 0 {
			continue
		}
		if headers[k].foreign || seen&(1<<k) != 0 {
			return 0, false
		}
		seen |= 1 << k
		if size, ok = r.set(k, value, size); !ok {
			return 0, false
		}
	}
	return size, size >= 0 && len(r.Host) > 0
}

func (r *Request) set(k int, value []byte, size int) (int, bool) {
	switch headers[k].name {
	case "host":
		r.Host = value
		return size, hostBytes(value)
	case "authorization":
		r.Authorization = value
	case "content-type":
		r.ContentType = value
	case "x-request-id":
		r.RequestID = value
	case "connection":
		return size, fold(value, "keep-alive")
	case "content-length":
		if len(value) == 0 || len(value) > 6 || bytes.IndexFunc(value, func(c rune) bool { return c < '0' || c > '9' }) >= 0 {
			return 0, false
		}
		n, err := strconv.Atoi(string(value))
		return n, err == nil && n <= maxBody
	}
	return size, true
}

func header(name []byte) int {
	for i := range headers {
		if fold(name, headers[i].name) {
			return i
		}
	}
	return -1
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

// tokens reports whether a header's name has only the characters of one (RFC 9110, section 5.6.2).
func tokens(b []byte) bool {
	for _, c := range b {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false // others are allowed and rare: net/http knows them
		}
	}
	return true
}

// hostBytes reports whether a Host header is plainly a name or an address with its port; what else may be there is net/http's affair.
func hostBytes(b []byte) bool {
	for _, c := range b {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == ':', c == '[', c == ']':
		default:
			return false
		}
	}
	return true
}

func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}
