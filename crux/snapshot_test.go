package crux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

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
	for cut := range data {
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
