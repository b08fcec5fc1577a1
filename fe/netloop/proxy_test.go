package netloop

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/klinkio/klink/fe/link"
)

// proxyHeader is a version 2 header with these addresses and some TLVs.
func proxyHeader(command byte, src, dst netip.AddrPort, tlvs string) []byte {
	var body []byte
	family := byte(0x11)
	if src.Addr().Is6() {
		family = 0x21
	}
	if !src.IsValid() {
		family = 0
	} else {
		body = append(body, src.Addr().AsSlice()...)
		body = append(body, dst.Addr().AsSlice()...)
		body = binary.BigEndian.AppendUint16(body, src.Port())
		body = binary.BigEndian.AppendUint16(body, dst.Port())
	}
	body = append(body, tlvs...)
	h := append([]byte(proxySignature), 0x20|command, family)
	return append(binary.BigEndian.AppendUint16(h, uint16(len(body))), body...)
}

var (
	proxyV4 = netip.MustParseAddrPort("192.0.2.7:4711")
	proxyV6 = netip.MustParseAddrPort("[2001:db8::7]:4711")
)

func TestParseProxy(t *testing.T) {
	good := proxyHeader(1, proxyV4, proxyV4, "")
	edit := func(at int, b byte) []byte {
		h := slices.Clone(good)
		h[at] = b
		return h
	}
	for _, tc := range []struct {
		name string
		in   []byte
		want netip.AddrPort
		err  error
	}{
		{"IPv4", good, proxyV4, nil},
		{"IPv6", proxyHeader(1, proxyV6, proxyV6, ""), proxyV6, nil},
		{"IPv4 in IPv6", proxyHeader(1, netip.MustParseAddrPort("[::ffff:192.0.2.7]:4711"), proxyV6, ""), proxyV4, nil},
		{"TLVs", proxyHeader(1, proxyV4, proxyV4, "\x04\x00\x01x"), proxyV4, nil},
		{"LOCAL", proxyHeader(0, proxyV4, proxyV4, ""), netip.AddrPort{}, nil},
		{"LOCAL without addresses", proxyHeader(0, netip.AddrPort{}, netip.AddrPort{}, ""), netip.AddrPort{}, nil},
		{"no family", proxyHeader(1, netip.AddrPort{}, netip.AddrPort{}, ""), netip.AddrPort{}, nil},
		{"UDP", edit(13, 0x12), netip.AddrPort{}, errProxy},
		{"UNIX", edit(13, 0x31), netip.AddrPort{}, errProxy},
		{"version 1", edit(12, 0x11), netip.AddrPort{}, errProxy},
		{"version 3", edit(12, 0x31), netip.AddrPort{}, errProxy},
		{"command 2", edit(12, 0x22), netip.AddrPort{}, errProxy},
		{"addresses do not fit", edit(15, 11)[:len(good)-1], netip.AddrPort{}, errProxy},
		{"family that does not fit", edit(13, 0x21), netip.AddrPort{}, errProxy},
		{"too long", edit(14, 0x40), netip.AddrPort{}, errProxy},
	} {
		got, n, err := parseProxy(tc.in)
		if !errors.Is(err, tc.err) || got != tc.want || err == nil && n != len(tc.in) {
			t.Errorf("%s: %v, %d of %d bytes, %v", tc.name, got, n, len(tc.in), err)
		}
		if err == nil {
			for i := range tc.in {
				if _, _, err := parseProxy(tc.in[:i]); !errors.Is(err, errProxyShort) {
					t.Errorf("%s, %d bytes of it: %v", tc.name, i, err)
				}
			}
		}
	}
}

func FuzzParseProxy(f *testing.F) {
	f.Add(proxyHeader(1, proxyV4, proxyV4, ""))
	f.Add(proxyHeader(1, proxyV6, proxyV6, "\x20\x00\x00"))
	f.Add(proxyHeader(0, netip.AddrPort{}, netip.AddrPort{}, ""))
	f.Fuzz(func(t *testing.T, in []byte) {
		addr, n, err := parseProxy(in)
		switch {
		case err == nil && (n < proxyFixed || n > len(in) || n > maxProxy):
			t.Errorf("took %d of %d bytes", n, len(in))
		case err == nil:
			if again, m, err := parseProxy(in[:n:n]); again != addr || m != n || err != nil {
				t.Error("what comes behind the header changes it")
			}
		case addr.IsValid():
			t.Error("an address with an error")
		case errors.Is(err, errProxyShort) && len(in) >= maxProxy:
			t.Errorf("%d bytes are not enough", len(in))
		}
	})
}

// FuzzPreface wants what a few bytes have decided to hold when more come.
func FuzzPreface(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1\r\n", "\x16\x03\x01\x02\x00\x01", proxySignature, "PROXY TCP4 ", "\x00", "\x10\x0a\x0e", "P", "\r\n\r"} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, underTLS bool) {
		decided := prefaceShort
		for i := range len(in) + 1 {
			if i == 0 {
				continue
			}
			k := prefaceOf(in[:i], underTLS)
			if decided != prefaceShort && k != decided {
				t.Fatalf("%q is %d, with a byte less it was %d", in[:i], k, decided)
			}
			if k == prefaceShort && i >= len(proxySignature) {
				t.Fatalf("%q is not enough", in[:i])
			}
			if underTLS && k != prefaceShort && k != prefaceStream && k != prefaceHTTP {
				t.Fatalf("%q is %d under TLS", in[:i], k)
			}
			decided = k
		}
	})
}

func fromLoopback(c *Config) {
	c.Listeners[0].ProxyTrusted = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("127.0.0.0/8")}
}

// TestProxy wants the client's address in front of every transport, however the header is cut.
func TestProxy(t *testing.T) {
	ts := serve(t, fromLoopback)
	for _, tr := range transports {
		for _, want := range []netip.AddrPort{proxyV4, proxyV6, {}} {
			c := ts.tcp(t, 0)
			if err := slowly(c, proxyHeader(1, want, want, "\x04\x00\x01x")); err != nil {
				t.Fatal(err)
			}
			p, err := ts.upon(c, tr)
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, p, tr)
			e, h := ts.only(t)
			e.mu.Lock()
			got := e.open[h].Remote
			e.mu.Unlock()
			if !want.IsValid() {
				want = netip.MustParseAddrPort(c.LocalAddr().String())
			}
			if got != want {
				t.Errorf("%s: the client is %v, want %v", tr, got, want)
			}
			c.Close()
			eventually(t, "it is gone", func() bool { return ts.Stats().Conns == 0 })
		}
	}
	roundTrip(t, ts.dial(t, "tcp"), "without a header, as the network is only trusted")
	one := ts.tcp(t, 0) // header, frame and all in one segment
	if _, err := one.Write(append(proxyHeader(1, proxyV4, proxyV4, ""), "\x02hi"...)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3)
	if _, err := one.Read(b); err != nil || string(b) != "\x02hi" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestProxyRefused wants headers that are not to be believed to end the connection.
func TestProxyRefused(t *testing.T) {
	header := string(proxyHeader(1, proxyV4, proxyV4, ""))
	for name, tc := range map[string]struct {
		in      string
		trusted bool
		why     Refusal
	}{
		"not trusted":          {header, false, RefusedProxy},
		"not trusted, short":   {proxySignature, false, RefusedProxy},
		"text":                 {"PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\n", true, RefusedProxyHeader},
		"text, not trusted":    {"PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\n", false, RefusedProxyHeader},
		"two headers":          {header + header, true, RefusedProxyHeader},
		"malformed":            {strings.Replace(header, "\x21", "\x41", 1), true, RefusedProxyHeader},
		"claims too much":      {proxySignature + "\x21\x11\xff\xff", true, RefusedProxyHeader},
		"claim to be trusted":  {string(proxyHeader(1, netip.MustParseAddrPort("127.0.0.1:1"), proxyV4, "")), false, RefusedProxy},
		"header, then nothing": {header, true, RefusedGone},
	} {
		t.Run(name, func(t *testing.T) {
			ts := serve(t, func(c *Config) {
				if tc.trusted {
					fromLoopback(c)
				}
			})
			c := ts.tcp(t, 0)
			if _, err := c.Write([]byte(tc.in)); err != nil {
				t.Fatal(err)
			}
			if err := c.CloseWrite(); err != nil && tc.why == RefusedGone {
				t.Fatal(err)
			}
			ts.refusal(t, tc.why, 1)
			if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
				t.Errorf("read %d, %v", n, err)
			}
			if st := ts.Stats(); st.Opened != [NumTransports]uint64{} {
				t.Error("it was opened")
			}
		})
	}
}

// TestProxyInsideTLS is a header where none belongs: it is no frame.
func TestProxyInsideTLS(t *testing.T) {
	ts := serve(t, fromLoopback)
	cfg := ts.clientTLS()
	cfg.NextProtos = nil
	c := tls.Client(ts.tcp(t, 0), cfg)
	if _, err := c.Write(proxyHeader(1, proxyV4, proxyV4, "")); err != nil {
		t.Fatal(err)
	}
	e, h := ts.only(t) // opened as frames: \r is the length of one
	e.mu.Lock()
	defer e.mu.Unlock()
	if in := e.open[h]; in.Remote == proxyV4 || in.Form != link.FormStream {
		t.Errorf("opened as %+v", in)
	}
}
