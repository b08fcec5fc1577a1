package crux

import (
	"context"
	"fmt"
	"slices"

	"github.com/klinkio/klink"
)

// maxTagged bounds the users with tags of one shard: they are never forgotten.
const maxTagged = (1 << 20) / shardCount

// ChangeTags implements [Store].
func (e *Embedded) ChangeTags(_ context.Context, app, user string, add, remove []string) (UserTags, error) {
	if e.closed.Load() {
		return UserTags{}, ErrClosed
	}
	if err := klink.CheckID("user", user, klink.MaxUserLen); err != nil {
		return UserTags{}, klink.Errorf(klink.CodeInvalid, "change tags: %w", err)
	}
	for _, tags := range [2][]string{add, remove} {
		for _, t := range tags {
			if err := klink.CheckID("tag", t, klink.MaxTagLen); err != nil {
				return UserTags{}, klink.Errorf(klink.CodeInvalid, "change tags: %w", err)
			}
		}
	}
	id, err := e.apps.intern(app)
	if err != nil {
		return UserTags{}, err
	}
	key := appendKey(nil, id, user)
	s, h := e.shardOf(key)
	gate := &e.durable.gates[shardIndex(h)]
	gate.Lock()
	defer gate.Unlock()
	ut, err := s.planTags(h, key, e.now(), add, remove)
	if err != nil {
		e.stats.tagLimit.Add(1)
		return UserTags{}, err
	}
	if len(ut.Added)+len(ut.Removed) == 0 {
		return ut, nil
	}
	packed := packTags(ut.Tags)
	if err := e.durable.write(e, &entry{kind: entryTags, app: app, user: user, version: ut.Version, tags: packed}); err != nil {
		return UserTags{}, fmt.Errorf("change tags: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load(h, key, e.now())
	s.rec.tags = packed
	s.bump(ut.Version, e.now())
	ut.Version, ut.Sessions = s.rec.version, s.copySessions()
	s.done()
	return ut, nil
}

// planTags says how the tags would be after the change. If that is no change, it is the whole answer.
func (s *shard) planTags(h uint64, key []byte, now instant, add, remove []string) (UserTags, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load(h, key, now)
	defer s.done()
	old := unpackTags(s.rec.tags)
	ut := diffTags(old, add, remove)
	switch {
	case len(ut.Tags) > MaxUserTags:
		return ut, klink.Errorf(klink.CodeLimit, "change tags: %d tags on one user, limit %d", len(ut.Tags), MaxUserTags)
	case len(old) == 0 && len(ut.Tags) > 0 && s.tagged >= maxTagged:
		return ut, klink.Errorf(klink.CodeLimit, "change tags: %d users with tags are stored in this part of the store already", maxTagged)
	}
	ut.Version, ut.Sessions = s.rec.version, s.copySessions()
	if len(ut.Added)+len(ut.Removed) > 0 {
		ut.Version = nextVersion(s.rec.version, s.floor+1, now.ms())
	}
	return ut, nil
}

// diffTags is old (sorted) with add and without remove.
func diffTags(old, add, remove []string) UserTags {
	gone := slices.Compact(slices.Sorted(slices.Values(remove)))
	want := slices.Compact(slices.Sorted(slices.Values(slices.Concat(old, add))))
	var ut UserTags
	for _, t := range want {
		_, had := slices.BinarySearch(old, t)
		_, out := slices.BinarySearch(gone, t)
		switch {
		case !out:
			ut.Tags = append(ut.Tags, t)
			if !had {
				ut.Added = append(ut.Added, t)
			}
		case had:
			ut.Removed = append(ut.Removed, t)
		}
	}
	return ut
}

// DeleteUser implements [Store].
func (e *Embedded) DeleteUser(_ context.Context, app, user string) (User, error) {
	if e.closed.Load() {
		return User{}, ErrClosed
	}
	u := User{User: user}
	id, known := e.apps.find(app)
	if !known || len(user) > klink.MaxUserLen {
		return u, nil
	}
	key := appendKey(nil, id, user)
	s, h := e.shardOf(key)
	gate := &e.durable.gates[shardIndex(h)]
	gate.Lock()
	defer gate.Unlock()
	s.mu.Lock()
	found := s.load(h, key, e.now())
	tagged, version := len(s.rec.tags) > 0, s.rec.version+1
	s.done()
	s.mu.Unlock()
	if !found {
		return u, nil
	}
	if tagged {
		if err := e.durable.write(e, &entry{kind: entryTags, app: app, user: user, version: version}); err != nil {
			return User{}, fmt.Errorf("delete user: %w", err)
		}
	}
	now := e.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.load(h, key, now) {
		return u, nil // forgotten meanwhile
	}
	s.bump(version, now)
	s.fill(&u)
	for i := len(s.rec.sessions) - 1; i >= 0; i-- {
		c := &s.rec.sessions[i]
		l := s.live.at(c.life)
		s.mustClose(l, c.handle, klink.DisconnectDeleted)
		s.drop(i, l)
	}
	s.forget()
	return u, nil
}
