package netloop

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crypto/tls13"
	"github.com/klinkio/klink/fe/link"
)

// TestConnSize keeps the record of a connection within a cache line, and without pointers.
func TestConnSize(t *testing.T) {
	if n := unsafe.Sizeof(conn{}); n > 64 {
		t.Errorf("a connection takes %d bytes", n)
	}
	if n := unsafe.Sizeof(tls13.Record{}); n > 232 {
		t.Errorf("a TLS record takes %d bytes", n)
	}
}

const (
	echoChild = "NETLOOP_TEST_ECHO" // in its environment, a child is a client: transport and address
	echoes    = 800
)

// plainLoop makes an echo of what does not allocate.
type plainLoop struct {
	loop   link.Loop
	answer *link.Frame
}

func (h *plainLoop) OnOpen(klink.Handle, link.Info)             {}
func (h *plainLoop) OnMessage(c klink.Handle, _ []byte)         { h.loop.Send(c, h.answer) }
func (h *plainLoop) OnAlive(klink.Handle)                       {}
func (h *plainLoop) OnWritable(klink.Handle)                    {}
func (h *plainLoop) OnClose(_ klink.Handle, _ link.CloseReason) {}
func (h *plainLoop) OnRound(int64) int                          { return -1 }

// TestEchoAllocatesNothing counts what thousands of messages allocate in the server. The client, whose libraries allocate, is another
// process. Each message comes in two segments and with a WebSocket ping where there is one.
func TestEchoAllocatesNothing(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr, func(t *testing.T) {
			ts := serve(t, func(c *Config) {
				c.NewHandler = func(l link.Loop) link.Handler {
					return &plainLoop{l, link.NewFrame(bytes.Repeat([]byte{'a'}, 100))}
				}
			})
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), echoChild+"="+tr+" "+ts.addr)
			cmd.Stderr = os.Stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 1)
			turn := func() {
				if _, err := in.Write(b); err != nil {
					t.Fatal(err)
				}
				if _, err := out.Read(b); err != nil {
					t.Fatal(err)
				}
			}
			turn() // buffers and ciphers are made
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			turn()
			runtime.ReadMemStats(&after)
			if n := after.Mallocs - before.Mallocs; n > echoes/10 {
				t.Errorf("%d messages made %d allocations", echoes, n)
			}
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("the client: %v", err)
			}
		})
	}
}

// echoFrom sends echoes messages for each byte that it reads, and answers with a byte.
func echoFrom(how string) error {
	tr, addr, _ := strings.Cut(how, " ")
	var c net.Conn
	c, err := dialTCP(addr, 0)
	if err != nil {
		return err
	}
	if tr == "tls" || tr == "wss" {
		proto := map[string]string{"tls": ALPN, "wss": "http/1.1"}[tr]
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}}) // the certificate is of the parent alone
	}
	msg, answer := append([]byte{100}, make([]byte, 100)...), 101
	r := bufio.NewReader(c)
	if tr == "ws" || tr == "wss" {
		if _, err := io.WriteString(c, upgradeRequest(addr, SubprotocolBinary, "")); err != nil {
			return err
		}
		for line := ""; line != "\r\n"; {
			if line, err = r.ReadString('\n'); err != nil {
				return err
			}
		}
		msg = append(clientFrame(wsFin|9, []byte("ping")), clientFrame(wsFin|2, make([]byte, 100))...)
		answer = 6 + 102
	}
	b := make([]byte, 1)
	for {
		if _, err := os.Stdin.Read(b); err == io.EOF {
			return c.Close()
		} else if err != nil {
			return err
		}
		for range echoes {
			if _, err := c.Write(msg[:30]); err != nil {
				return err
			}
			if _, err := c.Write(msg[30:]); err != nil {
				return err
			}
			if n, err := r.Discard(answer); err != nil {
				return fmt.Errorf("after %d bytes: %w", n, err)
			}
		}
		if _, err := os.Stdout.Write(b); err != nil {
			return err
		}
	}
}
