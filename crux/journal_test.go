package crux

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klinkio/klink"
)

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
