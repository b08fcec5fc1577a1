package crux

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// file is what a journal needs of an os.File.
type file interface {
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
}

// journal appends entries to a file. A call returns when its entry is on disk; calls that come meanwhile share one
// write and one sync. Safe for concurrent use.
type journal struct {
	mu   sync.Mutex
	open *batch // takes further entries

	length atomic.Int64 // size, for those who do not have the turn

	turn   sync.Mutex // held while the file is written or exchanged; guards the following
	f      file
	gen    uint64
	size   int64 // good bytes; all of them are on disk
	broken bool  // bytes behind size may have to be cut off first
}

type batch struct {
	frame []byte
	done  chan struct{}
	err   error // valid when done is closed
}

var errJournalClosed = errors.New("journal is closed")

func newJournal(f file, gen uint64, size int64) *journal {
	j := &journal{f: f, gen: gen, size: size}
	j.length.Store(size)
	return j
}

// append writes e.
func (j *journal) append(e *entry) error {
	j.mu.Lock()
	b := j.open
	leads := b == nil || len(b.frame) > batchBytes
	if leads {
		b = &batch{frame: make([]byte, frameHead, 512), done: make(chan struct{})}
		j.open = b
	}
	b.frame = e.append(b.frame)
	j.mu.Unlock()
	if !leads {
		<-b.done
		return b.err
	}
	j.turn.Lock()
	j.mu.Lock()
	if j.open == b {
		j.open = nil
	}
	j.mu.Unlock()
	b.err = j.write(b.frame)
	j.turn.Unlock()
	close(b.done)
	return b.err
}

// write puts one frame on disk. After an error the file is as it was, or is made so before the next frame. turn is held.
func (j *journal) write(frame []byte) error {
	if j.f == nil {
		return errJournalClosed
	}
	if err := j.mend(); err != nil {
		return err
	}
	sealFrame(frame, j.gen, j.size)
	_, err := j.f.WriteAt(frame, j.size)
	if err == nil {
		err = j.f.Sync()
	}
	if err != nil {
		j.broken = j.f.Truncate(j.size) != nil
		return err
	}
	j.size += int64(len(frame))
	j.length.Store(j.size)
	return nil
}

// mend cuts off what a failed write left. turn is held.
func (j *journal) mend() error {
	if j.broken {
		if err := j.f.Truncate(j.size); err != nil {
			return fmt.Errorf("cut off a failed write: %w", err)
		}
		j.broken = false
	}
	return nil
}

// exchange makes further entries go to the empty journal of generation gen that create makes. It holds entries up
// meanwhile, so when the new file exists the old one is complete.
func (j *journal) exchange(gen uint64, create func() (file, error)) error {
	j.turn.Lock()
	defer j.turn.Unlock()
	if j.f == nil {
		return errJournalClosed
	}
	if err := j.mend(); err != nil {
		return err
	}
	if err := j.f.Sync(); err != nil {
		return err
	}
	f, err := create()
	if err != nil {
		return err
	}
	_ = j.f.Close() // all of it is on disk
	j.f, j.gen, j.size = f, gen, int64(headerBytes)
	j.length.Store(j.size)
	return nil
}

// close ends the journal; further entries are refused.
func (j *journal) close() error {
	j.turn.Lock()
	defer j.turn.Unlock()
	if j.f == nil {
		return errJournalClosed
	}
	f := j.f
	j.f = nil
	return f.Close()
}
