package crux

import (
	"context"
	"slices"

	"github.com/klinkio/klink"
)

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
	now := e.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load(h, key, now)
	defer s.save()
	old := unpackTags(s.rec.tags)
	ut := diffTags(old, add, remove)
	if len(ut.Tags) > MaxUserTags {
		e.stats.tagLimit.Add(1)
		return UserTags{}, klink.Errorf(klink.CodeLimit, "change tags: %d tags on one user, limit %d", len(ut.Tags), MaxUserTags)
	}
	if len(ut.Added)+len(ut.Removed) > 0 {
		s.rec.tags = packTags(ut.Tags)
		s.bump(0, now)
	}
	ut.Version, ut.Sessions = s.rec.version, s.copySessions()
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
	now := e.now()
	s.mu.Lock()
	if s.load(h, key, now) {
		s.bump(0, now)
		s.fill(&u)
		for i := len(s.rec.sessions) - 1; i >= 0; i-- {
			s.drop(i, s.live.at(s.rec.sessions[i].life))
		}
		s.forget()
		s.dirty = false
	}
	s.mu.Unlock()
	for i := range u.Sessions {
		c := &u.Sessions[i]
		e.toClose(Location{Incarnation: c.Incarnation, Handle: c.Handle, Reason: klink.DisconnectDeleted})
	}
	return u, nil
}
