package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestDefaultsAreValid(t *testing.T) {
	l, err := Load("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l.Config.Sessions.Heartbeat.Std() != time.Minute || l.Config.FE.SendBuffer != 32<<10 || l.Config.FE.Listen[0] != ":7443" {
		t.Errorf("defaults were not read: %+v", l.Config)
	}
	for _, k := range Keys() {
		if k.Doc == "" || l.Sources[k.Path] != FromDefault {
			t.Errorf("%s: doc %q, source %q", k.Path, k.Doc, l.Sources[k.Path])
		}
	}
}

func TestDefaultFileChangesNothing(t *testing.T) {
	var b bytes.Buffer
	if err := WriteDefault(&b); err != nil {
		t.Fatal(err)
	}
	got, err := Parse("default.yaml", b.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	want, _ := Load("", nil, nil)
	if !reflect.DeepEqual(normal(got.Config), normal(want.Config)) {
		t.Errorf("the default file reads as\n%+v\nwant\n%+v", got.Config, want.Config)
	}
	for _, k := range Keys() {
		if got.Sources[k.Path] != FromFile {
			t.Errorf("%s is missing in the default file", k.Path)
		}
	}
}

// normal makes empty and nil lists equal.
func normal(c Config) Config {
	v := reflect.ValueOf(&c).Elem()
	for _, f := range v.Fields() {
		if f.Kind() == reflect.Struct {
			for _, g := range f.Fields() {
				if g.Kind() == reflect.Slice && g.Len() == 0 {
					g.SetZero()
				}
			}
		}
	}
	return c
}

func TestPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "klink.yaml")
	text := "fe:\n  loops: 2\n  listen: ['127.0.0.1:1', '[::1]:2']\nlog: {level: warn}\nsessions:\n  queue: 10KB\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Load(file, []string{"KLINK_FE_LOOPS=3", "KLINK_LOG_LEVEL=error", "KLINK_API_KEY=x", "HOME=/"},
		map[string]string{"fe.loops": "4", "apps": "[{name: a, devices: one_per_user}]"})
	if err != nil {
		t.Fatal(err)
	}
	c := &l.Config
	if c.FE.Loops != 4 || c.Log.Level != "error" || len(c.FE.Listen) != 2 || c.Sessions.Queue != 10_000 || c.Apps[0].Devices != "one_per_user" {
		t.Errorf("got %+v", c)
	}
	want := map[string]Source{"fe.loops": FromFlag, "log.level": FromEnv, "fe.listen": FromFile, "apps": FromFlag, "fe.path": FromDefault}
	for k, src := range want {
		if l.Sources[k] != src {
			t.Errorf("%s comes from %s, want %s", k, l.Sources[k], src)
		}
	}
	var b bytes.Buffer
	if err := l.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"loops: 4 # flag", "level: error # env", "path: /connect # default"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("print lacks %q:\n%s", line, b.String())
		}
	}
	if _, err := Parse("printed", b.Bytes()); err != nil {
		t.Errorf("what print says can't be read: %v", err)
	}
}

func TestBadInputIsNamed(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"unknown key", "fe:\n  loop: 2\n", "f.yaml:2: unknown key fe.loop (did you mean fe.loops?)"},
		{"unknown section", "front_end: {}\n", "f.yaml:1: unknown key front_end"},
		{"right name, wrong place", "listen: x\n", "did you mean"},
		{"wrong type", "fe:\n  loops: many\n", `f.yaml:2: fe.loops: "many" is not a whole number`},
		{"no unit", "sessions:\n  heartbeat: 60\n", `"60" is not a duration such as 30s`},
		{"negative duration", "sessions:\n  heartbeat: -1s\n", "below zero"},
		{"bad size", "fe:\n  send_buffer: 3 floppies\n", "is not a size"},
		{"twice", "fe:\n  loops: 1\n  loops: 2\n", "fe.loops is there twice"},
		{"section is a value", "fe: 3\n", "f.yaml:1: fe must hold keys"},
		{"list is a value", "fe:\n  listen: x\n", "fe.listen: want a list"},
		{"two documents", "fe: {}\n---\nfe: {}\n", "more than one document"},
		{"not yaml", "fe: [\n", "f.yaml"},
		{"below", "runtime:\n  gogc: 1\n", "runtime.gogc: 1 is below 20"},
		{"one of", "tls:\n  engine: fast\n", `tls.engine: "fast" is not one of loop, stdlib`},
		{"unknown field of a record", "apps:\n  - name: a\n    policy: x\n", "field policy not found"},
		{"cert without key", "tls:\n  cert: a.pem\n", "tls.cert and tls.key belong together"},
		{"address", "api:\n  listen: here\n", `api.listen: "here" is not an address`},
		{"network", "fe:\n  proxy_trusted: [10.0.0.0]\n", "is not a network"},
		{"alg", "auth:\n  keys: [{kid: a, alg: none}]\n", `alg "none" is not one of`},
		{"app of a key", "auth:\n  api_keys: [{name: a, hash: x, app: nope, scopes: [push]}]\n", `app "nope" is not in apps`},
		{"scope", "auth:\n  api_keys: [{name: a, hash: x, scopes: [all]}]\n", `scope "all" is not one of`},
		{"kid twice", "auth:\n  keys: [{kid: a, alg: HS256, secret: x}, {kid: a, alg: HS256, secret: y}]\n", `auth.keys[1]: the kid "a" is there twice`},
		{"name twice", "auth:\n  api_keys: [{name: a, key_file: x}, {name: a, key_file: y}]\n", `auth.api_keys[1]: the name "a" is there twice`},
		{"key for its hash", "auth:\n  api_keys: [{name: a, hash: secret-key}]\n", "auth.api_keys[0]: hash is not a SHA-256"},
		{"origin without scheme", "fe:\n  origins: [app.example.com]\n", `fe.origins: "app.example.com" is not an origin`},
		{"origin with a path", "fe:\n  origins: [https://app.example.com/x]\n", "is not an origin"},
		{"host with a port", "api:\n  hosts: ['api.example.com:7080']\n", `api.hosts: "api.example.com:7080" is not a name`},
		{"drain target", "drain:\n  target: 'https://other'\n", `drain.target: "https://other" is not a URL such as tls://`},
		{"heartbeat order", "sessions:\n  heartbeat: 1s\n", "heartbeat_min <= heartbeat"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if _, err := Load("", []string{"KLINK_FE_LOOPZ=1"}, nil); err == nil || !strings.Contains(err.Error(), "KLINK_FE_LOOPZ") {
		t.Errorf("unknown variable: %v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none"), nil, nil); err == nil {
		t.Error("a missing file is no error")
	}
}

func TestGoodValuesAreAccepted(t *testing.T) {
	text := "fe:\n  origins: ['*', https://app.example.com, 'http://[::1]:3000/']\napi:\n  hosts: [api.example.com, 127.0.0.1, '::1']\n" +
		"drain:\n  target: wss://b.example.com/connect\nauth:\n  api_keys: [{name: a, hash: " + strings.Repeat("aF", 32) + "}]\n"
	if _, err := Parse("f.yaml", []byte(text)); err != nil {
		t.Error(err)
	}
}

func TestSecretsAreMasked(t *testing.T) {
	l, err := Parse("f", []byte("auth:\n  keys: [{kid: a, alg: HS256, secret: topsecret}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	_ = l.Write(&b)
	if strings.Contains(b.String(), "topsecret") {
		t.Error("the secret is printed")
	}
}

func FuzzParse(f *testing.F) {
	var b bytes.Buffer
	_ = WriteDefault(&b)
	f.Add(b.String())
	f.Add("fe: {loops: 2}\napps: [{name: x}]")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Parse("f", []byte(s))
		if err == nil && l.Config.Validate() != nil {
			t.Error("accepted what does not validate")
		}
	})
}
