package klinkv1_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The committed code must be what the .proto file generates.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	if _, err := exec.LookPath("protoc"); err != nil {
		t.Fatalf("make setup installs protoc: %v", err)
	}
	// go test caches results by the files that the test itself looks at.
	for _, f := range []string{"client.proto", "../../generate.sh", "../../../tools/go.mod"} {
		if _, err := os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	cmd := exec.Command("../../generate.sh", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("generate.sh: %v\n%s", err, out)
	}
	fresh, err := filepath.Glob(filepath.Join(dir, "klink", "v1", "*.pb.go"))
	if err != nil || len(fresh) == 0 {
		t.Fatalf("nothing generated (%v)", err)
	}
	committed, err := filepath.Glob("*.pb.go")
	if err != nil || len(committed) != len(fresh) {
		t.Fatalf("%d files are committed, %d are generated (%v)", len(committed), len(fresh), err)
	}
	for _, f := range fresh {
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Base(f))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what the .proto files generate: run make generate", filepath.Base(f))
		}
	}
}
