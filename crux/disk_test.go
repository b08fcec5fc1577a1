package crux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
