package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/klinkio/klink/config"
	"github.com/klinkio/klink/sdk/go"
)

func TestPlaintextOnlyOnLoopback(t *testing.T) {
	tests := []struct {
		host            string
		insecure, plain bool
		listen          string
	}{
		{"127.0.0.1", false, true, "127.0.0.1:7443"},
		{"::1", false, true, "[::1]:7443"},
		{"localhost", false, true, "localhost:7443"},
		{"0.0.0.0", false, false, "0.0.0.0:7443"},
		{"", false, false, ":7443"},
		{"192.0.2.1", false, false, "192.0.2.1:7443"},
		{"192.0.2.1", true, true, "192.0.2.1:7443"},
	}
	for _, tc := range tests {
		l, err := config.Load("", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		f := devFlags{port: 7443, apiPort: 7080, host: tc.host, insecure: tc.insecure}
		f.apply(l)
		if c := &l.Config; c.FE.Insecure != tc.plain || c.FE.Listen[0] != tc.listen || c.API.Listen != "127.0.0.1:7080" {
			t.Errorf("%q, insecure %v: plain %v on %v, API on %s", tc.host, tc.insecure, c.FE.Insecure, c.FE.Listen, c.API.Listen)
		}
	}
}

func TestConfigurationWinsOverDevelopment(t *testing.T) {
	l, err := config.Load("", []string{"KLINK_DRAIN_TIMEOUT=9s"}, map[string]string{"fe.listen": "127.0.0.1:1", "fe.insecure": "false", "admin.listen": "127.0.0.1:2", "api.listen": "127.0.0.1:3", "log.level": "debug"})
	if err != nil {
		t.Fatal(err)
	}
	f := devFlags{port: 7443, apiPort: 7080, host: devHost}
	f.apply(l)
	c := &l.Config
	if c.FE.Listen[0] != "127.0.0.1:1" || c.FE.Insecure || c.Admin.Listen != "127.0.0.1:2" || c.API.Listen != "127.0.0.1:3" ||
		c.Log.Level != "debug" || c.Drain.Timeout.Std() != 9*time.Second {
		t.Errorf("got %+v", c)
	}
}

func TestCommandsCanBePasted(t *testing.T) {
	cached := "/var/gocache/ab/" + strings.Repeat("ab", 32) + "-d/klink"
	for _, tc := range []struct{ dir, arg0, want string }{
		{"../..", "/tmp/go-build123/b001/exe/klink", "go run ./cmd/klink"},
		{"../..", "/home/me/.cache/go-build/ab/cd-d/klink", "go run ./cmd/klink"},
		{"../..", cached, "go run ./cmd/klink"},
		{".", cached, "go run github.com/klinkio/klink/cmd/klink"},
		{"../..", "klink", "klink"}, {"../..", "bin/klink", "bin/klink"}, {"../..", "/opt/cd-d/klink", "/opt/cd-d/klink"},
	} {
		t.Run(tc.dir+" "+tc.arg0, func(t *testing.T) {
			t.Chdir(tc.dir)
			if got := self(tc.arg0); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// What is wanted of a token that was given on the command line.
func TestFixedToken(t *testing.T) {
	give := fixed("t")
	for why, want := range map[sdk.TokenReason]error{
		sdk.TokenConnect: nil, sdk.TokenUnauthorized: nil, sdk.TokenRevoked: nil, sdk.TokenExpiring: errNoSuccessor, sdk.TokenExpired: sdk.ErrSignedOut,
	} {
		token, err := give(t.Context(), why)
		if !errors.Is(err, want) || (err == nil) != (token == "t") {
			t.Errorf("%s: %q, %v, want %v", why, token, err, want)
		}
	}
	if errors.Is(errNoSuccessor, sdk.ErrSignedOut) {
		t.Error("a session would end before its token")
	}
}

func TestTerminalsAreNotSteered(t *testing.T) {
	if got := printable("a\x1b[2Jb\u009bc\nd é"); got != "a\ufffd[2Jb\ufffdc\ufffdd é" {
		t.Errorf("got %q", got)
	}
}
