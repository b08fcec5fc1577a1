package netloop

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
)

// proxySignature begins a PROXY protocol version 2 header.
const proxySignature = "\r\n\r\n\x00\r\nQUIT\n"

const (
	proxyFixed = 16
	maxProxy   = 1024 // with addresses and TLVs
)

var (
	errProxyShort = errors.New("the PROXY header is not complete")
	errProxy      = errors.New("the PROXY header is malformed")
)

// parseProxy reads a PROXY v2 header (haproxy's proxy-protocol.txt, section 2.2) from the start of in, which begins with its
// signature. For LOCAL connections and families without ports the address is not valid: the socket's own holds.
func parseProxy(in []byte) (client netip.AddrPort, n int, err error) {
	if len(in) < proxyFixed {
		return client, 0, errProxyShort
	}
	cmd, family := in[12], in[13]
	n = proxyFixed + int(binary.BigEndian.Uint16(in[14:]))
	if cmd>>4 != 2 || cmd&0x0f > 1 || n > maxProxy {
		return client, 0, errProxy
	}
	if len(in) < n {
		return client, 0, errProxyShort
	}
	if cmd&0x0f == 0 { // LOCAL: the balancer's own check
		return client, n, nil
	}
	body := in[proxyFixed:n]
	switch family {
	case 0x11: // TCP over IPv4
		if len(body) < 12 {
			return client, 0, errProxy
		}
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(body[:4])), binary.BigEndian.Uint16(body[8:])), n, nil
	case 0x21: // TCP over IPv6
		if len(body) < 36 {
			return client, 0, errProxy
		}
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(body[:16])).Unmap(), binary.BigEndian.Uint16(body[32:])), n, nil
	case 0x00:
		return client, n, nil
	default:
		return client, 0, errProxy
	}
}

// proxy handles the header that may stand before everything else. done: what follows it is in rest; else the connection waits or was refused.
func (l *loop) proxy(slot uint32, c *conn, p []byte, cfg *Listener) (rest []byte, done bool) {
	if c.has(fProxied) {
		return p, true
	}
	remote := l.pre[c.pre-1].remote
	trusted := false
	for _, t := range cfg.ProxyTrusted {
		trusted = trusted || t.Contains(remote.Addr())
	}
	n := min(len(p), len(proxySignature))
	if !strings.HasPrefix(proxySignature, string(p[:n])) {
		return p, true // a trusted network may hold clients without a balancer, too
	}
	if n < len(proxySignature) {
		if !trusted && n > 2 {
			l.refuse(slot, c, RefusedProxy)
			return nil, false
		}
		l.keepFirst(slot, c, p)
		return nil, false
	}
	if !trusted {
		l.refuse(slot, c, RefusedProxy)
		return nil, false
	}
	client, took, err := parseProxy(p)
	switch {
	case errors.Is(err, errProxyShort):
		l.keepFirst(slot, c, p)
		return nil, false
	case err != nil:
		l.refuse(slot, c, RefusedProxyHeader)
		return nil, false
	}
	c.flags |= fProxied
	if client.IsValid() {
		l.pre[c.pre-1].remote = client
	}
	return p[took:], true
}
