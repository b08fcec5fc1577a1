package main

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"klink": func() { os.Exit(run()) }})
}

// The scripts run the real binary: a server of their own on free ports, and the other commands against it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			e.Values[serverKey{}] = new(*server)
			e.Setenv("GORACE", "atexit_sleep_ms=1") // commands end by the dozen: none has to wait for others' reports
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serverstart": serverStart, "serversignal": serverSignal, "serverwait": serverWait,
			"online": online, "unready": unready, "readme": readme,
		},
		RequireExplicitExec: true,
	})
}

// server is the server of one script.
type server struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr bytes.Buffer
	ended  chan error
	mu     sync.Mutex // guards stdout while it is read along
}

// serverKey finds the server among the values of a script.
type serverKey struct{}

func theServer(ts *testscript.TestScript) *server {
	s := *ts.Value(serverKey{}).(**server)
	if s == nil {
		ts.Fatalf("no server was started")
	}
	return s
}

// serverStart ARGS... starts `klink ARGS...` and sets KLINK_API, KLINK_ADDR and PORT from what it prints.
func serverStart(ts *testscript.TestScript, _ bool, args []string) {
	path := ""
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), string(os.PathListSeparator)) {
		if _, err := os.Stat(filepath.Join(dir, "klink")); err == nil && path == "" {
			path = filepath.Join(dir, "klink")
		}
	}
	s := &server{cmd: exec.Command(path, args...), ended: make(chan error, 1)}
	s.cmd.Dir = ts.Getenv("WORK")
	for _, k := range []string{"PATH", "HOME", "XDG_CACHE_HOME", "TMPDIR", "GORACE", "WORK", "TESTSCRIPT_COMMAND_NAME"} {
		if v := ts.Getenv(k); v != "" {
			s.cmd.Env = append(s.cmd.Env, k+"="+v)
		}
	}
	s.cmd.Stderr = &s.stderr
	out, err := s.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(s.cmd.Start())
	*ts.Value(serverKey{}).(**server) = s
	ts.Defer(func() { _ = s.cmd.Process.Kill() }) // one that has ended already is fine

	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		s.stdout.WriteString(line)
		if err != nil {
			ts.Fatalf("the server ended: %v\n%s%s", s.cmd.Wait(), s.stdout.String(), s.stderr.String())
		}
		fields := strings.Fields(line)
		if len(fields) >= 2 {
			switch fields[0] {
			case "tls":
				addr := strings.TrimPrefix(fields[1], "tls://")
				ts.Setenv("KLINK_ADDR", addr)
				ts.Setenv("PORT", addr[strings.LastIndexByte(addr, ':')+1:])
			case "api":
				ts.Setenv("KLINK_API", fields[1])
			}
		}
		if strings.HasPrefix(line, "Ctrl-C") {
			break
		}
	}
	go func() {
		s.mu.Lock()
		_, _ = r.WriteTo(&s.stdout) // ends with the process
		s.mu.Unlock()
		s.ended <- s.cmd.Wait()
	}()
}

// serverSignal NAME sends TERM, INT or HUP to the server.
func serverSignal(ts *testscript.TestScript, _ bool, args []string) {
	sig := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}[args[0]]
	ts.Check(theServer(ts).cmd.Process.Signal(sig))
}

// serverWait waits for the end of the server, which must be a success, and writes what it printed to the files out and err.
func serverWait(ts *testscript.TestScript, _ bool, _ []string) {
	s := theServer(ts)
	err := <-s.ended
	s.mu.Lock()
	defer s.mu.Unlock()
	ts.Check(os.WriteFile(ts.MkAbs("out"), s.stdout.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), s.stderr.Bytes(), 0o600))
	if err != nil {
		ts.Fatalf("the server ended with %v\n%s", err, s.stderr.String())
	}
}

// online USER... waits until the users are online.
func online(ts *testscript.TestScript, neg bool, users []string) {
	for _, u := range users {
		poll(ts, "POST", "/v1/presence/query", `{"users":["`+u+`"]}`, func(code int, body string) bool {
			return code == http.StatusOK && strings.Contains(body, `"online":true`) != neg
		})
	}
}

// unready waits until readiness is off.
func unready(ts *testscript.TestScript, _ bool, _ []string) {
	poll(ts, "GET", "/readyz", "", func(code int, _ string) bool { return code == http.StatusServiceUnavailable })
}

// poll asks until the answer is good; how long that may take is the test's own limit.
func poll(ts *testscript.TestScript, method, path, body string, good func(code int, body string) bool) {
	for {
		req, err := http.NewRequest(method, ts.Getenv("KLINK_API")+path, strings.NewReader(body))
		ts.Check(err)
		req.Header.Set("Authorization", "Bearer dev")
		resp, err := http.DefaultClient.Do(req)
		ts.Check(err)
		var b bytes.Buffer
		_, err = b.ReadFrom(resp.Body)
		resp.Body.Close()
		ts.Check(err)
		if good(resp.StatusCode, b.String()) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// readme BACKGROUND runs the blocks of the README that are marked as tour, line by line. BACKGROUND ends the one line that the README leaves
// running, which the script has started.
func readme(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile("../../README.md")
	ts.Check(err)
	ran := 0
	for block := range strings.SplitSeq(string(text), "```sh tour") {
		body, _, _ := strings.Cut(block, "```")
		kind, lines, ok := strings.Cut(body, "\n")
		switch {
		case !ok || strings.HasPrefix(block, "# "): // what is before the first block
			continue
		case kind == "-background":
			if strings.TrimSpace(lines) != "bin/klink"+args[0] {
				ts.Fatalf("the README leaves %q running", lines)
			}
			continue
		}
		for line := range strings.Lines(strings.TrimSpace(lines)) {
			line = strings.ReplaceAll(strings.ReplaceAll(line, "http://127.0.0.1:7080", ts.Getenv("KLINK_API")), "bin/klink", "klink")
			ts.Check(ts.Exec("sh", "-c", line))
			if out := ts.ReadFile("stdout"); strings.Contains(line, "push") && !strings.Contains(out, "matched 1") && !strings.Contains(out, `"matched":1`) {
				ts.Fatalf("%s reached nobody: %s", line, out)
			}
			ran++
		}
	}
	if ran < 5 {
		ts.Fatalf("the README has a tour of %d commands", ran)
	}
}
