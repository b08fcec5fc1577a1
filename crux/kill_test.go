package crux

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/klinkio/klink"
)

// The files are a whole state at any moment, also while snapshots are written.
func TestFilesWhileInUse(t *testing.T) {
	live := t.TempDir()
	e := openStore(t, EmbeddedConfig{Path: live})
	e.durable.packAt.Store(3000) // snapshots, often
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 60 {
				setTag(t, e, fmt.Sprint("user ", w), fmt.Sprintf("%02d", i))
				if w == 0 && i%6 == 0 {
					e.durable.packAt.Store(3000)
				}
			}
		})
	}
	// Copies of the directory while it is in use are what a kill leaves, if they are taken file by file in the order in
	// which the store reads them; a copy that missed a file that was being replaced is no such state, and is taken again.
	type state struct {
		dir string
		min [4]int
	}
	var states []state
	for len(states) < 10 {
		s := state{dir: t.TempDir()}
		for w := range s.min {
			if got := tagsOf(t, e, fmt.Sprint("user ", w)); got != "" {
				s.min[w] = len(strings.Fields(got))
			}
		}
		if copyDir(live, s.dir) {
			states = append(states, s)
		}
	}
	wg.Wait()
	closeStore(t, e)
	if e.Counters().Snapshots == 0 {
		t.Fatal("no snapshot was written")
	}
	for i, s := range append(states, state{dir: live, min: [4]int{60, 60, 60, 60}}) {
		e := openStore(t, EmbeddedConfig{Path: s.dir})
		for w := range s.min {
			got := strings.Fields(tagsOf(t, e, fmt.Sprint("user ", w)))
			if len(got) < s.min[w] {
				t.Errorf("state %d: user %d has %d tags, had %d", i, w, len(got), s.min[w])
			}
			for k, tag := range got {
				if tag != fmt.Sprintf("%02d", k) {
					t.Errorf("state %d: user %d lacks tag %02d", i, w, k)
					break
				}
			}
		}
		closeStore(t, e)
	}
}

const childDir = "CRUX_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println("child:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child sets tags for ever and says after each that it is done.
func child(dir string) error {
	e, err := NewEmbedded(EmbeddedConfig{Path: dir})
	if err != nil {
		return err
	}
	inc, err := e.RegisterFE(context.Background(), FE{ID: "fe1"})
	if err != nil {
		return err
	}
	fmt.Println("number", inc.Num)
	for i := 0; ; i++ {
		e.durable.packAt.Store(int64(2000 + i%7*500)) // snapshots, often
		user := fmt.Sprint("user ", i%20)
		ut, err := e.ChangeTags(context.Background(), "shop", user, []string{fmt.Sprint(i)}, []string{fmt.Sprint(i - 20)})
		if err != nil {
			return err
		}
		fmt.Println("done", i, ut.Version)
	}
}

// A process that is killed has lost nothing that it had answered, and the next one gives higher numbers and versions.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	lastNum := uint64(0)
	for round := range 6 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var num uint64
		last, version := -1, klink.Version(0)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, err := fmt.Sscanf(lines.Text(), "number %d", &num); err == nil {
				continue
			}
			if _, err := fmt.Sscanf(lines.Text(), "done %d %d", &last, &version); err != nil {
				t.Errorf("child said %q", lines.Text())
			}
			if last == 60+37*round {
				_ = cmd.Process.Kill() // what it says until it is dead counts
			}
		}
		_ = cmd.Wait() // killed
		if last < 60 || num <= lastNum {
			t.Fatalf("round %d: the child did %d changes, number %d after %d", round, last, num, lastNum)
		}
		lastNum = num
		e := openStore(t, EmbeddedConfig{Path: dir})
		for i := last - 19; i <= last; i++ {
			// The change that was under way when the process died may have been made.
			user := fmt.Sprint("user ", i%20)
			if got := tagsOf(t, e, user); got != fmt.Sprint(i) && (i != last-19 || got != fmt.Sprint(last+1)) {
				t.Errorf("round %d: %s has tags %q, want %d", round, user, got, i)
			}
		}
		if v := setTag(t, e, "late", fmt.Sprint("round ", round)); v <= version {
			t.Errorf("round %d: version %d after %d", round, v, version)
		}
		for i := range 20 {
			if _, err := e.DeleteUser(t.Context(), "shop", fmt.Sprint("user ", i)); err != nil {
				t.Fatal(err)
			}
		}
		closeStore(t, e)
	}
}

// copyDir copies snapshots and journals, and reports false if the set of files changed meanwhile.
func copyDir(from, to string) bool {
	list := func() string {
		names, _ := filepath.Glob(filepath.Join(from, "*-*"))
		return strings.Join(names, " ")
	}
	before := list()
	for name := range strings.FieldsSeq(before) {
		if strings.HasPrefix(filepath.Base(name), "new-") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil || os.WriteFile(filepath.Join(to, filepath.Base(name)), data, 0o600) != nil {
			return false
		}
	}
	return before == list()
}
