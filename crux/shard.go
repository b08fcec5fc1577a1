package crux

import (
	"bytes"
	"hash/maphash"
	"sync"

	"github.com/klinkio/klink"
)

const (
	shardBits  = 6
	shardCount = 1 << shardBits

	versionShift = 10 // a version is at least the store's time in ms << versionShift
	maxVersion   = 1<<53 - 1
	maxFloor     = 1 << 52 // leaves 2^52 changes above any floor that an FE tells
)

// shard holds the users whose key hashes to it. One goroutine at a time works on it: it loads a record, changes it, and
// saves it, all under mu.
type shard struct {
	mu   sync.Mutex
	seed maphash.Seed
	live *lives

	table table
	slab  slab

	// The record in work. Its slices are parts of the slab or of the buffers below, so it ends with the lock.
	rec    record
	at     int // place in the table, -1: not stored
	dirty  bool
	was    kind // as stored
	enc    []byte
	key    []byte
	device []byte

	floor   klink.Version // every new version is higher: of forgotten users, and of the time before a restart
	users   int           // records with sessions, alive or not
	tagged  int           // records with tags
	idle    int           // records with neither
	keep    int           // bound of idle
	cursor  int           // where the sweep goes on
	hand    int           // where the next search for a user to forget begins
	revoked revocations

	stats *counters
	_     [64]byte // the next shard's lock is in another cache line
}

func (s *shard) hash(key []byte) uint64 { return maphash.Bytes(s.seed, key) }

// hashOf implements [hasher].
func (s *shard) hashOf(r ref) uint64 {
	p := s.slab.bytes(r)
	return s.hash(p[:keyLen(p)])
}

// known is the number of records.
func (s *shard) known() int { return s.table.n }

// find is the place of key, or -1.
func (s *shard) find(h uint64, key []byte) int {
	if s.table.n == 0 {
		return -1
	}
	for i := s.table.home(h); s.table.refs[i] != 0; i = s.table.next(i) {
		if s.table.bytes[i] != uint8(h) {
			continue
		}
		if p := s.slab.bytes(s.table.refs[i]); len(p) >= len(key) && bytes.Equal(p[:len(key)], key) {
			return i
		}
	}
	return -1
}

// kind is what a record has.
type kind struct{ stored, online, tagged bool }

func (k kind) idle() bool { return k.stored && !k.online && !k.tagged }

func (r *record) kind() kind {
	return kind{stored: true, online: len(r.sessions) > 0, tagged: len(r.tags) > 0}
}

// load makes the user's record the one in work, without its dead sessions, and reports whether it is known.
func (s *shard) load(h uint64, key []byte, now instant) bool {
	i := s.find(h, key)
	if i < 0 {
		s.key = append(s.key[:0], key...)
		s.rec = record{key: s.key, sessions: s.rec.sessions[:0]}
		s.at, s.dirty, s.was = -1, false, kind{}
		return false
	}
	s.loadAt(i, now)
	return true
}

func (s *shard) loadAt(i int, now instant) {
	s.at, s.dirty = i, false
	s.rec.read(s.slab.bytes(s.table.refs[i]))
	s.was = s.rec.kind()
	s.settle(now)
}

// settle takes the sessions of dead incarnations out of the record. The end of a lease is a change of the user like any
// other: it gets a version from the time at which it happened, so it does not matter when somebody looks.
func (s *shard) settle(now instant) {
	for {
		var first *life
		for i := range s.rec.sessions {
			l := s.live.at(s.rec.sessions[i].life)
			if !l.alive(now.mono) && (first == nil || l.diedMs() < first.diedMs()) {
				first = l
			}
		}
		if first == nil {
			return
		}
		died := first.diedMs()
		s.rec.version = nextVersion(s.rec.version, 0, died)
		s.rec.lastMs = died
		for i := len(s.rec.sessions) - 1; i >= 0; i-- {
			if s.rec.sessions[i].life == first.id {
				s.drop(i, first)
				s.stats.reaped.Add(1)
			}
		}
	}
}

// drop takes session i, which l holds, out of the record.
func (s *shard) drop(i int, l *life) {
	s.rec.remove(i)
	l.sessions.Add(-1)
	s.dirty = true
}

// nextVersion is the version of a change at ms.
func nextVersion(stored, floor klink.Version, ms int64) klink.Version {
	return min(max(stored+1, floor, klink.Version(ms)<<versionShift), maxVersion)
}

// bump gives the record the version of a change at now.
func (s *shard) bump(floor klink.Version, now instant) {
	s.rec.version = nextVersion(s.rec.version, max(floor, s.floor+1), now.ms())
	s.dirty = true
}

// save stores the record in work if it was changed. The record must not be used after that.
func (s *shard) save() {
	if !s.dirty {
		return
	}
	is := s.rec.kind()
	if is.idle() && (s.rec.lastMs == 0 || s.keep == 0) {
		s.forget()
		return
	}
	s.dirty = false
	s.count(is)
	s.enc = s.rec.append(s.enc[:0])
	if s.at >= 0 && s.slab.fits(s.table.refs[s.at], len(s.enc)) {
		copy(s.slab.bytes(s.table.refs[s.at]), s.enc)
		return
	}
	r := s.slab.alloc(len(s.enc))
	copy(s.slab.bytes(r), s.enc)
	if s.at >= 0 {
		s.slab.free(s.table.refs[s.at])
		s.table.refs[s.at] = r
		return
	}
	if s.table.crowded() {
		s.table.resize(s.table.grown(), s)
	}
	s.at = s.table.insert(s.hashOf(r), r)
}

// done saves the record in work and keeps the bound of idle users.
func (s *shard) done() {
	s.save()
	s.trim(2)
}

// forget removes the record in work. Its version stays below those of whoever comes by that name later.
func (s *shard) forget() {
	s.dirty = false
	s.count(kind{})
	s.floor = max(s.floor, s.rec.version)
	if s.at < 0 {
		return
	}
	r := s.table.refs[s.at]
	s.table.remove(s.at, s)
	s.slab.free(r)
	s.at = -1
}

// count moves the record in work from what it was to what it is.
func (s *shard) count(is kind) {
	s.users += btoi(is.online) - btoi(s.was.online)
	s.tagged += btoi(is.tagged) - btoi(s.was.tagged)
	s.idle += btoi(is.idle()) - btoi(s.was.idle())
	s.was = is
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
