package netloop

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
)

// refusedUpgrades are requests with the status that answers each.
func refusedUpgrades(host string) map[string]struct {
	request string
	status  int
	why     Refusal
} {
	good := upgradeRequest(host, SubprotocolBinary, "")
	swap := func(from, to string) string {
		if !strings.Contains(good, from) {
			panic(from)
		}
		return strings.Replace(good, from, to, 1)
	}
	return map[string]struct {
		request string
		status  int
		why     Refusal
	}{
		"path":            {swap("/connect", "/"), 404, RefusedUpgrade},
		"no subprotocol":  {swap("Sec-WebSocket-Protocol: klink.v1\r\n", ""), 400, RefusedUpgrade},
		"subprotocol":     {swap("klink.v1", "chat"), 400, RefusedUpgrade},
		"no upgrade":      {swap("Upgrade: websocket\r\n", ""), 426, RefusedUpgrade},
		"no connection":   {swap("Connection: Upgrade\r\n", "Connection: close\r\n"), 426, RefusedUpgrade},
		"version":         {swap("Version: 13", "Version: 8"), 426, RefusedUpgrade},
		"no key":          {swap("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""), 400, RefusedUpgrade},
		"key":             {swap("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ="), 400, RefusedUpgrade},
		"HTTP/1.0":        {swap("HTTP/1.1", "HTTP/1.0"), 505, RefusedUpgrade},
		"no host":         {swap("Host: "+host+"\r\n", ""), 400, RefusedUpgrade},
		"two hosts":       {swap("Host:", "Host: a\r\nHost:"), 400, RefusedUpgrade},
		"body":            {swap("Host:", "Content-Length: 5\r\nHost:"), 400, RefusedUpgrade},
		"bare line feeds": {strings.ReplaceAll(good, "\r\n", "\n"), 400, RefusedUpgrade},
		"too large":       {swap("Host:", "X: "+strings.Repeat("x", 9000)+"\r\nHost:"), 431, RefusedUpgrade},
		"too many lines":  {swap("Host:", strings.Repeat("X: y\r\n", 65)+"Host:"), 431, RefusedUpgrade},
		"origin":          {swap("Host:", "Origin: http://evil.example\r\nHost:"), 403, RefusedOrigin},
		"null origin":     {swap("Host:", "Origin: null\r\nHost:"), 403, RefusedOrigin},
		"not a URL":       {swap("Host:", "Origin: ://\r\nHost:"), 403, RefusedOrigin},
		"other port":      {swap("Host:", "Origin: http://127.0.0.1:1\r\nHost:"), 403, RefusedOrigin},
	}
}

// TestUpgradeRefused wants an HTTP answer that can be read, then an orderly end.
func TestUpgradeRefused(t *testing.T) {
	for _, tr := range []string{"ws", "wss"} {
		ts := serve(t, nil)
		for name, tc := range refusedUpgrades(ts.addr) {
			t.Run(tr+"/"+name, func(t *testing.T) {
				before := ts.Stats().Refused[tc.why]
				c := ts.bare(t, tr)
				if _, err := io.WriteString(c, tc.request); err != nil {
					t.Fatal(err)
				}
				r := bufio.NewReader(c)
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				var problem struct{ Title, Detail string }
				if resp.StatusCode != tc.status || json.Unmarshal(body, &problem) != nil || resp.Header.Get("Content-Type") != "application/problem+json" {
					t.Errorf("%s %v %s", resp.Status, resp.Header, body)
				}
				if rest, err := io.ReadAll(r); err != nil || len(rest) != 0 {
					t.Errorf("behind the answer: %q, %v", rest, err)
				}
				c.Close()
				ts.refusal(t, tc.why, before+1)
			})
		}
		eventually(t, "nothing is left", func() bool { return ts.Stats().Conns == 0 })
		if st := ts.Stats(); st.Opened != [NumTransports]uint64{} || st.Closed != [link.NumCloseReasons]uint64{} {
			t.Errorf("refused connections count as opened %v or closed %v", st.Opened, st.Closed)
		}
	}
}

// bare is a connection for HTTP, over TLS for wss.
func (ts *testServer) bare(t testing.TB, tr string) net.Conn {
	t.Helper()
	c := ts.tcp(t, 0)
	if tr != "wss" {
		return c
	}
	cfg := ts.clientTLS()
	cfg.NextProtos = []string{"h2", "http/1.1"}
	tc := tls.Client(c, cfg)
	if err := tc.Handshake(); err != nil {
		t.Fatal(err)
	}
	if p := tc.ConnectionState().NegotiatedProtocol; p != "http/1.1" {
		t.Fatalf("ALPN chose %q", p)
	}
	return tc
}

// TestUpgradeByteByByte cuts the request everywhere.
func TestUpgradeByteByByte(t *testing.T) {
	ts := serve(t, nil)
	for _, tr := range []string{"ws", "wss"} {
		c := ts.bare(t, tr)
		// A frame right behind the request is not lost.
		in := upgradeRequest("a.example", "chat, klink.v1.json, klink.v1", "Origin: https://a.example\r\n") + string(clientFrame(wsFin|2, []byte("early")))
		if err := slowly(c, []byte(in)); err != nil {
			t.Fatal(err)
		}
		w := &rawWS{c, bufio.NewReader(c)}
		resp, err := http.ReadResponse(w.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p := resp.Header.Get("Sec-WebSocket-Protocol"); resp.StatusCode != 101 || p != SubprotocolBinary {
			t.Errorf("%s, subprotocol %q", resp.Status, p)
		}
		if f, err := w.frame(); err != nil || f != (wsFrame{2, "early"}) {
			t.Errorf("%q, %v", f, err)
		}
		e, h := ts.only(t)
		e.mu.Lock()
		info := e.open[h]
		e.mu.Unlock()
		want := link.Info{Transport: transportOf(tr), Form: link.FormWSBinary, Remote: info.Remote}
		if info != want || info.Remote.String() != c.LocalAddr().String() {
			t.Errorf("opened as %+v, want %+v from %v", info, want, c.LocalAddr())
		}
		c.Close()
		eventually(t, "it is gone", func() bool { return ts.Stats().Conns == 0 })
	}
}

// TestSetOrigin replaces the check while the server runs, and puts the first one back.
func TestSetOrigin(t *testing.T) {
	ts := serve(t, func(c *Config) {
		c.Origin = func(origin, host string) bool { return origin == "https://app.example" && host == "api.example" }
	})
	status := func(origin string) int {
		c := ts.tcp(t, 0)
		defer c.Close()
		if _, err := io.WriteString(c, upgradeRequest("api.example", SubprotocolJSON, "Origin: "+origin+"\r\n")); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	if a, b := status("https://app.example"), status("https://api.example"); a != 101 || b != 403 {
		t.Errorf("own check: %d and %d", a, b)
	}
	ts.SetOrigin(nil)
	if a, b := status("https://app.example"), status("https://API.example"); a != 403 || b != 101 {
		t.Errorf("same host: %d and %d", a, b)
	}
}

// TestFormsOfTLS lets ALPN, and without it the first bytes, decide.
func TestFormsOfTLS(t *testing.T) {
	ts := serve(t, nil)
	for _, tc := range []struct {
		alpn []string
		http bool
		want klink.Transport
	}{
		{[]string{ALPN}, false, klink.TransportTLS},
		{nil, false, klink.TransportTLS},
		{[]string{"http/1.1"}, true, klink.TransportWSS},
		{[]string{"h2", "http/1.1"}, true, klink.TransportWSS},
		{nil, true, klink.TransportWSS},
	} {
		cfg := ts.clientTLS()
		cfg.NextProtos = tc.alpn
		c := tls.Client(ts.tcp(t, 0), cfg)
		in := "\x02hi"
		if tc.http {
			in = upgradeRequest(ts.addr, SubprotocolBinary, "")
		}
		for i := range in { // each byte a record
			if _, err := io.WriteString(c, in[i:i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatalf("%v: %v", tc, err)
		}
		e, h := ts.only(t)
		e.mu.Lock()
		if got := e.open[h].Transport; got != tc.want {
			t.Errorf("ALPN %q, HTTP %t: %v", tc.alpn, tc.http, got)
		}
		e.mu.Unlock()
		c.Close()
		eventually(t, "it is gone", func() bool { return ts.Stats().Conns == 0 })
	}
	cfg := ts.clientTLS()
	cfg.NextProtos = []string{"h2"}
	c := tls.Client(ts.tcp(t, 0), cfg)
	if err := c.Handshake(); err == nil || !strings.Contains(err.Error(), "no application protocol") {
		t.Errorf("ALPN h2 alone: %v", err)
	}
	ts.refusal(t, RefusedHandshake, 1)
}
