package crux

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/klinkio/klink"
)

// Bounds of front ends.
const (
	// DefaultLease is the lease of an FE that asks for none, MaxLease the longest that it gets.
	DefaultLease = 10 * time.Second
	MaxLease     = time.Hour

	maxLives      = 1 << 16 // incarnations alive, or dead with sessions that are not reaped yet
	maxCloseItems = 1 << 16 // of one incarnation; more are dropped and counted
	maxRenewItems = 4096    // told by one RenewFE; the rest follows when these are confirmed
)

// life is one incarnation of one FE.
type life struct {
	inc   klink.Incarnation
	id    uint32 // index in lives, names it in session records; given to another life once this one is dead and has no sessions
	lease time.Duration

	// lease end in monotonic nanoseconds of the store's clock; negative: it is dead, and died at -end. Dead is
	// for ever: whoever sees the end pass makes it so, and a renewal that comes later fails.
	end atomic.Int64

	// Wall clock minus monotonic clock at the last renewal, in ns.
	wall atomic.Int64

	// sessions counts the records that name this life. It is raised before the check that the life is alive, so that
	// whoever finds a dead life without sessions knows that none can follow.
	sessions atomic.Int64

	mu     sync.Mutex
	closes closeList
}

// alive reports whether the lease holds at now.
func (l *life) alive(now int64) bool {
	for {
		end := l.end.Load()
		if end <= 0 {
			return false
		}
		if now < end {
			return true
		}
		l.end.CompareAndSwap(end, -end)
	}
}

// renew moves the lease end, and reports false if it had passed.
func (l *life) renew(now instant) bool {
	for {
		end := l.end.Load()
		if end <= 0 {
			return false
		}
		if now.mono >= end {
			l.end.CompareAndSwap(end, -end)
			continue
		}
		if l.end.CompareAndSwap(end, max(end, now.mono+int64(l.lease))) {
			l.wall.Store(now.wall - now.mono)
			return true
		}
	}
}

// kill ends the life at now, if it did not end before.
func (l *life) kill(now int64) {
	for {
		end := l.end.Load()
		if end <= 0 || l.end.CompareAndSwap(end, -min(end, now)) {
			return
		}
	}
}

// diedMs is when a dead life ended, in Unix ms.
func (l *life) diedMs() int64 { return (l.wall.Load() - l.end.Load()) / 1e6 }

// lives knows the incarnations of all FEs.
type lives struct {
	mu      sync.RWMutex
	current map[string]*life // by FE id
	lastNum uint64
	freeIDs []uint32

	byID atomic.Pointer[[]*life] // replaced, never changed; nil where an id is free
}

func (ls *lives) init() {
	ls.current = make(map[string]*life)
	ls.byID.Store(new([]*life))
}

// at is the life that a session record names. The caller holds the lock of the record's shard and has read the record
// under it: then the life has a session, so its id was not given away.
func (ls *lives) at(id uint32) *life { return (*ls.byID.Load())[id] }

// find is the life of inc if it is the current one of its FE, else nil.
func (ls *lives) find(inc klink.Incarnation) *life {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	if l := ls.current[inc.FE]; l != nil && l.inc.Num == inc.Num {
		return l
	}
	return nil
}

// begin starts a new life of the FE and ends the one before.
func (ls *lives) begin(fe string, lease time.Duration, now instant) (*life, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if old := ls.current[fe]; old != nil {
		old.kill(now.mono)
	}
	ls.recycle(now.mono)
	all := *ls.byID.Load()
	if len(all)-len(ls.freeIDs) >= maxLives {
		return nil, klink.Errorf(klink.CodeLimit, "register FE %s: %d incarnations are known already", fe, maxLives)
	}
	ls.lastNum = max(ls.lastNum+1, uint64(now.ms())<<versionShift)
	l := &life{inc: klink.Incarnation{FE: fe, Num: ls.lastNum}, lease: lease}
	l.end.Store(now.mono + int64(lease))
	l.wall.Store(now.wall - now.mono)
	grown := append(make([]*life, 0, len(all)+1), all...)
	if n := len(ls.freeIDs); n > 0 {
		l.id = ls.freeIDs[n-1]
		ls.freeIDs = ls.freeIDs[:n-1]
		grown[l.id] = l
	} else {
		l.id = uint32(len(grown))
		grown = append(grown, l)
	}
	ls.byID.Store(&grown)
	ls.current[fe] = l
	return l, nil
}

// recycle frees the ids of dead lives without sessions. mu is held.
func (ls *lives) recycle(now int64) {
	var kept []*life
	for id, l := range *ls.byID.Load() {
		if l == nil || l.alive(now) {
			continue
		}
		if ls.current[l.inc.FE] == l {
			delete(ls.current, l.inc.FE)
		}
		if l.sessions.Load() != 0 {
			continue
		}
		if kept == nil {
			kept = append(kept, *ls.byID.Load()...)
		}
		kept[id] = nil
		ls.freeIDs = append(ls.freeIDs, uint32(id))
	}
	if kept != nil {
		ls.byID.Store(&kept)
	}
}

// count is the number of lives that are alive, their sessions, and the sessions of dead lives that still have records.
func (ls *lives) count(now int64) (fes, sessions, dead int) {
	for _, l := range *ls.byID.Load() {
		switch {
		case l == nil:
		case l.alive(now):
			fes++
			sessions += int(l.sessions.Load())
		default:
			dead += int(l.sessions.Load())
		}
	}
	return fes, sessions, dead
}
