package crux

import (
	"errors"
	"os"
	"path/filepath"
)

// snapshotWriter writes entries in frames to a file that gets its name when it is complete.
type snapshotWriter struct {
	f     *os.File
	gen   uint64
	size  int64
	frame []byte
	count uint64
}

func (w *snapshotWriter) add(e *entry) error {
	w.frame = e.append(w.frame)
	w.count++
	if len(w.frame) > batchBytes {
		return w.flush()
	}
	return nil
}

func (w *snapshotWriter) flush() error {
	if len(w.frame) == frameHead {
		return nil
	}
	sealFrame(w.frame, w.gen, w.size)
	if _, err := w.f.WriteAt(w.frame, w.size); err != nil {
		return err
	}
	w.size += int64(len(w.frame))
	w.frame = w.frame[:frameHead]
	return nil
}

// writeSnapshot writes the snapshot of generation gen, whose journal is in use already: fill adds its entries.
func (d *disk) writeSnapshot(gen uint64, fill func(*snapshotWriter) error) (err error) {
	tmp := filepath.Join(d.dir, newSnapshotName)
	f, err := newFile(tmp, gen)
	if err != nil {
		return err
	}
	w := &snapshotWriter{f: f, gen: gen, size: int64(headerBytes), frame: make([]byte, frameHead, batchBytes+frameHead)}
	err = fill(w)
	if err == nil {
		err = w.add(&entry{kind: entryEnd, count: w.count})
	}
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, d.path(snapshotPrefix, gen)); err != nil {
		return err
	}
	if err := d.sync(); err != nil {
		return err
	}
	d.removeOld(gen)
	return nil
}

// readSnapshot gives the entries of a snapshot to apply. Unlike a journal it has to be complete.
func readSnapshot(path string, gen uint64, apply func(*entry) error) error {
	data, err := readFile(path)
	if err != nil {
		return err
	}
	count, ended := uint64(0), false
	end, torn, err := readFrames(path, data, gen, func(e *entry) error {
		switch {
		case ended:
			return errors.New("an entry follows the end")
		case e.kind != entryEnd:
			count++
			return apply(e)
		case e.count != count:
			return errors.New("entries are missing")
		}
		ended = true
		return nil
	})
	if err == nil && (torn || !ended) {
		err = &CorruptError{path, end, "the snapshot is not complete"}
	}
	return err
}
