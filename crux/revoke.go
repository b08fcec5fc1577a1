package crux

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/klinkio/klink"
)

// maxRevocations bounds the revocations of one shard. A revocation is never forgotten silently; the one too many is refused.
const maxRevocations = (1 << 20) / shardCount

// revocations holds, for each user and for each device of a user, the time before which tokens are unusable. The key is
// the user's, followed by the device id for a device: no user's key begins with another's.
type revocations struct {
	before map[string]int64 // Unix ns
}

// covers reports whether a token of that device, issued then, is unusable. A zero time is not checked.
func (r *revocations) covers(key []byte, device string, issued time.Time) bool {
	if len(r.before) == 0 || issued.IsZero() {
		return false
	}
	ns := unixNano(issued)
	if before, ok := r.before[string(key)]; ok && ns < before {
		return true
	}
	if device == "" {
		return false
	}
	var buf [maxKey + 255]byte
	before, ok := r.before[string(append(append(buf[:0], key...), device...))]
	return ok && ns < before
}

// set keeps the later of before and what is there.
func (r *revocations) set(key string, before int64) {
	if r.before == nil {
		r.before = make(map[string]int64)
	}
	if old, ok := r.before[key]; !ok || before > old {
		r.before[key] = before
	}
}

// unixNano is t in ns, at the ends of what 64 bits can hold if it is beyond.
func unixNano(t time.Time) int64 {
	const year1700, year2200 = -8520336000, 7258118400
	switch s := t.Unix(); {
	case s < year1700:
		return year1700 * 1e9
	case s > year2200:
		return year2200 * 1e9
	}
	return t.UnixNano()
}

// Revoke implements [Store].
func (e *Embedded) Revoke(_ context.Context, app, user, device string, before time.Time) error {
	if e.closed.Load() {
		return ErrClosed
	}
	if err := checkRevocation(user, device, before); err != nil {
		return klink.Errorf(klink.CodeInvalid, "revoke: %w", err)
	}
	id, err := e.apps.intern(app)
	if err != nil {
		return err
	}
	key := appendKey(nil, id, user)
	s, h := e.shardOf(key)
	full, ns := string(key)+device, unixNano(before)
	gate := &e.durable.gates[shardIndex(h)]
	gate.Lock()
	defer gate.Unlock()
	s.mu.Lock()
	old, known := s.revoked.before[full]
	room := known || len(s.revoked.before) < maxRevocations
	s.mu.Unlock()
	switch {
	case known && old >= ns:
		return nil
	case !room:
		e.stats.revocationLimit.Add(1)
		return klink.Errorf(klink.CodeLimit, "revoke: %d revocations are stored in this part of the store already", maxRevocations)
	}
	if err := e.durable.write(e, &entry{kind: entryRevoke, app: app, user: user, device: device, before: ns}); err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	s.mu.Lock()
	s.revoked.set(full, ns)
	s.mu.Unlock()
	return nil
}

var errBefore = errors.New("time is missing")

func checkRevocation(user, device string, before time.Time) error {
	if err := klink.CheckID("user", user, klink.MaxUserLen); err != nil {
		return err
	}
	if device != "" {
		if err := klink.CheckID("device", device, klink.MaxDeviceLen); err != nil {
			return err
		}
	}
	if before.IsZero() {
		return errBefore
	}
	return nil
}

// Revoked implements [Store].
func (e *Embedded) Revoked(_ context.Context, app, user, device string, issued time.Time) (bool, error) {
	if e.closed.Load() {
		return false, ErrClosed
	}
	id, known := e.apps.find(app)
	if !known || len(user) > klink.MaxUserLen || len(device) > klink.MaxDeviceLen {
		return false, nil
	}
	var buf [maxKey]byte
	key := appendKey(buf[:0], id, user)
	s, _ := e.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revoked.covers(key, device, issued), nil
}
