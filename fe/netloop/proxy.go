package netloop

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// proxySignature begins a PROXY protocol version 2 header.
const proxySignature = "\r\n\r\n\x00\r\nQUIT\n"

const (
	proxyFixed = 16
	maxProxy   = 2048 // with addresses and TLVs
)

var (
	errProxyShort = errors.New("the PROXY header is not complete")
	errProxy      = errors.New("the PROXY header is malformed")
)

// parseProxy reads a PROXY v2 header (haproxy's proxy-protocol.txt, section 2.2) from the start of in, which begins with its
// signature, and returns its length. For LOCAL connections and unspecified families the address is not valid: the socket's own holds.
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

// proxy takes the header that may stand before everything else, once, and returns what comes behind it. A trusted network may hold
// clients without a balancer, too, so the header is not demanded.
func (l *loop) proxy(c *conn, p []byte, cfg *Listener) (rest []byte) {
	pre := l.pre.at(c.pre)
	trusted := false
	for _, t := range cfg.ProxyTrusted {
		trusted = trusted || t.Contains(pre.remote.Addr())
	}
	switch {
	case c.has(fProxied): // the address is the client's now, and it has no word in this
		l.refuse(c, RefusedProxyHeader)
		return nil
	case !trusted:
		l.refuse(c, RefusedProxy)
		return nil
	}
	client, n, err := parseProxy(p)
	switch {
	case errors.Is(err, errProxyShort):
		l.keep(c, &c.in, p)
		return nil
	case err != nil:
		l.refuse(c, RefusedProxyHeader)
		return nil
	}
	c.flags |= fProxied
	if client.IsValid() {
		pre.remote = client
	}
	return p[n:]
}
