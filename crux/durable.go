package crux

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/klinkio/klink"
)

const (
	// A mark on disk is ahead of the versions and numbers given out, and is moved when less than half is left.
	markAheadMs = 60_000

	// A snapshot is written when the journal is larger than this and twice the entries of the last snapshot.
	snapshotBytes = 4 << 20
)

// durable is what keeps a store's tags and revocations on disk. A change is written first and applied after: while it
// is on its way the shard's gate is held, not its lock, so sessions go on.
type durable struct {
	gates [shardCount]sync.Mutex

	disk    *disk    // nil: memory only
	journal *journal // nil: memory only
	mark    atomic.Uint64
	marking atomic.Bool
	packing atomic.Bool
	packAt  atomic.Int64 // size of the journal at which a snapshot is written
	tasks   sync.WaitGroup
	closing sync.Mutex // orders the start of tasks before the end
	closed  bool
}

// open reads the directory and takes what it holds into e, which nobody else has yet.
func (d *durable) open(e *Embedded, path string) error {
	dk, err := openDisk(path)
	if err != nil {
		return err
	}
	j, torn, err := dk.load(func(en *entry) error { return e.restore(en) })
	if err != nil {
		_ = dk.close()
		return err
	}
	d.disk, d.journal = dk, j
	d.packAt.Store(snapshotBytes)
	e.stats.torn.Add(uint64(torn))
	e.resume(klink.Version(d.mark.Load()))
	d.writeMark(e)
	return nil
}

// restore applies one entry.
func (e *Embedded) restore(en *entry) error {
	switch en.kind {
	case entryMark:
		e.durable.mark.Store(max(e.durable.mark.Load(), uint64(en.version)))
		return nil
	case entryEnd:
		return errKind // a journal has none
	}
	id, err := e.apps.intern(en.app)
	if err != nil {
		return err
	}
	key := appendKey(nil, id, en.user)
	s, h := e.shardOf(key)
	if en.kind == entryRevoke {
		s.revoked.set(string(key)+en.device, en.before)
		return nil
	}
	s.load(h, key, e.now())
	s.rec.tags, s.rec.version, s.dirty = en.tags, max(s.rec.version, en.version), true
	s.save()
	return nil
}

// resume makes all versions and numbers from now on higher than those before the restart. The users known have lost their
// sessions, which is a change, so they get such a version too.
func (e *Embedded) resume(mark klink.Version) {
	e.lives.lastNum = uint64(mark)
	now := e.now()
	for i := range e.shards {
		s := &e.shards[i]
		for at, r := range s.table.refs {
			if r == 0 {
				continue
			}
			s.loadAt(at, now)
			if s.rec.version < mark {
				s.rec.version, s.dirty = mark, true
			}
			s.save()
		}
		s.floor = max(s.floor, mark)
	}
}

// write puts en on disk; without a directory there is nothing to do.
func (d *durable) write(e *Embedded, en *entry) error {
	if d.journal == nil {
		return nil
	}
	if err := d.journal.append(en); err != nil {
		e.stats.writeFails.Add(1)
		if errors.Is(err, errJournalClosed) {
			return ErrClosed
		}
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	e.stats.writes.Add(1)
	if d.journal.length.Load() > d.packAt.Load() && d.packing.CompareAndSwap(false, true) {
		d.start(func() {
			defer d.packing.Store(false)
			d.pack(e)
		})
	}
	return nil
}

// start runs a task that Close waits for, unless the store is closed.
func (d *durable) start(task func()) {
	d.closing.Lock()
	defer d.closing.Unlock()
	if !d.closed {
		d.tasks.Go(task)
	}
}

// keepMark sees to it that the mark stays ahead of now. It does not wait for the disk.
func (d *durable) keepMark(e *Embedded, now instant) {
	if d.journal == nil || uint64(now.ms()+markAheadMs/2)<<versionShift < d.mark.Load() {
		return
	}
	if d.marking.CompareAndSwap(false, true) {
		d.start(func() {
			defer d.marking.Store(false)
			d.writeMark(e)
		})
	}
}

// writeMark moves the mark. If it can't be written the store goes on: then only a clock that goes back while the process
// is down could lower a version.
func (d *durable) writeMark(e *Embedded) {
	mark := max(d.mark.Load(), uint64(e.now().ms()+markAheadMs)<<versionShift)
	if d.write(e, &entry{kind: entryMark, version: klink.Version(mark)}) == nil {
		d.mark.Store(mark)
	}
}

// pack writes a snapshot, so that the journal can begin anew.
func (d *durable) pack(e *Embedded) {
	size, err := d.snapshot(e)
	if err != nil {
		e.stats.snapshotFails.Add(1)
		d.packAt.Store(2 * max(d.journal.length.Load(), snapshotBytes))
		return
	}
	e.stats.snapshots.Add(1)
	d.packAt.Store(max(snapshotBytes, 2*size))
}

func (d *durable) snapshot(e *Embedded) (size int64, err error) {
	gen := d.disk.gen + 1
	if err := d.journal.exchange(gen, func() (file, error) { return d.disk.newJournalFile(gen) }); err != nil {
		return 0, err
	}
	d.disk.gen = gen
	err = d.disk.writeSnapshot(gen, func(w *snapshotWriter) error {
		if err := w.add(&entry{kind: entryMark, version: klink.Version(d.mark.Load())}); err != nil {
			return err
		}
		for i := range e.shards {
			if err := d.snapshotShard(e, i, w); err != nil {
				return err
			}
		}
		size = w.size
		return nil
	})
	return size, err
}

// snapshotShard adds the entries of one shard. With the gate held, all changes that went to the journal before are
// applied; those that follow are in the next journal, so it does not matter which of them are seen here.
func (d *durable) snapshotShard(e *Embedded, i int, w *snapshotWriter) error {
	d.gates[i].Lock()
	entries := e.shards[i].entries(&e.apps)
	d.gates[i].Unlock()
	for k := range entries {
		if err := w.add(&entries[k]); err != nil {
			return err
		}
	}
	return nil
}

// entries lists what of the shard has to survive.
func (s *shard) entries(a *apps) []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]entry, 0, s.tagged+len(s.revoked.before))
	if s.tagged > 0 {
		for _, r := range s.table.refs {
			if r == 0 {
				continue
			}
			if s.rec.read(s.slab.bytes(r)); len(s.rec.tags) > 0 {
				out = append(out, entry{
					kind: entryTags, app: a.name(keyApp(s.rec.key)), user: string(keyUser(s.rec.key)),
					version: s.rec.version, tags: append([]byte(nil), s.rec.tags...),
				})
			}
		}
	}
	for k, before := range s.revoked.before {
		key := []byte(k)
		n := keyLen(key)
		out = append(out, entry{
			kind: entryRevoke, app: a.name(keyApp(key)), user: string(keyUser(key[:n])), device: string(key[n:]), before: before,
		})
	}
	return out
}

// close waits for tasks and closes the files.
func (d *durable) close() error {
	d.closing.Lock()
	d.closed = true
	d.closing.Unlock()
	d.tasks.Wait()
	if d.journal == nil {
		return nil
	}
	err := d.journal.close()
	if e := d.disk.close(); err == nil {
		err = e
	}
	return err
}
