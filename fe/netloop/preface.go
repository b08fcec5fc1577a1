package netloop

import "strings"

// preface is what the first bytes of a connection say that it speaks.
type preface uint8

const (
	prefaceShort     preface = iota // too few bytes to tell
	prefaceStream                   // klink frames
	prefaceHTTP                     // a WebSocket upgrade
	prefaceTLS                      // a ClientHello
	prefaceProxy                    // a PROXY v2 header
	prefaceProxyText                // a PROXY v1 header, which is not supported
)

// prefaceOf looks at the first bytes; under TLS only frames and HTTP are possible. A stream begins with a Connect frame, whose second
// byte is 0x0a (field 1), or with a heartbeat, which is a zero byte. Only the PROXY signature has that second byte, and its first and
// third byte say lengths that contradict each other. So no client's first frame looks like one of the patterns.
func prefaceOf(p []byte, underTLS bool) preface {
	kind := prefaceStream
	look := func(pattern string, k preface) {
		n := min(len(p), len(pattern))
		switch {
		case !strings.HasPrefix(pattern, string(p[:n])):
		case n < len(pattern):
			kind = prefaceShort
		default:
			kind = k
		}
	}
	look("GET ", prefaceHTTP)
	if !underTLS {
		look("\x16\x03", prefaceTLS)
		look(proxySignature, prefaceProxy)
		look("PROXY ", prefaceProxyText)
	}
	return kind
}
