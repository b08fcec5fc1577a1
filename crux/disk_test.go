package crux

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
)

func setTag(tb testing.TB, e *Embedded, user, tag string) klink.Version {
	tb.Helper()
	ut, err := e.ChangeTags(tb.Context(), "shop", user, []string{tag}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return ut.Version
}

func tagsOf(tb testing.TB, e *Embedded, user string) string {
	tb.Helper()
	us, err := e.Lookup(tb.Context(), "shop", []string{user})
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Join(us[0].Tags, " ")
}

func closeStore(tb testing.TB, e *Embedded) {
	tb.Helper()
	if err := e.Close(); err != nil {
		tb.Fatal(err)
	}
}

func files(tb testing.TB, dir, prefix string) []string {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil {
		tb.Fatal(err)
	}
	return names
}

// written is a store's directory with one journal of a few changes, and that journal's bytes.
func written(t *testing.T) (dir, journal string, data []byte) {
	t.Helper()
	dir = t.TempDir()
	e := openStore(t, EmbeddedConfig{Path: dir})
	for i := range 5 {
		setTag(t, e, fmt.Sprint("user ", i), fmt.Sprint("tag ", i))
	}
	closeStore(t, e)
	js := files(t, dir, journalPrefix)
	if len(js) != 1 {
		t.Fatalf("journals: %v", js)
	}
	data, err := os.ReadFile(js[0])
	if err != nil {
		t.Fatal(err)
	}
	return dir, js[0], data
}

func rewrite(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// usersWithTags counts the changes of written that e has; they must be the first ones.
func usersWithTags(t *testing.T, e *Embedded) int {
	t.Helper()
	n := 0
	for i := range 5 {
		switch got := tagsOf(t, e, fmt.Sprint("user ", i)); got {
		case fmt.Sprint("tag ", i):
			if n != i {
				t.Fatalf("change %d is there, %d is not", i, n)
			}
			n++
		case "":
		default:
			t.Fatalf("user %d: got tags %q", i, got)
		}
	}
	return n
}

// A process that died while it wrote leaves the journal cut at any byte: what was answered before is there, the rest is
// cut off, and the store goes on from there.
func TestTornTail(t *testing.T) {
	dir, path, data := written(t)
	last := -1
	for cut := headerBytes; cut <= len(data); cut++ {
		rewrite(t, path, data[:cut])
		e := openStore(t, EmbeddedConfig{Path: dir})
		n := usersWithTags(t, e)
		if n < last || n > last+1 {
			t.Fatalf("cut at %d: %d changes, %d with one byte less", cut, n, last)
		}
		last = max(last, n)
		if torn := e.Counters().TornBytes; torn > 0 && cut == len(data) {
			t.Fatalf("cut off %d bytes of a whole journal", torn)
		}
		setTag(t, e, "late", "x")
		closeStore(t, e)
		e = openStore(t, EmbeddedConfig{Path: dir})
		if tagsOf(t, e, "late") != "x" || usersWithTags(t, e) != n || e.Counters().TornBytes != 0 {
			t.Fatalf("cut at %d: after a change and a restart: %d changes, late %q", cut, usersWithTags(t, e), tagsOf(t, e, "late"))
		}
		closeStore(t, e)
		for _, f := range files(t, dir, "") {
			if filepath.Base(f) != "lock" && f != path {
				t.Fatalf("cut at %d: unexpected file %s", cut, f)
			}
		}
	}
	if last != 5 {
		t.Fatalf("whole journal: %d changes, want 5", last)
	}
}

// A flipped bit is damage, named with file and offset, unless it is in the last write, which may be an unfinished one.
func TestDamage(t *testing.T) {
	dir, path, data := written(t)
	lastFrame := 0
	for o := headerBytes; o < len(data); {
		entries, reason := frameAt(data, 0, int64(o))
		if reason != "" {
			t.Fatal(reason)
		}
		lastFrame, o = o, o+frameHead+len(entries)
	}
	for i := range data {
		bad := append([]byte(nil), data...)
		bad[i] ^= 1 << (i % 8)
		rewrite(t, path, bad)
		e, err := NewEmbedded(EmbeddedConfig{Path: dir})
		if i >= lastFrame {
			if err != nil {
				t.Fatalf("bit of byte %d of the last frame: %v", i, err)
			}
			if got := e.Counters().TornBytes; got != uint64(len(data)-lastFrame) || usersWithTags(t, e) != 4 {
				t.Fatalf("bit of byte %d: cut off %d bytes, %d changes left", i, got, usersWithTags(t, e))
			}
			closeStore(t, e)
			continue
		}
		ce, ok := errors.AsType[*CorruptError](err)
		if !ok {
			t.Fatalf("bit of byte %d: got error %v", i, err)
		}
		if ce.File != path || ce.Offset > int64(i) || i >= headerBytes && ce.Offset < int64(headerBytes) || !strings.Contains(err.Error(), path) {
			t.Fatalf("bit of byte %d: got %v", i, ce)
		}
	}
}

// A hole of zeros where the last write was to be is what some file systems leave.
func TestZeroTail(t *testing.T) {
	dir, path, data := written(t)
	rewrite(t, path, append(data, make([]byte, 5000)...))
	e := openStore(t, EmbeddedConfig{Path: dir})
	if usersWithTags(t, e) != 5 || e.Counters().TornBytes != 5000 {
		t.Fatalf("%d changes, %d bytes cut off", usersWithTags(t, e), e.Counters().TornBytes)
	}
	closeStore(t, e)
	if e = openStore(t, EmbeddedConfig{Path: dir}); usersWithTags(t, e) != 5 || e.Counters().TornBytes != 0 {
		t.Fatalf("second opening: %d changes, %d bytes cut off", usersWithTags(t, e), e.Counters().TornBytes)
	}
	closeStore(t, e)
	rewrite(t, path, append(data, make([]byte, frameHead+maxFrame+1)...))
	if _, err := NewEmbedded(EmbeddedConfig{Path: dir}); err == nil {
		t.Fatal("more zeros than a write has were taken for an unfinished write")
	}
}

// faultyFile fails as a full or dying disk does: after some bytes.
type faultyFile struct {
	file
	mu      sync.Mutex
	room    int // bytes that the disk takes
	syncErr error
	cutErr  error
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(len(p), f.room)
	f.room -= n
	if _, err := f.file.WriteAt(p[:n], off); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (f *faultyFile) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.syncErr, f.file.Sync())
}

func (f *faultyFile) Truncate(n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cutErr != nil {
		return f.cutErr
	}
	return f.file.Truncate(n)
}

func (f *faultyFile) set(room int, syncErr, cutErr error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room, f.syncErr, f.cutErr = room, syncErr, cutErr
}

// A full disk refuses what has to be durable and changes nothing in memory; sessions go on; with room again, so do writes.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	e := openStore(t, EmbeddedConfig{Path: dir})
	ff := &faultyFile{file: e.durable.journal.f, room: 1 << 20}
	e.durable.journal.f = ff
	inc := registerFE(t, e, "fe1")
	version := setTag(t, e, "alice", "vip")
	for name, fault := range map[string]struct {
		room            int
		syncErr, cutErr error
	}{
		"no room":           {room: 0},
		"room for a part":   {room: 90},
		"sync fails":        {room: 1 << 20, syncErr: syscall.EIO},
		"cannot be cut off": {room: 90, cutErr: syscall.EIO},
	} {
		ff.set(fault.room, fault.syncErr, fault.cutErr)
		ctx, fails := t.Context(), e.Counters().WriteFails
		_, err := e.ChangeTags(ctx, "shop", "alice", []string{strings.Repeat("new", 40)}, []string{"vip"})
		if !errors.Is(err, ErrUnavailable) {
			t.Fatalf("%s: change tags: %v", name, err)
		}
		if err := e.Revoke(ctx, "shop", "alice", "", time.Unix(100, 0)); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("%s: revoke: %v", name, err)
		}
		if _, err := e.DeleteUser(ctx, "shop", "alice"); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("%s: delete: %v", name, err)
		}
		us, err := e.Lookup(ctx, "shop", []string{"alice"})
		if err != nil || len(us[0].Tags) != 1 || us[0].Version != version {
			t.Fatalf("%s: refused writes left %+v, %v", name, us, err)
		}
		if bad, err := e.Revoked(ctx, "shop", "alice", "", time.Unix(1, 0)); bad || err != nil {
			t.Fatalf("%s: a refused revocation counts: %v, %v", name, bad, err)
		}
		if got := e.Counters().WriteFails; got != fails+3 {
			t.Fatalf("%s: %d failures counted, want 3", name, got-fails)
		}
		out, err := e.Register(ctx, []Registration{{App: "shop", User: "bob", Device: name, Incarnation: inc, Handle: klink.MakeHandle(1, uint32(fails), 1)}})
		if err != nil || out[0].Verdict != Admitted {
			t.Fatalf("%s: register: %+v, %v", name, out, err)
		}
		ff.set(1<<20, nil, nil)
		if err := e.Revoke(ctx, "shop", "b", "", time.Unix(int64(fails)+1, 0)); err != nil {
			t.Fatalf("%s: after it: %v", name, err)
		}
		if st, err := os.Stat(e.durable.disk.path(journalPrefix, 0)); err != nil || st.Size() != e.durable.journal.size {
			t.Fatalf("%s: rests of a failed write stayed: %v, %v", name, st.Size(), err)
		}
		setTag(t, e, "carol", strings.ReplaceAll(name, " ", "-"))
	}
	closeStore(t, e)
	e = openStore(t, EmbeddedConfig{Path: dir})
	if tagsOf(t, e, "alice") != "vip" || tagsOf(t, e, "carol") != "cannot-be-cut-off no-room room-for-a-part sync-fails" {
		t.Fatalf("after a restart: alice %q, carol %q", tagsOf(t, e, "alice"), tagsOf(t, e, "carol"))
	}
	if bad, err := e.Revoked(t.Context(), "shop", "alice", "", time.Unix(1, 0)); bad || err != nil {
		t.Fatalf("a refused revocation came back: %v, %v", bad, err)
	}
}

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
	for _, name := range strings.Fields(before) {
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

// After a snapshot the older files are gone, and what they said is still known.
func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	e := openStore(t, EmbeddedConfig{Path: dir})
	for i := range 2000 {
		setTag(t, e, fmt.Sprint("user ", i%50), fmt.Sprint("tag ", i))
		if _, err := e.ChangeTags(t.Context(), "shop", fmt.Sprint("user ", i%50), nil, []string{fmt.Sprint("tag ", i-50)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Revoke(t.Context(), "shop", "user 1", "phone", time.Unix(50, 0)); err != nil {
		t.Fatal(err)
	}
	e.durable.packAt.Store(0)
	setTag(t, e, "last", "x")
	closeStore(t, e)
	if got := e.Counters(); got.Snapshots != 1 || got.SnapshotFails != 0 {
		t.Fatalf("counters: %+v", got)
	}
	if s, j := files(t, dir, snapshotPrefix), files(t, dir, journalPrefix); len(s) != 1 || len(j) != 1 || len(files(t, dir, "")) != 3 {
		t.Fatalf("files: %v", files(t, dir, ""))
	}
	e = openStore(t, EmbeddedConfig{Path: dir})
	for i := range 50 {
		if got, want := tagsOf(t, e, fmt.Sprint("user ", i)), fmt.Sprint("tag ", 1950+i); got != want {
			t.Fatalf("user %d: got %q, want %q", i, got, want)
		}
	}
	if bad, err := e.Revoked(t.Context(), "shop", "user 1", "phone", time.Unix(49, 0)); !bad || err != nil || tagsOf(t, e, "last") != "x" {
		t.Fatalf("revoked %v, %v; last %q", bad, err, tagsOf(t, e, "last"))
	}
	closeStore(t, e)

	// A snapshot has to be whole.
	path := files(t, dir, snapshotPrefix)[0]
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut < len(data); cut++ {
		if cut > headerBytes+30 && cut < len(data)-30 && cut%97 != 0 {
			continue
		}
		rewrite(t, path, data[:cut])
		_, err := NewEmbedded(EmbeddedConfig{Path: dir})
		if ce, ok := errors.AsType[*CorruptError](err); !ok || ce.File != path {
			t.Fatalf("snapshot cut at %d: got %v", cut, err)
		}
	}
	rewrite(t, path, data)
	if err := os.Remove(files(t, dir, journalPrefix)[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := NewEmbedded(EmbeddedConfig{Path: dir}); err == nil {
		t.Fatal("a missing journal was not noticed")
	}
}

// A snapshot that can't be written leaves the store as it was.
func TestSnapshotFails(t *testing.T) {
	dir := t.TempDir()
	e := openStore(t, EmbeddedConfig{Path: dir})
	setTag(t, e, "alice", "a")
	block := filepath.Join(dir, newSnapshotName, "in the way")
	if err := os.MkdirAll(block, 0o700); err != nil {
		t.Fatal(err)
	}
	e.durable.packAt.Store(0)
	setTag(t, e, "alice", "b")
	e.durable.tasks.Wait()
	if got := e.Counters(); got.SnapshotFails != 1 || got.Snapshots != 0 {
		t.Fatalf("counters: %+v", got)
	}
	setTag(t, e, "alice", "c")
	closeStore(t, e)
	if err := os.RemoveAll(filepath.Dir(block)); err != nil {
		t.Fatal(err)
	}
	e = openStore(t, EmbeddedConfig{Path: dir})
	if got := tagsOf(t, e, "alice"); got != "a b c" {
		t.Fatalf("got tags %q", got)
	}
	setTag(t, e, "bob", "x")
	closeStore(t, e)
	e = openStore(t, EmbeddedConfig{Path: dir})
	if got := tagsOf(t, e, "alice") + " " + tagsOf(t, e, "bob"); got != "a b c x" {
		t.Fatalf("got tags %q", got)
	}
	e.durable.packAt.Store(0)
	setTag(t, e, "alice", "d")
	closeStore(t, e)
	if got := files(t, dir, ""); len(got) != 3 || e.Counters().Snapshots != 1 {
		t.Fatalf("files after the next snapshot: %v", got)
	}
	e = openStore(t, EmbeddedConfig{Path: dir})
	if got := tagsOf(t, e, "alice"); got != "a b c d" {
		t.Fatalf("got tags %q", got)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	e := openStore(t, EmbeddedConfig{Path: dir})
	if _, err := NewEmbedded(EmbeddedConfig{Path: dir}); err == nil || !strings.Contains(err.Error(), "has the store open") {
		t.Fatalf("second open: %v", err)
	}
	closeStore(t, e)
	closeStore(t, openStore(t, EmbeddedConfig{Path: dir}))
}

// A clock that went back while the process was down lowers no version and no number.
func TestClockGoesBack(t *testing.T) {
	dir := t.TempDir()
	var version klink.Version
	var num uint64
	var lastMs int64
	synctest.Test(t, func(t *testing.T) { // each bubble begins at the same time
		e := openStore(t, EmbeddedConfig{Path: dir})
		time.Sleep(1000 * time.Hour)
		inc, err := e.RegisterFE(t.Context(), FE{ID: "fe1"})
		if err != nil {
			t.Fatal(err)
		}
		for range 100 { // the mark moves with the renewals
			time.Sleep(2 * time.Second)
			if _, err := e.RenewFE(t.Context(), inc); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // for the mark
		}
		num, version, lastMs = inc.Num, setTag(t, e, "alice", "vip"), time.Now().UnixMilli()
		out, err := e.Register(t.Context(), []Registration{{App: "shop", User: "alice", Device: "phone", Incarnation: inc, Handle: 1}})
		if err != nil {
			t.Fatal(err)
		}
		version = out[0].Version
		closeStore(t, e)
	})
	synctest.Test(t, func(t *testing.T) {
		e := openStore(t, EmbeddedConfig{Path: dir})
		defer closeStore(t, e)
		if now := time.Now().UnixMilli(); now >= lastMs {
			t.Fatalf("the clock did not go back: %d, was %d", now, lastMs)
		}
		us, err := e.Lookup(t.Context(), "shop", []string{"alice"})
		if err != nil || us[0].Version < version {
			t.Fatalf("after the restart: %+v, %v, want a version of at least %d", us, err, version)
		}
		inc, err := e.RegisterFE(t.Context(), FE{ID: "fe1"})
		if err != nil || inc.Num <= num {
			t.Fatalf("incarnation: got %+v, %v, want above %d", inc, err, num)
		}
		for _, user := range []string{"alice", "bob"} {
			out, err := e.Register(t.Context(), []Registration{{App: "shop", User: user, Device: "phone", Incarnation: inc, Handle: 1}})
			if err != nil || out[0].Version <= version {
				t.Fatalf("%s: got %+v, %v, want a version above %d", user, out, err, version)
			}
		}
	})
}

// Writes that come together share syncs.
func TestSharedSync(t *testing.T) {
	e := openStore(t, EmbeddedConfig{Path: t.TempDir()})
	slow := &slowFile{file: e.durable.journal.f, gate: make(chan struct{})}
	e.durable.journal.f = slow
	const n = 40
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := e.durable.journal.append(&entry{kind: entryRevoke, app: "shop", user: fmt.Sprint(i), before: 5}); err != nil {
				t.Error(err)
			}
		})
	}
	slow.gate <- struct{}{} // the first frame waits here while the others gather behind it
	for gathered := 0; gathered < n/2; {
		e.durable.journal.mu.Lock()
		if b := e.durable.journal.open; b != nil {
			gathered = len(b.frame) / 10
		}
		e.durable.journal.mu.Unlock()
		runtime.Gosched()
	}
	close(slow.gate)
	wg.Wait()
	if slow.syncs >= n/2 {
		t.Errorf("%d writes took %d syncs", n, slow.syncs)
	}
}

type slowFile struct {
	file
	gate  chan struct{}
	syncs int // guarded by the journal's turn
}

func (f *slowFile) Sync() error {
	f.syncs++
	<-f.gate
	if f.syncs == 1 {
		<-f.gate
	}
	return f.file.Sync()
}

func FuzzReadFrames(f *testing.F) {
	head := appendHeader(nil, 7)
	f.Add(head)
	f.Add(append(head, 0, 0, 0, 0))
	frame := make([]byte, frameHead)
	for _, e := range []entry{
		{kind: entryTags, app: "shop", user: "alice", version: 1 << 50, tags: packTags([]string{"a", "b"})},
		{kind: entryRevoke, app: "shop", user: "alice", device: "phone", before: -5},
		{kind: entryMark, version: 9},
		{kind: entryEnd, count: 3},
	} {
		frame = e.append(frame)
	}
	sealFrame(frame, 7, int64(len(head)))
	f.Add(append(head, frame...))
	f.Fuzz(func(t *testing.T, data []byte) {
		end, torn, err := readFrames("file", data, 7, func(*entry) error { return nil })
		if end < 0 || end > int64(len(data)) || torn && err != nil {
			t.Fatalf("end %d of %d, torn %v, %v", end, len(data), torn, err)
		}
		// The entries themselves, without the checksum in the way.
		for p := data; len(p) > 0; {
			e, rest, err := readEntry(p)
			if err != nil {
				return
			}
			if len(rest) >= len(p) {
				t.Fatal("an entry took no bytes")
			}
			back, left, err := readEntry(e.append(nil))
			if err != nil || len(left) != 0 || back.app != e.app || back.user != e.user || back.device != e.device ||
				back.version != e.version || back.before != e.before || back.count != e.count || string(back.tags) != string(e.tags) {
				t.Fatalf("%+v reads back as %+v, %v", e, back, err)
			}
			p = rest
		}
	})
}
