package wsframe_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/klinkio/klink/proto/wsframe"
)

// good is the example of RFC 6455, section 1.2, line by line.
var good = []string{
	"GET /chat?a=b&c=%20 HTTP/1.1",
	"Host: server.example.com",
	"Upgrade: websocket",
	"Connection: Upgrade",
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
	"Origin: http://example.com",
	"Sec-WebSocket-Protocol: chat, superchat",
	"Sec-WebSocket-Version: 13",
}

// request joins lines as HTTP does.
func request(lines ...string) string { return strings.Join(lines, "\r\n") + "\r\n\r\n" }

// with is the good request with one line replaced (by none, one or more, separated with "|"), found by how it starts, or with lines added
// when prefix is empty.
func with(prefix, repl string) string {
	var lines []string
	if repl != "" {
		lines = strings.Split(repl, "|")
	}
	if prefix == "" {
		return request(append(append([]string{}, good...), lines...)...)
	}
	var out []string
	for _, l := range good {
		if strings.HasPrefix(l, prefix) {
			out = append(out, lines...)
			continue
		}
		out = append(out, l)
	}
	return request(out...)
}

func TestParseUpgrade(t *testing.T) {
	t.Parallel()
	in := with("", "Authorization: Bearer abc|X-Other: \t x\xff y \t |Empty:")
	var u wsframe.Upgrade
	n, err := wsframe.ParseUpgrade([]byte(in+"pipelined\r\n\r\n"), &u)
	if err != nil || n != len(in) {
		t.Fatalf("took %d of %d: %v", n, len(in), err)
	}
	for _, f := range []struct{ name, got, want string }{
		{"path", string(u.Path), "/chat"},
		{"query", string(u.Query), "a=b&c=%20"},
		{"host", string(u.Host), "server.example.com"},
		{"origin", string(u.Origin), "http://example.com"},
		{"authorization", string(u.Authorization), "Bearer abc"},
		{"choice of the server's first", u.Choose("none", "superchat", "chat"), "superchat"},
		{"choice of nothing", u.Choose("none", "Chat"), ""},
		{"accept", acceptOf(&u), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="}, // RFC 6455, section 1.3
	} {
		if f.got != f.want {
			t.Errorf("%s: got %q, want %q", f.name, f.got, f.want)
		}
	}
	if !u.Offers("chat") || !u.Offers("superchat") || u.Offers("") || u.Offers("cha") {
		t.Error("the offers are chat and superchat")
	}
	// The same Upgrade serves many connections: nothing of the last request may be left.
	if _, err := wsframe.ParseUpgrade([]byte(request(good[0], good[1], good[2], good[3], good[4], good[7])), &u); err != nil {
		t.Fatal(err)
	}
	if len(u.Origin) > 0 || len(u.Authorization) > 0 || u.Offers("chat") {
		t.Errorf("left from the request before: %q, %q", u.Origin, u.Authorization)
	}
}

func acceptOf(u *wsframe.Upgrade) string {
	_, rest, _ := strings.Cut(string(wsframe.AppendAccept(nil, u, "")), "Sec-WebSocket-Accept: ")
	key, _, _ := strings.Cut(rest, "\r\n")
	return key
}

func TestUpgradesThatAreGood(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"as in the RFC":                 request(good...),
		"names without regard to case":  strings.NewReplacer("Host", "hOST", "Upgrade:", "UPGRADE:", "Connection:", "connection:", "Sec-WebSocket", "sec-websocket").Replace(request(good...)),
		"tokens in any case":            with("Upgrade:", "Upgrade: WebSocket"),
		"connection list":               with("Connection:", "Connection: keep-alive, upgrade"), // Firefox
		"connection twice":              with("Connection:", "Connection: keep-alive|Connection: Upgrade"),
		"upgrade list":                  with("Upgrade:", "Upgrade: h2c ,\twebsocket"),
		"empty list elements":           with("Connection:", "Connection: ,, ,Upgrade,"),
		"no spaces":                     with("Host:", "Host:h:1"),
		"many spaces":                   with("Sec-WebSocket-Version", "Sec-WebSocket-Version: \t 13\t "),
		"port":                          with("Host:", "Host: 127.0.0.1:7443"),
		"IPv6":                          with("Host:", "Host: [::1]:7443"),
		"no origin":                     with("Origin:", ""),
		"no subprotocol":                with("Sec-WebSocket-Protocol", ""),
		"two lines of subprotocols":     with("Sec-WebSocket-Protocol", "Sec-WebSocket-Protocol: chat|Sec-WebSocket-Protocol: superchat"),
		"extensions":                    with("", "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"),
		"no body, said so":              with("", "Content-Length: 0"),
		"root":                          with("GET", "GET / HTTP/1.1"),
		"empty query":                   with("GET", "GET /? HTTP/1.1"),
		"second question mark":          with("GET", "GET /a?b?c HTTP/1.1"),
		"a key whose last bits are set": with("Sec-WebSocket-Key", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR=="),
		"64 header lines":               with("", strings.TrimSuffix(strings.Repeat("A: b|", 64-7), "|")),
		"8 KiB":                         padded(wsframe.MaxRequest),
	} {
		var u wsframe.Upgrade
		if n, err := wsframe.ParseUpgrade([]byte(in), &u); err != nil || n != len(in) {
			t.Errorf("%s: took %d of %d: %v", name, n, len(in), err)
		}
	}
}

// padded is a good request of n bytes.
func padded(n int) string {
	return with("", "Cookie: "+strings.Repeat("x", n-len(with("", "Cookie: "))))
}

func TestUpgradesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		in     string
		status int
	}{
		{"POST", with("GET", "POST /chat HTTP/1.1"), 405},
		{"HEAD", with("GET", "HEAD /chat HTTP/1.1"), 405},
		{"method that starts like GET", with("GET", "GETS /chat HTTP/1.1"), 405},
		{"method in lower case", with("GET", "get /chat HTTP/1.1"), 400},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 405},
		{"empty line first", "\r\n" + request(good...), 400},
		{"HTTP/1.0", with("GET", "GET /chat HTTP/1.0"), 505},
		{"HTTP/2.0", with("GET", "GET /chat HTTP/2.0"), 505},
		{"HTTP/1.10", with("GET", "GET /chat HTTP/1.10"), 400},
		{"space after the version", with("GET", "GET /chat HTTP/1.1 "), 400},
		{"version in lower case", with("GET", "GET /chat http/1.1"), 400},
		{"HTTP/0.9", "GET /chat\r\n\r\n", 400},
		{"no target", with("GET", "GET HTTP/1.1"), 400},
		{"two spaces", with("GET", "GET  /chat HTTP/1.1"), 400},
		{"space in the target", with("GET", "GET /ch at HTTP/1.1"), 400},
		{"tab in the target", with("GET", "GET /ch\tat HTTP/1.1"), 400},
		{"NUL in the target", with("GET", "GET /ch\x00at HTTP/1.1"), 400},
		{"byte of 8 bits in the target", with("GET", "GET /ch\xe9t HTTP/1.1"), 400},
		{"fragment", with("GET", "GET /chat#x HTTP/1.1"), 400},
		{"absolute form", with("GET", "GET http://server.example.com/chat HTTP/1.1"), 400},
		{"asterisk", with("GET", "GET * HTTP/1.1"), 400},

		{"no host", with("Host:", ""), 400},
		{"empty host", with("Host:", "Host: "), 400},
		{"two hosts", with("Host:", "Host: a|Host: a"), 400},
		{"list of hosts", with("Host:", "Host: a, b"), 400},
		{"host with a path", with("Host:", "Host: a/b"), 400},
		{"host with a user", with("Host:", "Host: u@a"), 400},
		{"two origins", with("Origin:", "Origin: a|Origin: b"), 400},
		{"two authorizations", with("", "Authorization: a|Authorization: b"), 400},
		{"two keys", with("", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="), 400},
		{"two versions", with("", "Sec-WebSocket-Version: 13"), 400},

		{"plain GET", request("GET / HTTP/1.1", "Host: a"), 426},
		{"no upgrade", with("Upgrade:", ""), 426},
		{"upgrade to other things", with("Upgrade:", "Upgrade: h2c, websocket/13"), 426},
		{"token that contains it", with("Upgrade:", "Upgrade: xwebsocket"), 426},
		{"no connection", with("Connection:", ""), 426},
		{"connection without it", with("Connection:", "Connection: keep-alive"), 426},
		{"no version", with("Sec-WebSocket-Version", ""), 426},
		{"version 8", with("Sec-WebSocket-Version", "Sec-WebSocket-Version: 8"), 426},
		{"version 013", with("Sec-WebSocket-Version", "Sec-WebSocket-Version: 013"), 426},
		{"no key", with("Sec-WebSocket-Key", ""), 400},
		{"key of 15 bytes", with("Sec-WebSocket-Key", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j"), 400},
		{"key of 17 bytes", with("Sec-WebSocket-Key", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZXg="), 400},
		{"key of 18 bytes", with("Sec-WebSocket-Key", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZXh5"), 400},
		{"key that is not base64", with("Sec-WebSocket-Key", "Sec-WebSocket-Key: dGhlIHNhbXBs*SBub25jZQ=="), 400},
		{"key in base64url", with("Sec-WebSocket-Key", "Sec-WebSocket-Key: dGhlIHNhbXBs_SBub25jZQ=="), 400},
		{"key without padding", with("Sec-WebSocket-Key", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ"), 400},

		{"body", with("", "Content-Length: 5"), 400},
		{"strange length", with("", "Content-Length: +0"), 400},
		{"chunked body", with("", "Transfer-Encoding: chunked"), 400},
		{"identity body", with("", "transfer-encoding: identity"), 400},
		{"folded line", with("", "X: a| b"), 400},
		{"folded line with a tab", with("", "X: a|\tb"), 400},
		{"first line folded", with("Host:", " Host: a|Host: b"), 400},
		{"space before the colon", with("Host:", "Host : a"), 400},
		{"no colon", with("", "X"), 400},
		{"no name", with("", ": x"), 400},
		{"name that is no token", with("", "X(y): z"), 400},
		{"name of 8 bits", with("", "X\xe9: z"), 400},
		{"NUL in a value", with("", "X: a\x00b"), 400},
		{"DEL in a value", with("", "X: a\x7fb"), 400},
		{"escape in a value", with("", "X: a\x1bb"), 400},
		{"CR in a value", with("", "X: a\rb"), 400},
		{"CR before CRLF", with("", "X: a\r"), 400},
		{"CR alone as a line", with("", "\r"), 400},
		{"CR in the request line", with("GET", "GET /chat HTTP/1.1\r"), 400},
		{"bare LF", with("", "X: a\nY: b"), 400},
		{"bare LFs only", strings.ReplaceAll(request(good...), "\r", ""), 400},
		{"LF CR", strings.ReplaceAll(request(good...), "\r\n", "\n\r"), 400},
		{"65 header lines", with("", strings.TrimSuffix(strings.Repeat("A: b|", 65-7), "|")), 431},
		{"8 KiB and one", padded(wsframe.MaxRequest + 1), 431},
	} {
		var u wsframe.Upgrade
		n, err := wsframe.ParseUpgrade([]byte(tc.in), &u)
		e, ok := errors.AsType[*wsframe.RequestError](err)
		if n != 0 || !ok || e.Status != tc.status || e.Error() == "" {
			t.Errorf("%s: took %d, %v, want status %d", tc.name, n, err, tc.status)
		}
	}
}

// A request that comes in pieces is short until its last byte, whatever comes after it.
func TestUpgradeByteByByte(t *testing.T) {
	t.Parallel()
	for _, in := range []string{request(good...), with("", strings.TrimSuffix(strings.Repeat("A: b|", 64-7), "|")), padded(wsframe.MaxRequest)} {
		var u wsframe.Upgrade
		for i := range len(in) {
			if n, err := wsframe.ParseUpgrade([]byte(in[:i]), &u); n != 0 || !errors.Is(err, wsframe.ErrShort) {
				t.Fatalf("%d of %d bytes: %d, %v", i, len(in), n, err)
			}
		}
		if n, err := wsframe.ParseUpgrade([]byte(in), &u); n != len(in) || err != nil {
			t.Fatalf("%d of %d bytes: %v", n, len(in), err)
		}
	}
}

// What can't become a request any more is refused with the byte that shows it, so that nobody holds a connection by saying no more.
func TestUpgradeIsRefusedEarly(t *testing.T) {
	t.Parallel()
	head := strings.TrimSuffix(request(good...), "\r\n")
	for _, tc := range []struct {
		name  string
		start string // still short
		last  string // the byte after it
		want  int
	}{
		{"another method", "DELETE", " ", 405},
		{"no method", "GE", "t", 400},
		{"other protocol", "SSH", "-", 400},
		{"binary", "", "\x16", 400},
		{"endless method", strings.Repeat("A", 15), "A", 400},
		{"bare LF", "GET / HTTP/1.1\r\nHost: a", "\n", 400},
		{"line of LF", "GET / HTTP/1.1\r\n", "\n", 400},
		{"endless target", "GET /" + strings.Repeat("a", wsframe.MaxRequest-6), "a", 431},
		{"endless header", head + "X: " + strings.Repeat("x", wsframe.MaxRequest-len(head)-4), "x", 431},
		{"endless lines", head + strings.Repeat("A: b\r\n", 64-7) + "A: b\r", "\n", 431},
	} {
		var u wsframe.Upgrade
		if n, err := wsframe.ParseUpgrade([]byte(tc.start), &u); n != 0 || !errors.Is(err, wsframe.ErrShort) {
			t.Errorf("%s: %d, %v before the byte that shows it", tc.name, n, err)
		}
		_, err := wsframe.ParseUpgrade([]byte(tc.start+tc.last), &u)
		if e, ok := errors.AsType[*wsframe.RequestError](err); !ok || e.Status != tc.want {
			t.Errorf("%s: %v, want status %d", tc.name, err, tc.want)
		}
	}
}

func TestSubprotocolsBeyondTheEighthAreNotSeen(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("p%d", i))
	}
	var u wsframe.Upgrade
	in := with("Sec-WebSocket-Protocol", "Sec-WebSocket-Protocol: "+strings.Join(names[:5], ",")+"|Sec-WebSocket-Protocol: "+strings.Join(names[5:], " , "))
	if _, err := wsframe.ParseUpgrade([]byte(in), &u); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if u.Offers(name) != (i < 8) {
			t.Errorf("%s offered: %t", name, u.Offers(name))
		}
	}
}
