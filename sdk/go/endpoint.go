package sdk

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"github.com/klinkio/klink"
)

// defaultPath is the path of the WebSocket upgrade where an endpoint names none.
const defaultPath = "/connect"

// maxEndpoints bounds what is remembered of a server's list.
const maxEndpoints = 32

// endpoint is one place to connect to.
type endpoint struct {
	url       string // normalized
	transport klink.Transport
	addr      string // host:port
	host      string // for the certificate
}

// parseEndpoint reads scheme://host:port, with a path for WebSocket only.
func parseEndpoint(raw string) (endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return endpoint{}, fmt.Errorf("endpoint %q: %w", raw, err)
	}
	t, err := klink.ParseTransport(u.Scheme)
	if err != nil || t == klink.TransportQUIC {
		return endpoint{}, fmt.Errorf("endpoint %q: the scheme must be tls, wss, tcp or ws", raw)
	}
	ws := t == klink.TransportWS || t == klink.TransportWSS
	port := u.Port()
	switch {
	case ws && port == "" && t == klink.TransportWSS:
		port = "443"
	case ws && port == "":
		port = "80"
	}
	switch {
	case u.Hostname() == "" || port == "":
		return endpoint{}, fmt.Errorf("endpoint %q: host and port are needed", raw)
	case !isHost(u.Hostname()):
		return endpoint{}, fmt.Errorf("endpoint %q: the host is neither a name in ASCII nor an IP address without zone", raw)
	case u.User != nil || u.Fragment != "" || u.Opaque != "":
		return endpoint{}, fmt.Errorf("endpoint %q: only scheme, host, port and path", raw)
	case !ws && (u.Path != "" && u.Path != "/" || u.RawQuery != ""):
		return endpoint{}, fmt.Errorf("endpoint %q: %s has no path", raw, u.Scheme)
	}
	ep := endpoint{transport: t, host: u.Hostname(), addr: net.JoinHostPort(u.Hostname(), port)}
	ep.url = u.Scheme + "://" + ep.addr
	if ws {
		if u.Path == "" || u.Path == "/" {
			u.Path = defaultPath
		}
		ep.url += u.RequestURI()
	}
	return ep, nil
}

// isHost reports whether h can be dialled and stands in a URL as it is.
func isHost(h string) bool {
	if a, err := netip.ParseAddr(h); err == nil {
		return a.Zone() == ""
	}
	for i := range len(h) {
		switch c := h[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return true
}

// ring is the endpoints to try: a target once, else those of the server and those of the configuration in turn.
type ring struct {
	configured []endpoint
	all        []endpoint // the server's before the configured ones, each once
	at         int        // the current one in all
	target     *endpoint  // to be tried next, once
	onTarget   bool       // the last one was the target
	pinned     bool       // to the configured ones
	secure     bool       // no configured endpoint is plaintext, so none of a server's may be
}

func newRing(configured []endpoint, start int) *ring {
	r := &ring{configured: configured, all: configured, at: start % len(configured), secure: true}
	for _, ep := range configured {
		r.secure = r.secure && ep.encrypted()
	}
	return r
}

func (ep *endpoint) encrypted() bool {
	return ep.transport == klink.TransportTLS || ep.transport == klink.TransportWSS
}

// next is the endpoint for the next attempt.
func (r *ring) next() endpoint {
	if r.target != nil {
		ep := *r.target
		r.target, r.onTarget = nil, true
		return ep
	}
	r.onTarget = false
	return r.all[r.at]
}

// move leaves the current endpoint. After a target that is the one that it stood in for.
func (r *ring) move() {
	if r.onTarget {
		r.onTarget = false
		return
	}
	r.at = (r.at + 1) % len(r.all)
}

// admit parses an endpoint that came from a server: a server must not talk a client out of encryption.
func (r *ring) admit(raw string) (endpoint, bool) {
	ep, err := parseEndpoint(raw)
	return ep, err == nil && (!r.secure || ep.encrypted())
}

// aim makes raw the next endpoint, if this client can use it.
func (r *ring) aim(raw string) {
	if ep, ok := r.admit(raw); ok && !r.pinned {
		r.target = &ep
	}
}

// learn takes the list of a Connected frame, in its order; current is the endpoint in use and is the one to start with again.
func (r *ring) learn(list []string, current endpoint) {
	if len(list) == 0 || r.pinned {
		return
	}
	var all []endpoint
	seen := make(map[string]bool)
	add := func(ep endpoint) {
		if !seen[ep.url] {
			seen[ep.url] = true
			all = append(all, ep)
		}
	}
	for _, raw := range list[:min(len(list), maxEndpoints)] {
		if ep, ok := r.admit(raw); ok {
			add(ep)
		}
	}
	for _, ep := range r.configured {
		add(ep)
	}
	r.all, r.at, r.onTarget = all, 0, true
	for i := range all {
		if all[i].url == current.url {
			r.at, r.onTarget = i, false
		}
	}
}
