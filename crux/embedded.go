package crux

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klinkio/klink"
)

// Defaults of [EmbeddedConfig].
const (
	DefaultKeepLastSeen = 30 * 24 * time.Hour
	DefaultMaxKnown     = 1 << 20
)

// EmbeddedConfig sets up an [Embedded] store. The zero value is a store in memory only.
type EmbeddedConfig struct {
	// Path is a directory, made if it is missing, that keeps what has to survive a restart: tags that back ends set,
	// revocations, and a floor for versions and incarnation numbers. Empty: nothing survives.
	Path string

	// KeepLastSeen is how long an offline user without tags is remembered. Zero: DefaultKeepLastSeen; negative: not at all.
	KeepLastSeen time.Duration

	// MaxKnown bounds the offline users without tags that are remembered; about the oldest are forgotten first.
	// Zero: DefaultMaxKnown; negative: none.
	MaxKnown int
}

// Embedded is the store inside one process. Sessions are in memory only: they are gone when the process ends, as the FE in it is.
type Embedded struct {
	keepFor time.Duration
	start   time.Time
	seed    maphash.Seed
	apps    apps
	lives   lives
	shards  [shardCount]shard
	closed  atomic.Bool
	sweepAt atomic.Uint32
	stats   counters
	durable durable
}

var _ Store = (*Embedded)(nil)

// NewEmbedded opens the store. A damaged file is a [CorruptError]; an unfinished last write is cut off and counted.
func NewEmbedded(cfg EmbeddedConfig) (*Embedded, error) {
	e := &Embedded{keepFor: cfg.KeepLastSeen, start: time.Now(), seed: maphash.MakeSeed()}
	if e.keepFor == 0 {
		e.keepFor = DefaultKeepLastSeen
	}
	keep := cfg.MaxKnown
	if keep == 0 {
		keep = DefaultMaxKnown
	}
	if keep < 0 || e.keepFor < 0 {
		keep = 0
	}
	e.lives.init()
	for i := range e.shards {
		s := &e.shards[i]
		s.seed, s.live, s.stats = e.seed, &e.lives, &e.stats
		s.keep = (keep + shardCount - 1) / shardCount
	}
	if cfg.Path != "" {
		if err := e.durable.open(e, cfg.Path); err != nil {
			return nil, fmt.Errorf("open user state in %s: %w", cfg.Path, err)
		}
	}
	return e, nil
}

// instant is one reading of the store's clock: leases go by the monotonic part, which nobody can set; versions and
// times that people see go by the wall.
type instant struct{ mono, wall int64 } // ns

func (i instant) ms() int64 { return i.wall / 1e6 }

func (e *Embedded) now() instant {
	t := time.Now()
	return instant{mono: int64(t.Sub(e.start)) + 1, wall: t.UnixNano()}
}

// shardOf is the shard of a key, and the key's hash.
func (e *Embedded) shardOf(key []byte) (*shard, uint64) {
	h := maphash.Bytes(e.seed, key)
	return &e.shards[shardIndex(h)], h
}

func shardIndex(h uint64) int { return int(h >> (64 - shardBits)) }

// NonBlocking is true: sessions are looked up and changed in memory.
func (e *Embedded) NonBlocking() bool { return true }

// Close ends the store and waits until its files are closed. Calls that are under way may still succeed.
func (e *Embedded) Close() error {
	if e.closed.Swap(true) {
		return ErrClosed
	}
	return e.durable.close()
}

// RegisterFE implements [Store]. Endpoints are not kept: FE and readers are one process.
func (e *Embedded) RegisterFE(_ context.Context, fe FE) (klink.Incarnation, error) {
	if e.closed.Load() {
		return klink.Incarnation{}, ErrClosed
	}
	if err := klink.CheckID("FE id", fe.ID, maxFEID); err != nil {
		return klink.Incarnation{}, klink.Errorf(klink.CodeInvalid, "register FE: %w", err)
	}
	lease := fe.Lease
	if lease <= 0 {
		lease = DefaultLease
	}
	now := e.now()
	l, err := e.lives.begin(fe.ID, min(lease, MaxLease), now)
	if err != nil {
		return klink.Incarnation{}, err
	}
	e.durable.keepMark(e, now)
	return l.inc, nil
}

// RenewFE implements [Store]. It also sweeps a bounded part of the store for what nobody asks for any more.
func (e *Embedded) RenewFE(_ context.Context, inc klink.Incarnation) (Renewal, error) {
	if e.closed.Load() {
		return Renewal{}, ErrClosed
	}
	now := e.now()
	l := e.lives.find(inc)
	if l == nil || !l.renew(now) {
		e.stats.fenced.Add(1)
		return Renewal{}, ErrFenced
	}
	e.durable.keepMark(e, now)
	e.sweep(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	return Renewal{
		Expires:  time.Unix(0, now.wall+int64(l.lease)),
		Replaced: l.closes.items(maxRenewItems),
	}, nil
}

// ReleaseFE implements [Store].
func (e *Embedded) ReleaseFE(_ context.Context, inc klink.Incarnation) error {
	if e.closed.Load() {
		return ErrClosed
	}
	now := e.now()
	l := e.lives.find(inc)
	if l == nil || !l.alive(now.mono) {
		return ErrFenced
	}
	l.kill(now.mono)
	return nil
}

// Lookup implements [Store].
func (e *Embedded) Lookup(_ context.Context, app string, users []string) ([]User, error) {
	if e.closed.Load() {
		return nil, ErrClosed
	}
	out := make([]User, len(users))
	id, known := e.apps.find(app)
	now := e.now()
	var buf [maxKey]byte
	for i, u := range users {
		out[i].User = u
		if !known || len(u) > klink.MaxUserLen {
			continue
		}
		key := appendKey(buf[:0], id, u)
		s, h := e.shardOf(key)
		s.mu.Lock()
		if s.load(h, key, now) {
			s.fill(&out[i])
			s.done()
		}
		s.mu.Unlock()
	}
	return out, nil
}

// fill copies the record in work.
func (s *shard) fill(u *User) {
	r := &s.rec
	u.Version = r.version
	u.Tags = unpackTags(r.tags)
	if len(r.sessions) > 0 {
		u.Sessions = s.copySessions()
	} else if r.lastMs != 0 {
		u.LastSeen = time.UnixMilli(r.lastMs)
	}
}

// copySessions is the record's sessions by login time.
func (s *shard) copySessions() []Session {
	if len(s.rec.sessions) == 0 {
		return nil
	}
	out := make([]Session, len(s.rec.sessions))
	for i := range s.rec.sessions {
		c := &s.rec.sessions[i]
		n := Session{
			Device:      string(c.device),
			Incarnation: s.live.at(c.life).inc,
			Handle:      c.handle,
			Transport:   c.transport,
			Since:       time.UnixMilli(c.loginMs),
			Version:     c.version,
		}
		j := i
		for ; j > 0 && (n.Since.Before(out[j-1].Since) || n.Since.Equal(out[j-1].Since) && n.Version < out[j-1].Version); j-- {
			out[j] = out[j-1]
		}
		out[j] = n
	}
	return out
}

// Stats implements [Store]. After an FE died it may visit every user.
func (e *Embedded) Stats(context.Context) (Stats, error) {
	if e.closed.Load() {
		return Stats{}, ErrClosed
	}
	now := e.now()
	if _, _, dead := e.lives.count(now.mono); dead > 0 {
		e.reap(now)
	}
	var st Stats
	st.FEs, st.Sessions, _ = e.lives.count(now.mono)
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		st.Users += s.users
		st.Known += s.known()
		s.mu.Unlock()
	}
	return st, nil
}

// apps numbers the apps that have users here.
type apps struct {
	mu    sync.RWMutex
	ids   map[string]uint32
	names []string
}

func (a *apps) name(id uint32) string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.names[id]
}

func (a *apps) find(app string) (id uint32, ok bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	id, ok = a.ids[app]
	return id, ok
}

// intern is the id of app, a new one if need be. Ids are never given back, so there is a bound.
func (a *apps) intern(app string) (uint32, error) {
	if id, ok := a.find(app); ok {
		return id, nil
	}
	if err := klink.CheckID("app", app, klink.MaxAppLen); err != nil {
		return 0, klink.Errorf(klink.CodeInvalid, "%w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if id, ok := a.ids[app]; ok {
		return id, nil
	}
	if len(a.ids) >= maxApps {
		return 0, klink.Errorf(klink.CodeLimit, "app %q: %d apps are known already", app, maxApps)
	}
	if a.ids == nil {
		a.ids = make(map[string]uint32)
	}
	id := uint32(len(a.names))
	a.ids[app] = id
	a.names = append(a.names, app)
	return id, nil
}

const (
	maxApps = 1 << 16
	maxFEID = 128
)
