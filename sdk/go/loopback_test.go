package sdk_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/proto"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe"
	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
	sdk "github.com/klinkio/klink/sdk/go"
)

func connectedFrame(t testing.TB) []byte {
	t.Helper()
	return marshal(t, &klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Connected{Connected: &klinkv1.Connected{
		Session: "s", User: "u", Heartbeat: &klinkv1.Heartbeat{Seconds: 60},
	}}})
}

func pushFrame(t testing.TB, text string) []byte {
	t.Helper()
	return marshal(t, &klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Push{Push: &klinkv1.Push{Body: &klinkv1.Push_Text{Text: text}}}})
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func staticToken(context.Context, sdk.TokenReason) (string, error) { return "token", nil }

// wsServer serves one WebSocket connection after the other with script, which gets it after Connect was read.
func wsServer(t *testing.T, sub string, script func(n int, c *websocket.Conn)) string {
	t.Helper()
	up := websocket.Upgrader{Subprotocols: []string{sub}}
	conns := make(chan int, 100)
	conns <- 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/connect" || r.Header.Get("X-Test") != "yes" {
			http.Error(w, "not here", http.StatusNotFound)
			return
		}
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		if _, _, err := c.ReadMessage(); err != nil {
			return
		}
		n := <-conns
		conns <- n + 1
		script(n, c)
	}))
	t.Cleanup(srv.Close)
	return strings.Replace(srv.URL, "http", "ws", 1)
}

// A close code says the same as a Disconnect frame; fragments, control frames between them and pings are handled.
func TestWebSocketServer(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	url := wsServer(t, "klink.v1", func(n int, c *websocket.Conn) {
		_ = c.WriteMessage(websocket.BinaryMessage, connectedFrame(t))
		if n == 0 {
			_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(4009, "go"), time.Now().Add(10*time.Second))
			_, _, _ = c.ReadMessage()
			return
		}
		ponged := false
		c.SetPongHandler(func(data string) error { ponged = data == "p"; return nil })
		body := pushFrame(t, long)
		w, err := c.NextWriter(websocket.BinaryMessage)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = w.Write(body[:50_000]) // more than its buffer: a fragment
		_ = c.WriteControl(websocket.PingMessage, []byte("p"), time.Now().Add(10*time.Second))
		_, _ = w.Write(body[50_000:])
		_ = w.Close()
		_ = c.WriteMessage(websocket.BinaryMessage, pushFrame(t, "second"))
		_, msg, err := c.ReadMessage() // Bye, or the end
		if err == nil {
			f := new(klinkv1.ClientFrame)
			if err := proto.Unmarshal(msg, f); err != nil || f.GetBye() == nil {
				t.Errorf("got %v, %v, want Bye", f, err)
			}
		}
		if !ponged {
			t.Error("the ping was not answered")
		}
	})
	e := newEvents()
	c := dial(t, sdk.Config{Endpoints: []string{url}, Token: staticToken, Handler: e.handler(t), Header: http.Header{"X-Test": {"yes"}}})
	lost := e.wait(t, sdk.StateWaiting)
	if d, ok := lost.Err.(*sdk.DisconnectError); !ok || d.Code != klink.DisconnectMoved || d.Reason != "go" {
		t.Errorf("lost with %v", lost.Err)
	}
	if p := <-e.pushes; string(p.Payload.Data) != long {
		t.Errorf("got %d bytes", len(p.Payload.Data))
	}
	if p := <-e.pushes; string(p.Payload.Data) != "second" {
		t.Errorf("got %d bytes", len(p.Payload.Data))
	}
	_ = c.Close()
	<-c.Done()
}

func TestWebSocketServerThatIsNotOurs(t *testing.T) {
	yes := http.Header{"X-Test": {"yes"}}
	limit := strings.Repeat("x", 5000)
	for name, tc := range map[string]struct {
		url    string
		header http.Header
		want   string
	}{
		"wrong path":  {wsServer(t, "klink.v1", nil) + "/other", yes, "404"},
		"no header":   {wsServer(t, "klink.v1", nil), nil, "404"},
		"subprotocol": {wsServer(t, "chat", nil), yes, "klink.v1"},
		"text": {wsServer(t, "klink.v1", func(_ int, c *websocket.Conn) {
			_ = c.WriteMessage(websocket.TextMessage, []byte("{}"))
		}), yes, "text"},
		"too large": {wsServer(t, "klink.v1", func(_ int, c *websocket.Conn) {
			_ = c.WriteMessage(websocket.BinaryMessage, pushFrame(t, limit))
		}), yes, "limit"},
		"no TLS": {strings.Replace(wsServer(t, "klink.v1", nil), "ws:", "wss:", 1), yes, "tls"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := sdk.Dial(ctx, sdk.Config{
				Endpoints: []string{tc.url}, Token: staticToken, Header: tc.header, MaxFrame: 4096,
				Handler: &sdk.Callbacks{Status: func(s *sdk.Status) {
					if s.State == sdk.StateWaiting {
						cancel()
					}
				}},
			})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want something with %q", err, tc.want)
			}
		})
	}
}

// streamServer accepts on loopback and serves each connection with script after it has read Connect.
func streamServer(t *testing.T, cfg *tls.Config, script func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if cfg != nil {
		l = tls.NewListener(l, cfg)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := c.Read(make([]byte, 4096)); err == nil {
					script(c)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// Frames may come in any pieces, several at once, and with TLS in records of any size.
func TestStreamServerInPieces(t *testing.T) {
	cert, roots := certificate(t)
	for scheme, cfg := range map[string]*tls.Config{"tcp": nil, "tls": {Certificates: []tls.Certificate{cert}, NextProtos: []string{"klink/1"}}} {
		t.Run(scheme, func(t *testing.T) {
			var stream []byte
			add := func(b []byte) { stream = append(binary.AppendUvarint(stream, uint64(len(b))), b...) }
			add(connectedFrame(t))
			const count = 100
			for i := range count {
				add(pushFrame(t, fmt.Sprint(i, strings.Repeat("y", i*5))))
			}
			addr := streamServer(t, cfg, func(c net.Conn) {
				rest := stream
				for n := 1; len(rest) > 0; n = n%700 + 1 { // one byte, two bytes, ...
					k := min(n, len(rest))
					if _, err := c.Write(rest[:k]); err != nil {
						return
					}
					rest = rest[k:]
				}
				_, _ = io.Copy(io.Discard, c)
			})
			e := newEvents()
			c := dial(t, sdk.Config{Endpoints: []string{scheme + "://" + addr}, Token: staticToken, Handler: e.handler(t), TLS: &tls.Config{RootCAs: roots}})
			for i := range count {
				if p := <-e.pushes; string(p.Payload.Data) != fmt.Sprint(i, strings.Repeat("y", i*5)) {
					t.Fatalf("push %d has %d bytes", i, len(p.Payload.Data))
				}
			}
			if s := c.Stats(); s.FramesIn != count+1 || s.Connects != 1 {
				t.Errorf("counted %+v", s)
			}
		})
	}
}

// TLS servers that are old or speak something else are refused.
func TestTLSServerThatIsNotOurs(t *testing.T) {
	cert, roots := certificate(t)
	for name, cfg := range map[string]*tls.Config{
		"TLS 1.2":      {Certificates: []tls.Certificate{cert}, MaxVersion: tls.VersionTLS12, NextProtos: []string{"klink/1"}},
		"no ALPN":      {Certificates: []tls.Certificate{cert}},
		"other ALPN":   {Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}},
		"not even TLS": nil,
		"another's key": func() *tls.Config {
			other, _ := certificate(t)
			return &tls.Config{Certificates: []tls.Certificate{other}}
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			addr := streamServer(t, cfg, func(c net.Conn) { t.Error("it got Connect, with a token") })
			if cfg == nil {
				addr = streamServer(t, nil, func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n")) })
			}
			ctx, cancel := context.WithCancel(t.Context())
			_, err := sdk.Dial(ctx, sdk.Config{
				Endpoints: []string{"tls://" + addr}, Token: staticToken, TLS: &tls.Config{RootCAs: roots},
				Handler: &sdk.Callbacks{Status: func(s *sdk.Status) {
					if s.State == sdk.StateWaiting {
						cancel()
					}
				}},
			})
			if err == nil || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "connect to tls://") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// An FE that dies without a word: clients go on at another, with their tags.
func TestFrontEndDies(t *testing.T) {
	store := newStore(t)
	second := startNode(t, store, "fe-2", "127.0.0.1:0", nil)
	conns := make(chan net.Conn, 10)
	proxy := relay(t, startNode(t, store, "fe-1", "127.0.0.1:0", nil).addr, conns)
	e := newEvents()
	cfg := second.config(t, "alice", "tcp://"+proxy.Addr().String(), e)
	cfg.Endpoints, cfg.Ordered, cfg.Tags = append(cfg.Endpoints, "tcp://"+second.addr), true, []string{"room:1"}
	c := dial(t, cfg)
	e.wait(t, sdk.StateConnected)
	proxy.Close()
	reset := (<-conns).(*net.TCPConn)
	_ = reset.SetLinger(0)
	_ = reset.Close()
	if st := e.wait(t, sdk.StateConnected); st.Endpoint != "tcp://"+second.addr {
		t.Errorf("went to %+v", st)
	}
	if got, err := c.Publish(t.Context(), sdk.Publication{Tag: "room:1", Payload: text("here")}); err != nil || got.Matched != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if s := c.Stats(); s.Lost != 1 {
		t.Errorf("counted %+v", s)
	}
}

// A connection that is cut is made again, with TLS by resumption where the server offers it.
func TestReconnectOverEveryTransport(t *testing.T) {
	n := startNode(t, newStore(t), "fe-1", "127.0.0.1:0", nil)
	for _, scheme := range []string{"tcp", "tls", "ws", "wss"} {
		t.Run(scheme, func(t *testing.T) {
			conns := make(chan net.Conn, 10)
			proxy := relay(t, n.addr, conns)
			e := newEvents()
			c := dial(t, n.config(t, "alice", scheme+"://"+proxy.Addr().String(), e))
			if _, err := c.Subscribe(t.Context(), "room:1"); err != nil {
				t.Fatal(err)
			}
			for k := range uint64(3) {
				if st := e.wait(t, sdk.StateConnected); st.Connects != k+1 {
					t.Errorf("connected %d times, want %d", st.Connects, k+1)
				}
				if got, err := c.Publish(t.Context(), sdk.Publication{Tag: "room:1", Payload: text("x")}); err != nil || got.Matched != 1 {
					t.Errorf("got %+v, %v", got, err)
				}
				<-e.pushes
				if k < 2 {
					(<-conns).Close()
				}
			}
		})
	}
}

// relay passes connections on to addr and gives away the client's side of each.
func relay(t *testing.T, addr string, conns chan<- net.Conn) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			conns <- c
			go func() { _, _ = io.Copy(up, c); up.Close() }()
			go func() { _, _ = io.Copy(c, up); c.Close() }()
		}
	}()
	return l
}

// Clients leave no goroutine and no session behind.
func TestNothingIsLeftBehind(t *testing.T) {
	n := startNode(t, newStore(t), "fe-1", "127.0.0.1:0", func(c *fe.Config) { c.Net.MaxHandshakesPerNet = 1000 })
	var clients []*sdk.Client
	for i := range 100 {
		scheme := []string{"tcp", "tls", "ws", "wss"}[i%4]
		clients = append(clients, dial(t, n.config(t, fmt.Sprint("user", i), scheme+"://"+n.addr, newEvents())))
	}
	if ours() == "" {
		t.Error("the clients that run are not seen")
	}
	for _, c := range clients {
		_ = c.Close()
	}
	for _, c := range clients {
		<-c.Done()
	}
	// Goroutines that have done their work may still need a turn to end.
	var left string
	for range 100_000 {
		if left = ours(); left == "" {
			break
		}
		runtime.Gosched()
	}
	if left != "" {
		t.Errorf("goroutines are left:\n%s", left)
	}
	st, err := n.store.Stats(t.Context())
	if err != nil || st.Sessions != 0 {
		t.Errorf("%d sessions are left, %v", st.Sessions, err)
	}
}

// ours is the stacks of all goroutines that run a client.
func ours() string {
	buf := make([]byte, 8<<20)
	var out []string
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "klink/sdk/go.(*") {
			out = append(out, stack)
		}
	}
	return strings.Join(out, "\n\n")
}
