package wsframe_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/klinkio/klink/proto/wsframe"
)

// echo serves one connection as a loop would: it upgrades it, sends each message back and answers pings and the close frame.
func echo(c net.Conn, limit int) error {
	defer c.Close()
	var in, out, msg []byte
	var u wsframe.Upgrade
	var r wsframe.Reader
	chunk := make([]byte, 1000)
	for upgraded := false; ; {
		n, err := c.Read(chunk)
		if err != nil {
			return err
		}
		in = append(in, chunk[:n]...)
		if !upgraded {
			n, err := wsframe.ParseUpgrade(in, &u)
			if errors.Is(err, wsframe.ErrShort) {
				continue
			}
			if e, ok := errors.AsType[*wsframe.RequestError](err); ok {
				_, err := c.Write(wsframe.AppendRefusal(nil, e.Status, "upgrade", e.Text))
				return err
			}
			out, upgraded = wsframe.AppendAccept(out, &u, u.Choose("klink.v1")), true
			in = in[n:]
		}
		for {
			ev, n, _, err := r.Next(in, limit)
			in = in[n:]
			if e, ok := errors.AsType[*wsframe.FrameError](err); ok {
				_, err = c.Write(wsframe.AppendClose(out, e.Code, e.Text))
				return err
			}
			if ev.Kind == wsframe.None {
				break
			}
			switch ev.Kind {
			case wsframe.Message, wsframe.Fragment:
				if msg = append(msg, ev.Payload...); ev.Final {
					out = append(wsframe.AppendHeader(out, ev.Op, len(msg)), msg...)
					msg = msg[:0]
				}
			case wsframe.Ping:
				out = append(wsframe.AppendHeader(out, wsframe.OpPong, len(ev.Payload)), ev.Payload...)
			case wsframe.Close:
				_, err := c.Write(wsframe.AppendClose(out, ev.Code, string(ev.Reason)))
				return err
			}
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
		out = out[:0]
	}
}

// serve runs echo for one connection at a loopback address and returns its URL.
func serve(t *testing.T, host string, limit int) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = echo(c, limit)
		}
		done <- err
	}()
	t.Cleanup(func() {
		l.Close()
		if err := <-done; err != nil {
			t.Errorf("server: %v", err)
		}
	})
	return "ws://" + l.Addr().String() + "/connect?v=1"
}

func dial(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	// The small buffer makes the client send larger messages in fragments.
	d := websocket.Dialer{Subprotocols: []string{"other", "klink.v1"}, WriteBufferSize: 300}
	c, resp, err := d.Dial(url, http.Header{"Authorization": {"Bearer x"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if c.Subprotocol() != "klink.v1" || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("subprotocol %q, %s", c.Subprotocol(), resp.Status)
	}
	return c
}

func TestGorillaClient(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			c := dial(t, serve(t, host, 1<<20))
			var pongs []string
			c.SetPongHandler(func(s string) error {
				pongs = append(pongs, s)
				return nil
			})
			for _, n := range []int{0, 1, 125, 126, 127, 299, 300, 301, 5000, 65535, 65536, 200000} {
				for _, kind := range []int{websocket.TextMessage, websocket.BinaryMessage} {
					sent := []byte(strings.Repeat("x", n%3) + strings.Repeat("€", n/3)) // fragments cut its runes
					w, err := c.NextWriter(kind)                                        // fragments as its buffer fills; WriteMessage would not
					if err != nil {
						t.Fatal(err)
					}
					ping := fmt.Sprint(n)
					if _, err := io.Copy(w, bytes.NewReader(sent)); err != nil {
						t.Fatal(err)
					}
					if err := c.WriteControl(websocket.PingMessage, []byte(ping), time.Time{}); err != nil {
						t.Fatal(err)
					}
					if err := w.Close(); err != nil {
						t.Fatal(err)
					}
					gotKind, got, err := c.ReadMessage()
					if err != nil || gotKind != kind || !bytes.Equal(got, sent) {
						t.Fatalf("%d bytes of kind %d came back as %d of kind %d: %v", len(sent), kind, len(got), gotKind, err)
					}
					if len(pongs) == 0 || pongs[len(pongs)-1] != ping {
						t.Errorf("pongs %q, want %q last", pongs, ping)
					}
				}
			}
			if err := c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(4001, "bye")); err != nil {
				t.Fatal(err)
			}
			_, _, err := c.ReadMessage()
			if e, ok := errors.AsType[*websocket.CloseError](err); !ok || e.Code != 4001 || e.Text != "bye" {
				t.Errorf("got %v, want close 4001 bye", err)
			}
		})
	}
}

func TestGorillaClientIsToldWhyItIsClosed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind int
		send string
		code int
	}{
		"too big":    {websocket.BinaryMessage, "longer than ten", websocket.CloseMessageTooBig},
		"not UTF-8":  {websocket.TextMessage, "\xff", websocket.CloseInvalidFramePayloadData},
		"close code": {websocket.CloseMessage, "\x03\xec", websocket.CloseProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, serve(t, "127.0.0.1", 10))
			if err := c.WriteMessage(tc.kind, []byte(tc.send)); err != nil {
				t.Fatal(err)
			}
			_, _, err := c.ReadMessage()
			if e, ok := errors.AsType[*websocket.CloseError](err); !ok || e.Code != tc.code || e.Text == "" {
				t.Errorf("got %v, want close %d with its reason", err, tc.code)
			}
		})
	}
}

func TestPlainHTTPClientIsToldToUpgrade(t *testing.T) {
	t.Parallel()
	url := serve(t, "127.0.0.1", 10)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	resp, err := (&http.Client{Transport: tr}).Get("http" + url[len("ws"):])
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUpgradeRequired || resp.Header.Get("Sec-WebSocket-Version") != "13" || resp.Header.Get("Upgrade") != "websocket" {
		t.Errorf("got %v", resp)
	}
}
