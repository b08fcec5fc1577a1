package klink_test

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/klinkio/klink"

// floors is the house: a package imports only packages of lower floors, and the root from anywhere. The key is the path below the
// module; a longer key wins over a shorter one. Change the table with a reason in docs/decisions.md.
var floors = map[string]int{
	"":                 0,
	"proto/klink/v1":   0,
	"proto/frame":      1, // uses the generated code
	"proto/wsframe":    0,
	"limit":            0,
	"web":              0,
	"config":           1,
	"linkrpc":          1,
	"tagindex":         2,
	"proto/rpc":        2,
	"fe/link":          3,
	"auth":             3,
	"crypto/tls13":     3,
	"crypto/offload":   3,
	"crypto/ticket":    3,
	"fe/netloop":       4,
	"fe/quicfront":     4,
	"connmgr":          4,
	"crux":             4,
	"crux/cruxtest":    5, // the suite uses the interface
	"fleet":            4,
	"sdk/go":           4,
	"fe":               5,
	"svc/push":         5,
	"svc/presence":     5,
	"svc/probe":        5,
	"crux/cruxredis":   5,
	"svc/api":          6,
	"loadtest/floor":   5,
	"loadtest":         8, // its workers start the daemon
	"internal/cluster": 6,
	"internal/relay":   6,
	"internal/interop": 10,
	"internal/h1":      0,
	"daemon":           7,
	"cmd/klink":        9,
}

type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports,Deps", "./...")
	cmd.Stderr = nil
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []listed
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for dec.More() {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	return pkgs
}

func TestFloors(t *testing.T) {
	floor := func(path string) (int, bool) {
		f, ok := floors[strings.TrimPrefix(strings.TrimPrefix(path, module), "/")]
		return f, ok
	}
	for _, p := range list(t) {
		from, ok := floor(p.ImportPath)
		if !ok {
			t.Errorf("%s is not in the table of floors", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) || imp == module {
				continue
			}
			to, ok := floor(imp)
			if !ok || to >= from {
				t.Errorf("%s (floor %d) imports %s (floor %d)", p.ImportPath, from, imp, to)
			}
		}
	}
}

func TestPackageComments(t *testing.T) {
	for _, p := range list(t) {
		n := 0
		for _, f := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if file.Doc != nil && !strings.Contains(file.Doc.Text(), "Code generated") {
				n++
			}
		}
		if n != 1 && !strings.HasSuffix(p.ImportPath, "/proto/klink/v1") {
			t.Errorf("%s has %d package comments, want 1", p.ImportPath, n)
		}
	}
}

// The device SDK must stay small, and no product package may pull in what belongs to tests.
func TestForbiddenDependencies(t *testing.T) {
	forbidden := map[string][]string{
		"sdk/go":    {"github.com/redis/", "github.com/prometheus/", "github.com/spf13/"},
		"cmd/klink": {"testing", "github.com/golang-jwt/", "github.com/getkin/"},
		"fe":        {"github.com/prometheus/", "github.com/gorilla/websocket", "google.golang.org/grpc"},
	}
	for _, p := range list(t) {
		for _, bad := range forbidden[strings.TrimPrefix(p.ImportPath, module+"/")] {
			for _, d := range p.Deps {
				if d == bad || (strings.HasSuffix(bad, "/") && strings.HasPrefix(d, bad)) {
					t.Errorf("%s depends on %s", p.ImportPath, d)
				}
			}
		}
	}
}
