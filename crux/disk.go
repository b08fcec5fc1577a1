package crux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// disk is the directory of a store. Generation n has a snapshot, the state at one time, and a journal, the changes after it:
//
//	lock         held by the process that has the store open
//	snapshot-n   complete, or it would have another name; there is none for the first generation
//	journal-n
//
// A snapshot of generation n+1 begins with journal-n+1, to which changes go from then on, and ends with a rename; only
// then the files of generation n are removed. So opening reads the newest snapshot and all journals from its generation on.
type disk struct {
	dir  string
	lock *os.File
	gen  uint64 // of the journal that takes changes
}

const (
	snapshotPrefix  = "snapshot-"
	journalPrefix   = "journal-"
	newSnapshotName = "new-snapshot"
	newJournalName  = "new-journal"

	maxFileBytes = 4 << 30 // of a file that is read back
)

func openDisk(dir string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another process has the store open")
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return &disk{dir: dir, lock: f}, nil
}

func (d *disk) close() error { return d.lock.Close() }

func (d *disk) path(prefix string, gen uint64) string {
	return filepath.Join(d.dir, prefix+strconv.FormatUint(gen, 10))
}

// generations lists the generations that have a file of that prefix, rising.
func (d *disk) generations(prefix string) ([]uint64, error) {
	names, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, err
	}
	var gens []uint64
	for _, n := range names {
		num, ok := strings.CutPrefix(n.Name(), prefix)
		if !ok {
			continue
		}
		if gen, err := strconv.ParseUint(num, 10, 64); err == nil && strconv.FormatUint(gen, 10) == num {
			gens = append(gens, gen)
		}
	}
	slices.Sort(gens)
	return gens, nil
}

// load gives all that is stored to apply and opens the journal for what comes. torn is the length of an unfinished write
// that was cut off.
func (d *disk) load(apply func(*entry) error) (j *journal, torn int64, err error) {
	snapshots, err := d.generations(snapshotPrefix)
	if err != nil {
		return nil, 0, err
	}
	journals, err := d.generations(journalPrefix)
	if err != nil {
		return nil, 0, err
	}
	base := uint64(0)
	if len(snapshots) > 0 {
		base = snapshots[len(snapshots)-1]
		if err := readSnapshot(d.path(snapshotPrefix, base), base, apply); err != nil {
			return nil, 0, err
		}
	}
	journals = slices.DeleteFunc(journals, func(g uint64) bool { return g < base })
	if err := d.checkRow(journals, base); err != nil {
		return nil, 0, err
	}
	d.gen = base
	end := int64(0)
	for i, gen := range journals {
		if end, torn, err = readJournal(d.path(journalPrefix, gen), gen, i == len(journals)-1, apply); err != nil {
			return nil, 0, err
		}
		d.gen = gen
	}
	d.removeOld(base)
	if j, err = d.openJournal(end); err != nil {
		return nil, 0, err
	}
	return j, torn, nil
}

// checkRow refuses a directory in which a journal is missing.
func (d *disk) checkRow(journals []uint64, base uint64) error {
	if len(journals) == 0 {
		if base == 0 {
			return nil // a new store
		}
		return &CorruptError{d.path(journalPrefix, base), 0, "the journal of the newest snapshot is missing"}
	}
	for i, gen := range journals {
		if want := base + uint64(i); gen != want {
			return &CorruptError{d.path(journalPrefix, want), 0, "a journal is missing"}
		}
	}
	return nil
}

// openJournal opens the current journal, whose good part ends at end; 0: there is no journal.
func (d *disk) openJournal(end int64) (*journal, error) {
	path := d.path(journalPrefix, d.gen)
	if end == 0 {
		f, err := d.newJournalFile(d.gen)
		if err != nil {
			return nil, err
		}
		return newJournal(f, d.gen, int64(headerBytes)), nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(end), f.Sync()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return newJournal(f, d.gen, end), nil
}

// newJournalFile makes the journal of generation gen. It has its name only when it is complete.
func (d *disk) newJournalFile(gen uint64) (*os.File, error) {
	tmp, path := filepath.Join(d.dir, newJournalName), d.path(journalPrefix, gen)
	f, err := newFile(tmp, gen)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(tmp, path); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(tmp))
	}
	if err := d.sync(); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return f, nil
}

func readJournal(path string, gen uint64, last bool, apply func(*entry) error) (end, torn int64, err error) {
	data, err := readFile(path)
	if err != nil {
		return 0, 0, err
	}
	end, cut, err := readFrames(path, data, gen, apply)
	if err != nil {
		return 0, 0, err
	}
	if cut && !last {
		return 0, 0, &CorruptError{path, end, "a journal that was complete is cut short"}
	}
	return end, int64(len(data)) - end, nil
}

func readFile(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.Size() > maxFileBytes {
		return nil, &CorruptError{path, maxFileBytes, "file is larger than any that the store writes"}
	}
	return os.ReadFile(path)
}

// removeOld removes what the snapshot of generation base replaced. What can't be removed now is removed next time.
func (d *disk) removeOld(base uint64) {
	_ = os.Remove(filepath.Join(d.dir, newSnapshotName))
	_ = os.Remove(filepath.Join(d.dir, newJournalName))
	for _, prefix := range [2]string{snapshotPrefix, journalPrefix} {
		gens, err := d.generations(prefix)
		if err != nil {
			continue
		}
		for _, g := range gens {
			if g < base {
				_ = os.Remove(d.path(prefix, g))
			}
		}
	}
}

// sync puts the directory's names on disk.
func (d *disk) sync() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
