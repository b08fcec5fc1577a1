package tls13

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// hangAfter ends a test whose other side does not answer. Nothing is asserted about time.
const hangAfter = 60 * time.Second

// echoServer answers each connection's data with the same over real sockets, a goroutine each: the package under test is given
// what read(2) returned, in pieces of at most step bytes.
type echoServer struct {
	t      *testing.T
	ln     net.Listener
	server func() *Server // each goroutine needs its own
	step   int
	wg     sync.WaitGroup

	mu      sync.Mutex
	results []Result
	events  map[Event]int
	errs    []error
}

func startEcho(t *testing.T, addr string, cfg *tls.Config, engine Engine, step int) *echoServer {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
	if err != nil {
		t.Fatal(err)
	}
	if !cfg.SessionTicketsDisabled {
		cfg.SetSessionTicketKeys([][32]byte{{42}})
	}
	e := &echoServer{t: t, ln: ln, step: step, events: map[Event]int{}, server: func() *Server { return newTestServer(t, cfg, engine) }}
	e.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			e.wg.Go(func() {
				defer nc.Close()
				_ = nc.SetDeadline(time.Now().Add(hangAfter))
				if err := e.serve(nc); err != nil {
					e.mu.Lock()
					e.errs = append(e.errs, err)
					e.mu.Unlock()
				}
			})
		}
	})
	t.Cleanup(e.stop)
	return e
}

func (e *echoServer) stop() {
	_ = e.ln.Close()
	e.wg.Wait()
}

func (e *echoServer) serve(nc net.Conn) error {
	s := e.server()
	h := s.NewHandshake()
	defer h.Abort()
	buf := make([]byte, 64<<10)
	for h.Status() != Done {
		n, err := nc.Read(buf[:e.step])
		if err != nil {
			return err
		}
		_, err = h.Feed(buf[:n])
		if _, werr := nc.Write(h.Output()); werr != nil {
			return werr
		}
		if err != nil {
			return err
		}
	}
	e.mu.Lock()
	e.results = append(e.results, h.Result())
	e.mu.Unlock()
	if s.engine == EngineStdlib {
		return e.serveRetained(nc, h, buf)
	}
	return e.serveRecord(nc, h, buf)
}

func (e *echoServer) serveRecord(nc net.Conn, h *Handshake, buf []byte) error {
	var r Record
	cache := NewCache(1)
	in, err := h.Export(&r)
	if err != nil {
		return err
	}
	defer r.Wipe(cache, connKey)
	for {
		for {
			total, ok, err := RecordLen(in)
			if err != nil {
				return err
			}
			if !ok || total > len(in) {
				break
			}
			ev, plain, err := r.Open(cache, connKey, in[:total])
			if err != nil {
				return err
			}
			e.count(ev)
			var out []byte
			switch ev {
			case EventData:
				out, err = r.AppendSeal(cache, connKey, nil, plain)
			case EventKeyUpdate:
				out, err = r.AppendPending(cache, connKey, nil)
			case EventCloseNotify, EventAlert:
				out, err = r.AppendCloseNotify(cache, connKey, nil)
			}
			if err != nil {
				return err
			}
			if _, err := nc.Write(out); err != nil {
				return err
			}
			if r.WriteClosed() {
				return nil
			}
			in = in[total:]
		}
		n, err := nc.Read(buf[:e.step])
		if err != nil {
			return err
		}
		in = append(in, buf[:n]...)
	}
}

func (e *echoServer) serveRetained(nc net.Conn, h *Handshake, buf []byte) error {
	r, err := h.Conn()
	if err != nil {
		return err
	}
	in := []byte(nil)
	for {
		var out []byte
		var sealErr error
		closed, err := r.Feed(in, func(p []byte) {
			e.count(EventData)
			out, sealErr = r.AppendSeal(out, p)
		})
		if closed {
			e.count(EventCloseNotify)
			out, sealErr = r.AppendCloseNotify(out)
		}
		out = r.AppendPending(out)
		if _, werr := nc.Write(out); werr != nil {
			return werr
		}
		if err := errors.Join(err, sealErr); err != nil || closed {
			return err
		}
		n, err := nc.Read(buf[:e.step])
		if err != nil {
			return err
		}
		in = buf[:n]
	}
}

func (e *echoServer) count(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events[ev]++
}

// last is the result of the last handshake, and how many there were.
func (e *echoServer) last() (Result, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.results) == 0 {
		return Result{}, 0
	}
	return e.results[len(e.results)-1], len(e.results)
}

// sClient is a running `openssl s_client`.
type sClient struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // closed when the output ends
	log   bytes.Buffer
}

func runSClient(t *testing.T, e *echoServer, args ...string) *sClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangAfter)
	t.Cleanup(cancel)
	c := &sClient{t: t, lines: make(chan string)}
	c.cmd = exec.CommandContext(ctx, "openssl", append([]string{"s_client", "-connect", e.ln.Addr().String(), "-tls1_3", "-servername", testHost}, args...)...)
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stderr = c.cmd.Stdout
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("openssl is needed for the tests of interoperation: %v", err)
	}
	go func() {
		defer close(c.lines)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			c.lines <- sc.Text()
		}
	}()
	return c
}

// expect reads until a line has text in it.
func (c *sClient) expect(text string) {
	c.t.Helper()
	for line := range c.lines {
		c.log.WriteString(line + "\n")
		if strings.Contains(line, text) {
			return
		}
	}
	c.t.Fatalf("s_client ended without %q; it said:\n%s", text, c.log.String())
}

// echo writes a line and waits for it to come back.
func (c *sClient) echo(text string) {
	c.t.Helper()
	c.say(text)
	c.expect(text)
}

func (c *sClient) say(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.stdin, text+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// quit ends s_client by its command, which sends close_notify.
func (c *sClient) quit() {
	c.t.Helper()
	c.say("Q")
	for line := range c.lines {
		c.log.WriteString(line + "\n")
	}
	_ = c.cmd.Wait() // its exit status says nothing about the connection
}

// hosts are both loopbacks: every transport works on both families.
var hosts = []string{"127.0.0.1", "::1"}

func forEngines(t *testing.T, f func(t *testing.T, engine Engine)) {
	t.Run("loop", func(t *testing.T) { f(t, EngineLoop) })
	t.Run("stdlib", func(t *testing.T) { f(t, EngineStdlib) })
}

func TestOpenSSLSuites(t *testing.T) {
	forEngines(t, func(t *testing.T, engine Engine) {
		for i, su := range allSuites {
			e := startEcho(t, hosts[i%2], serverConfig(), engine, 64<<10)
			c := runSClient(t, e, "-ciphersuites", tls.CipherSuiteName(su.id()), "-alpn", "klink/1")
			for _, text := range []string{"hello", strings.Repeat("long ", 500), "bye"} {
				c.echo(text)
			}
			c.quit()
			e.stop()
			got, _ := e.last()
			if got.CipherSuite != su.id() || got.ALPN != "klink/1" || got.ServerName != testHost || e.events[EventCloseNotify] != 1 || len(e.errs) != 0 {
				t.Errorf("%s: result %+v, events %v, errors %v", tls.CipherSuiteName(su.id()), got, e.events, e.errs)
			}
		}
	})
}

func TestOpenSSLRetry(t *testing.T) {
	forEngines(t, func(t *testing.T, engine Engine) {
		cfg := serverConfig()
		cfg.CurvePreferences = []tls.CurveID{tls.X25519}
		for _, host := range hosts {
			e := startEcho(t, host, cfg, engine, 64<<10)
			c := runSClient(t, e, "-groups", "P-256:X25519") // its share is for the first
			c.echo("after the retry")
			c.quit()
			e.stop()
			if got, _ := e.last(); !got.Retried || got.Curve != tls.X25519 {
				t.Errorf("result %+v", got)
			}
		}
	})
}

func TestOpenSSLResumption(t *testing.T) {
	forEngines(t, func(t *testing.T, engine Engine) {
		e := startEcho(t, hosts[0], serverConfig(), engine, 64<<10)
		file := filepath.Join(t.TempDir(), "session.pem")
		c := runSClient(t, e, "-sess_out", file)
		c.expect("New, TLSv1.3")
		c.echo("first")
		c.quit()
		if got, n := e.last(); got.Resumed || n != 1 {
			t.Fatalf("handshake %d: %+v", n, got)
		}
		c = runSClient(t, e, "-sess_in", file)
		c.expect("Reused, TLSv1.3")
		c.echo("second")
		c.quit()
		if got, n := e.last(); !got.Resumed || n != 2 {
			t.Errorf("handshake %d: %+v", n, got)
		}
	})
}

// TestOpenSSLKeyUpdate uses the commands K (asks for ours, too) and k of s_client.
func TestOpenSSLKeyUpdate(t *testing.T) {
	forEngines(t, func(t *testing.T, engine Engine) {
		for _, su := range allSuites {
			e := startEcho(t, hosts[1], serverConfig(), engine, 64<<10)
			c := runSClient(t, e, "-ciphersuites", tls.CipherSuiteName(su.id()))
			c.echo("generation 0")
			for _, command := range []string{"k", "K", "K", "k"} {
				c.say(command)
				c.expect("KEYUPDATE")
				c.echo("after " + command)
				c.echo("and again")
			}
			c.quit()
			e.stop()
			if engine == EngineLoop && e.events[EventKeyUpdate] != 4 {
				t.Errorf("%d KeyUpdates arrived, want 4", e.events[EventKeyUpdate])
			}
			if e.events[EventCloseNotify] != 1 || len(e.errs) != 0 {
				t.Errorf("events %v, errors %v", e.events, e.errs)
			}
		}
	})
}

// TestOpenSSLByteAtATime reads one byte from the socket at a time.
func TestOpenSSLByteAtATime(t *testing.T) {
	forEngines(t, func(t *testing.T, engine Engine) {
		e := startEcho(t, hosts[0], serverConfig(), engine, 1)
		c := runSClient(t, e)
		c.echo("one")
		c.say("K")
		c.expect("KEYUPDATE") // s_client drops what comes in one read with a command
		c.echo("two")
		c.quit()
		e.stop()
		if e.events[EventCloseNotify] != 1 || len(e.errs) != 0 {
			t.Errorf("events %v, errors %v", e.events, e.errs)
		}
	})
}

// TestOpenSSLWithRSA: clients that want RSA get it.
func TestOpenSSLWithRSA(t *testing.T) {
	cfg := serverConfig()
	cfg.Certificates = append(cfg.Certificates, testCert(rsaKey()))
	for sigalgs, want := range map[string]string{"rsa_pss_rsae_sha256": "RSA-PSS", "ecdsa_secp256r1_sha256": "ECDSA"} {
		e := startEcho(t, hosts[0], cfg, EngineLoop, 64<<10)
		c := runSClient(t, e, "-sigalgs", sigalgs)
		c.expect("Peer signature type: " + want)
		c.echo("hello")
		c.quit()
	}
}

func TestOpenSSLOlderVersionRefused(t *testing.T) {
	e := startEcho(t, hosts[0], serverConfig(), EngineLoop, 64<<10)
	out, err := exec.CommandContext(t.Context(), "openssl", "s_client", "-connect", e.ln.Addr().String(), "-tls1_2").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("protocol version")) {
		t.Errorf("%v:\n%s", err, out)
	}
	e.stop()
	if len(e.errs) != 1 {
		t.Fatalf("errors %v", e.errs)
	}
	wantError(t, e.errs[0], ReasonHandshake, NoAlert)
}
