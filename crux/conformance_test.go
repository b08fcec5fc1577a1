package crux_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/crux/cruxtest"
)

func TestConformanceInMemory(t *testing.T) {
	cruxtest.TestStore(t, func(*testing.T) cruxtest.Harness { return harness("") })
}

func TestConformanceOnDisk(t *testing.T) {
	cruxtest.TestStore(t, func(t *testing.T) cruxtest.Harness { return harness(t.TempDir()) })
}

func harness(dir string) cruxtest.Harness {
	open := func(t *testing.T) crux.Store {
		t.Helper()
		e, err := crux.NewEmbedded(crux.EmbeddedConfig{Path: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Close(); err != nil && !errors.Is(err, crux.ErrClosed) {
				t.Error(err)
			}
		})
		return e
	}
	h := cruxtest.Harness{Run: synctest.Test, Open: open, Advance: time.Sleep, Lease: 10 * time.Second}
	if dir != "" {
		h.Reopen = func(t *testing.T, old crux.Store) crux.Store {
			t.Helper()
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t)
		}
	}
	return h
}
