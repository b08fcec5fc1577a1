package netloop

import (
	"bytes"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink"
)

// pair is two connected sockets, the first of them non-blocking.
func pair(t testing.TB) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		t.Fatal(err)
	}
	return fds[0], fds[1]
}

// give hands the loop a socket as if it had accepted it.
func (b *byHand) give(fd int) *conn {
	b.conns.Add(1)
	b.l.adopt(0, int32(fd), netip.MustParseAddrPort("127.0.0.1:1"))
	for slot := range b.l.conns.used {
		if c := b.l.conns.at(slot); c.fd == int32(fd) && c.state == stFirst {
			return c
		}
	}
	return nil
}

// FuzzInput plays bytes to a plain connection, whole and one by one: both must come to the same messages and the same end, and nothing may
// be left.
func FuzzInput(f *testing.F) {
	request := "GET /connect HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: klink.v1\r\n\r\n"
	f.Add([]byte("\x00\x03abc\x80"))
	f.Add([]byte("\x05ab"))
	f.Add([]byte(request + "\x82\x80abcd\x82\x81abcdx\x02\x81abcdx\x89\x80abcd\x80\x81abcdx\x88\x80abcd"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(append(proxyHeader(1, proxyV4, proxyV4, ""), 0, 1, 'x'))
	f.Add([]byte("PROXY "))
	b := newByHand(f, func(c *Config) { c.Listeners[0].ProxyTrusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 || prefaceOf(in, false) == prefaceTLS {
			return
		}
		var seen [2][]string
		for i, step := range []int{len(in), 1} {
			b.onMsg = func(_ klink.Handle, body []byte) { seen[i] = append(seen[i], string(body)) }
			fd, peer := pair(t)
			c := b.give(fd)
			for p := in; len(p) > 0 && c.state != stDead && c.state != stLinger && !c.has(fDeaf); p = p[min(step, len(p)):] {
				b.l.setCork(c)
				b.l.feedTo(c, bytes.Clone(p[:min(step, len(p))]))
				b.l.uncork(c)
			}
			seen[i] = append(seen[i], c.why.String())
			b.l.kill(c)
			b.l.reap()
			unix.Close(peer)
			if b.l.ins.used != 0 || b.l.outs.bytes != 0 || b.l.conns.live() != 0 {
				t.Fatalf("left: %d bytes of input, %d of output, %d connections", b.l.ins.used, b.l.outs.bytes, b.l.conns.live())
			}
		}
		if len(seen[0]) != len(seen[1]) {
			t.Fatalf("whole %q, byte by byte %q", seen[0], seen[1])
		}
		for i := range seen[0] {
			if seen[0][i] != seen[1][i] {
				t.Fatalf("whole %q, byte by byte %q", seen[0], seen[1])
			}
		}
	})
}
