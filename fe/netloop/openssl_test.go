package netloop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klinkio/klink/crypto/tls13"
	"github.com/klinkio/klink/fe/link"
)

// sClient is an openssl s_client that speaks frames of text.
type sClient struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	log bytes.Buffer
}

func (ts *testServer) sClient(t *testing.T, args ...string) *sClient {
	t.Helper()
	bin, err := exec.LookPath("openssl")
	if err != nil {
		t.Fatalf("this test needs OpenSSL: %v", err)
	}
	cert, _ := testCert(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"s_client", "-connect", ts.addr, "-servername", "localhost", "-CAfile", ca, "-verify_return_error",
		"-tls1_3", "-alpn", ALPN}, args...)
	ctx, cancel := context.WithTimeout(t.Context(), hangAfter)
	t.Cleanup(cancel)
	s := &sClient{cmd: exec.CommandContext(ctx, bin, args...)}
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = s.cmd.Stdout // where it answers commands
	s.out = bufio.NewReader(io.TeeReader(out, &s.log))
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("s_client said: %s", s.log.String())
		}
	})
	return s
}

// echo sends a frame whose length byte is no letter that s_client takes for a command, and waits for it among what else is printed.
func (s *sClient) echo(t *testing.T, body string) {
	t.Helper()
	frame := string(rune(len(body))) + body
	if _, err := io.WriteString(s.in, frame); err != nil {
		t.Fatal(err)
	}
	s.until(t, frame)
}

func (s *sClient) until(t *testing.T, want string) {
	t.Helper()
	var got strings.Builder
	for !strings.HasSuffix(got.String(), want) {
		c, err := s.out.ReadByte()
		if err != nil {
			t.Fatalf("waiting for %q after %q: %v", want, got.String(), err)
		}
		got.WriteByte(c)
	}
}

// command is a letter on a line of its own.
func (s *sClient) command(t *testing.T, letter string) {
	t.Helper()
	if _, err := io.WriteString(s.in, letter+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (s *sClient) quit(t *testing.T) {
	t.Helper()
	s.command(t, "Q")
	if _, err := io.Copy(io.Discard, s.out); err != nil {
		t.Error(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("s_client: %v", err)
	}
}

// TestOpenSSL has OpenSSL talk to both engines: every suite, key updates with and without an answer, and resumption on the other
// handshake loop by a ticket of the first.
func TestOpenSSL(t *testing.T) {
	for _, engine := range engines {
		for _, suite := range []string{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"} {
			name := map[tls13.Engine]string{tls13.EngineLoop: "loop", tls13.EngineStdlib: "stdlib"}[engine] + "/" + suite
			t.Run(name, func(t *testing.T) {
				ts := serve(t, func(c *Config) { c.Loops, c.HandshakeLoops, c.Engine = 1, 2, engine })
				session := filepath.Join(t.TempDir(), "session")
				s := ts.sClient(t, "-ciphersuites", suite, "-sess_out", session)
				s.echo(t, "hello")
				for range 3 {
					s.command(t, "k") // the client's key is new
					s.until(t, "KEYUPDATE\n")
					s.echo(t, "after a key update")
					before := ts.sentByLoop0()
					s.command(t, "K") // and it asks for a new one of ours
					s.until(t, "KEYUPDATE\n")
					eventually(t, "an answer without other traffic", func() bool { return ts.sentByLoop0() > before })
					s.echo(t, "after both keys are new")
				}
				s.quit(t)
				ts.ended(t, link.ClosePeer, 1)
				if n := ts.Stats().Resumed; n != 0 {
					t.Errorf("%d are resumed", n)
				}
				for i := range uint64(3) {
					r := ts.sClient(t, "-ciphersuites", suite, "-sess_in", session)
					r.echo(t, "resumed")
					if n := ts.Stats().Resumed; n != i+1 {
						t.Errorf("%d are resumed, want %d", n, i+1)
					}
					r.quit(t)
				}
				st := [2]uint64{ts.hs[0].tls.Stats().Done, ts.hs[1].tls.Stats().Done}
				if st != [2]uint64{2, 2} {
					t.Errorf("handshakes by loop: %v", st)
				}
			})
		}
	}
}

func (ts *testServer) sentByLoop0() (n uint64) {
	ts.echoes[0].do(func() { n = ts.loops[0].hot.bytesOut })
	return n
}

// TestOpenSSLCloses looks at the end from OpenSSL's side: it wants a close_notify.
func TestOpenSSLCloses(t *testing.T) {
	for _, engine := range engines {
		ts := serve(t, func(c *Config) { c.Engine = engine })
		s := ts.sClient(t)
		s.echo(t, "hello")
		e, h := ts.only(t)
		e.do(func() { e.loop.Close(h, 0, "") })
		if _, err := io.Copy(io.Discard, s.out); err != nil {
			t.Error(err)
		}
		if err := s.cmd.Wait(); err != nil { // after a bare FIN OpenSSL fails: unexpected eof
			t.Errorf("s_client: %v", err)
		}
		if strings.Contains(s.log.String(), "unexpected eof") {
			t.Error("no close_notify came")
		}
		ts.ended(t, link.CloseLocal, 1)
	}
}

// TestOpenSSLRefused has a client that knows nothing newer than TLS 1.2.
func TestOpenSSLRefused(t *testing.T) {
	ts := serve(t, nil)
	bin, err := exec.LookPath("openssl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "s_client", "-connect", ts.addr, "-tls1_2")
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("protocol version")) {
		t.Errorf("%v: %s", err, out)
	}
	ts.refusal(t, RefusedHandshake, 1)
}
