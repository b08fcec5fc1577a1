package crux

import (
	"context"
	"errors"

	"github.com/klinkio/klink"
)

// Register implements [Store].
func (e *Embedded) Register(_ context.Context, regs []Registration) ([]Registered, error) {
	if e.closed.Load() {
		return nil, ErrClosed
	}
	for i := range regs {
		if err := regs[i].check(); err != nil {
			return nil, klink.Errorf(klink.CodeInvalid, "registration %d: %w", i, err)
		}
		if _, err := e.apps.intern(regs[i].App); err != nil {
			return nil, err
		}
	}
	out := make([]Registered, len(regs))
	now := e.now()
	var l *life
	var buf [maxKey]byte
	for i := range regs {
		r := &regs[i]
		if l == nil || l.inc != r.Incarnation {
			if l = e.lives.find(r.Incarnation); l == nil {
				e.refuse(&out[i], Fenced)
				continue
			}
		}
		id, _ := e.apps.find(r.App)
		key := appendKey(buf[:0], id, r.User)
		s, h := e.shardOf(key)
		s.mu.Lock()
		s.load(h, key, now)
		verdict := s.login(r, l, now, &out[i])
		s.done()
		s.mu.Unlock()
		if verdict != Admitted {
			e.refuse(&out[i], verdict)
		}
	}
	return out, nil
}

func (e *Embedded) refuse(out *Registered, v Verdict) {
	out.Verdict = v
	switch v {
	case Superseded:
		e.stats.superseded.Add(1)
	case TooMany:
		e.stats.tooMany.Add(1)
	case Revoked:
		e.stats.revoked.Add(1)
	case Fenced:
		e.stats.fenced.Add(1)
	}
}

// mustClose notes that l has to close a session, until it confirms that by Unregister. Both happen under the lock of the
// session's shard, so that a session which leaves by itself at the same time is not noted after its last word.
func (s *shard) mustClose(l *life, h klink.Handle, reason klink.Disconnect) {
	s.stats.replaced.Add(1)
	l.mu.Lock()
	ok := l.closes.add(h, reason)
	l.mu.Unlock()
	if !ok {
		s.stats.closesDropped.Add(1)
	}
}

const maxLoginMs = 1<<47 - 1

var (
	errFloor     = errors.New("version floor is above 2^52")
	errLogin     = errors.New("login time is out of range")
	errHandle    = errors.New("handle is zero")
	errTransport = errors.New("transport is unknown")
)

func (r *Registration) check() error {
	if err := klink.CheckID("user", r.User, klink.MaxUserLen); err != nil {
		return err
	}
	if err := klink.CheckID("device", r.Device, klink.MaxDeviceLen); err != nil {
		return err
	}
	switch {
	case r.Floor > maxFloor:
		return errFloor
	case r.LoginMs < 0 || r.LoginMs > maxLoginMs:
		return errLogin
	case r.Handle == 0:
		return errHandle
	case r.Transport > klink.TransportQUIC:
		return errTransport
	}
	return nil
}

// login decides on r for the record in work and, if it is admitted, puts the session in.
func (s *shard) login(r *Registration, l *life, now instant, out *Registered) Verdict {
	l.sessions.Add(1) // before the check, see life.sessions
	verdict := s.decide(r, l, now, out)
	if verdict != Admitted {
		l.sessions.Add(-1)
	}
	return verdict
}

func (s *shard) decide(r *Registration, l *life, now instant, out *Registered) Verdict {
	if !l.alive(now.mono) {
		return Fenced
	}
	if s.revoked.covers(s.rec.key, r.Device, r.TokenIssued) {
		return Revoked
	}
	login := r.LoginMs
	if login == 0 {
		login = now.ms()
	}
	holder := s.rec.holder(r.Device)
	if holder >= 0 {
		c := &s.rec.sessions[holder]
		if c.life == l.id && c.handle == r.Handle {
			return s.again(r, holder, l, now, out)
		}
		if !newer(r, login, c) {
			return Superseded
		}
	}
	if v := s.room(r, login, holder); v != Admitted {
		return v
	}
	s.bump(r.Floor, now)
	if holder >= 0 {
		s.replace(holder, out)
	}
	for r.Winner == NewestWins && len(s.rec.sessions) >= r.limit() {
		s.replace(s.oldest(), out)
	}
	s.device = append(s.device[:0], r.Device...)
	s.rec.sessions = append(s.rec.sessions, session{
		device: s.device, life: l.id, handle: r.Handle, transport: r.Transport,
		attempt: r.Attempt, loginMs: login, version: s.rec.version,
	})
	out.Version, out.LoginMs, out.Tags = s.rec.version, login, unpackTags(s.rec.tags)
	return Admitted
}

// again answers a registration of a session that is in already, as an FE sends when it does not know whether the first
// one arrived. Nothing changes, but the version obeys the floor.
func (s *shard) again(r *Registration, i int, l *life, now instant, out *Registered) Verdict {
	l.sessions.Add(-1)
	if s.rec.version < r.Floor {
		s.bump(r.Floor, now)
		s.rec.sessions[i].version = s.rec.version
	}
	c := &s.rec.sessions[i]
	out.Version, out.LoginMs, out.Tags = c.version, c.loginMs, unpackTags(s.rec.tags)
	return Admitted
}

// newer reports whether r takes the device over from its holder.
func newer(r *Registration, login int64, holder *session) bool {
	if r.Attempt != 0 && holder.attempt != 0 {
		return r.Attempt > holder.attempt
	}
	// A login now is later than all before, whatever the clock says; one that comes again must have been later.
	return r.LoginMs == 0 || login > holder.loginMs
}

// limit is how many sessions the user may have.
func (r *Registration) limit() int {
	switch {
	case r.Policy == PolicyOnePerUser:
		return 1
	case r.MaxDevices <= 0:
		return DefaultMaxDevices
	default:
		return min(r.MaxDevices, MaxDevicesLimit)
	}
}

// room decides whether the policy admits r beside the other devices, and if it does not, whether they have to go.
func (s *shard) room(r *Registration, login int64, holder int) Verdict {
	others := len(s.rec.sessions)
	if holder >= 0 {
		if r.Winner == OldestWins {
			return Admitted // takes the place of its own older session
		}
		others--
	}
	over := others + 1 - r.limit()
	if over <= 0 {
		return Admitted
	}
	if r.Winner == OldestWins {
		return TooMany
	}
	if r.LoginMs == 0 {
		return Admitted
	}
	// A session that comes back replaces only those that logged in before it.
	older := 0
	for i := range s.rec.sessions {
		if i != holder && s.rec.sessions[i].loginMs < login {
			older++
		}
	}
	if older < over {
		return Superseded
	}
	return Admitted
}

// oldest is the index of the session with the earliest login.
func (s *shard) oldest() int {
	o := 0
	for i := range s.rec.sessions {
		c, b := &s.rec.sessions[i], &s.rec.sessions[o]
		if c.loginMs < b.loginMs || c.loginMs == b.loginMs && c.version < b.version {
			o = i
		}
	}
	return o
}

// replace takes session i out and tells the caller to close it.
func (s *shard) replace(i int, out *Registered) {
	c := &s.rec.sessions[i]
	l := s.live.at(c.life)
	out.Replaced = append(out.Replaced, Location{
		Incarnation: l.inc, Handle: c.handle, Device: string(c.device), Version: c.version,
		Reason: klink.DisconnectReplaced,
	})
	s.mustClose(l, c.handle, klink.DisconnectReplaced)
	s.drop(i, l)
}

// Unregister implements [Store].
func (e *Embedded) Unregister(_ context.Context, unregs []Unregistration) ([]Unregistered, error) {
	if e.closed.Load() {
		return nil, ErrClosed
	}
	out := make([]Unregistered, len(unregs))
	now := e.now()
	var buf [maxKey]byte
	for i := range unregs {
		u := &unregs[i]
		l := e.lives.find(u.Incarnation)
		id, known := e.apps.find(u.App)
		if !known || len(u.User) > klink.MaxUserLen {
			continue // no such session was ever in
		}
		key := appendKey(buf[:0], id, u.User)
		s, h := e.shardOf(key)
		s.mu.Lock()
		if s.load(h, key, now) {
			s.logout(u, l, now, &out[i])
			s.done()
		}
		if l != nil {
			l.mu.Lock()
			l.closes.confirm(u.Handle)
			l.mu.Unlock()
		}
		s.mu.Unlock()
	}
	return out, nil
}

// logout removes the session that u names from the record in work, if it is there. l is u's incarnation, nil if unknown.
func (s *shard) logout(u *Unregistration, l *life, now instant, out *Unregistered) {
	out.Version = s.rec.version
	i := s.rec.holder(u.Device)
	if i < 0 || l == nil {
		return
	}
	if c := &s.rec.sessions[i]; c.life != l.id || c.handle != u.Handle {
		return
	}
	s.drop(i, l)
	s.bump(0, now)
	out.Removed, out.Version = true, s.rec.version
	if len(s.rec.sessions) == 0 {
		out.Last = true
		s.rec.lastMs = now.ms()
	}
}
