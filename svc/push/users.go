package push

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

// ChangeTags adds and removes tags that the back end sets on a user, then tells the front ends of the user's sessions. An error of code
// klink.CodeUnavailable or CodeTimeout after the store has taken the change names the front end that was not told: its
// sessions get the tags at their next login. Then the answer is given besides the error.
func (s *Service) ChangeTags(ctx context.Context, app, user string, add, remove []string) (crux.UserTags, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := checkUserTags(user, add, remove); err != nil {
		return crux.UserTags{}, s.refused(err)
	}
	unlock, err := s.tagLocks.lock(ctx, app, user)
	if err != nil {
		return crux.UserTags{}, s.refused(err)
	}
	defer unlock()
	ut, err := s.store.ChangeTags(ctx, app, user, add, remove)
	if err != nil {
		return crux.UserTags{}, s.refused(storeError(err, "change tags of %s", user))
	}
	if len(ut.Added)+len(ut.Removed) == 0 {
		return ut, nil
	}
	_, err = refsByFE(s.dir.FrontEnds(), user, ut.Sessions, func(fe FrontEnd, refs []klink.SessionRef) error {
		if err := fe.ChangeTags(ctx, refs, ut.Added, ut.Removed); err != nil {
			return klink.Errorf(klink.CodeTimeout, "the tags are stored, but front end %s has not applied them yet: %w", fe.ID(), err)
		}
		return nil
	})
	if err != nil {
		return ut, s.refused(err)
	}
	return ut, nil
}

// tagLocks keep the changes of one user's tags in one order, in the store and at the front ends; else a session could end up with what
// the store no longer says. Users share locks: a front end that hangs holds up others for the time limit at most.
type tagLocks struct {
	seed  maphash.Seed
	locks [256]chan struct{} // full: locked
}

func newTagLocks() *tagLocks {
	l := &tagLocks{seed: maphash.MakeSeed()}
	for i := range l.locks {
		l.locks[i] = make(chan struct{}, 1) // one holder
	}
	return l
}

func (l *tagLocks) lock(ctx context.Context, app, user string) (unlock func(), err error) {
	c := l.locks[maphash.Comparable(l.seed, [2]string{app, user})%uint64(len(l.locks))]
	select {
	case c <- struct{}{}:
		return func() { <-c }, nil
	case <-ctx.Done():
		return nil, klink.Errorf(klink.CodeTimeout, "another change of tags has not ended; nothing was done: %w", ctx.Err())
	}
}

func checkUserTags(user string, add, remove []string) error {
	if err := klink.CheckID("user", user, klink.MaxUserLen); err != nil {
		return badField(klink.CodeInvalid, "user", "%w", err)
	}
	if len(add)+len(remove) == 0 {
		return badField(klink.CodeInvalid, "add", "nothing to do: give add or remove")
	}
	if err := checkNames("add", "tag", add, klink.MaxTagLen); err != nil {
		return err
	}
	return checkNames("remove", "tag", remove, klink.MaxTagLen)
}

// Kick says which sessions of a user to end; with neither device nor session: all.
type Kick struct {
	User    string
	Device  string // only the session of this device
	Session string // only this session, named as in presence answers
	Reason  string // told to the client; at most MaxReason bytes
}

// MaxReason bounds the text of a disconnect in bytes: with its code it fits a WebSocket close frame.
const MaxReason = 120

// Disconnect ends sessions and says how many there were. They end as soon as their loops get to it.
func (s *Service) Disconnect(ctx context.Context, app string, k Kick) (int, error) {
	if err := checkKick(&k); err != nil {
		return 0, s.refused(err)
	}
	users, err := s.lookup(ctx, app, []string{k.User})
	if err != nil {
		return 0, s.refused(err)
	}
	var hit []crux.Session
	for _, ses := range users[0].Sessions {
		if (k.Device == "" || ses.Device == k.Device) && (k.Session == "" || klink.SessionID(ses.Incarnation, ses.Handle) == k.Session) {
			hit = append(hit, ses)
		}
	}
	if k.Reason == "" {
		k.Reason = "ended by a back end"
	}
	return s.disconnect(k.User, hit, klink.DisconnectKicked, k.Reason), nil
}

func checkKick(k *Kick) error {
	if err := klink.CheckID("user", k.User, klink.MaxUserLen); err != nil {
		return badField(klink.CodeInvalid, "user", "%w", err)
	}
	for _, f := range [...]struct {
		field, value string
		limit        int
	}{{"device", k.Device, klink.MaxDeviceLen}, {"session", k.Session, 256}, {"reason", k.Reason, MaxReason}} {
		if f.value == "" {
			continue
		}
		if err := klink.CheckID(f.field, f.value, f.limit); err != nil {
			return badField(klink.CodeInvalid, f.field, "%w", err)
		}
	}
	return nil
}

func (s *Service) disconnect(user string, sessions []crux.Session, code klink.Disconnect, reason string) int {
	n, _ := refsByFE(s.dir.FrontEnds(), user, sessions, func(fe FrontEnd, refs []klink.SessionRef) error {
		fe.Disconnect(refs, code, reason)
		return nil
	})
	return n
}

// maxRevokeAhead is how far in the future a revocation may reach: there is no way to take one back.
const maxRevokeAhead = 24 * time.Hour

// Revoke makes tokens of a user (of one device, if device is not empty) issued before a time unusable and ends the sessions that logged
// in before it. It says how many there were. When a session's token was issued is not known: one that logged in later with an old
// token goes on until its token ends or is refreshed.
func (s *Service) Revoke(ctx context.Context, app, user, device string, before time.Time) (int, error) {
	k := Kick{User: user, Device: device}
	if err := checkKick(&k); err != nil {
		return 0, s.refused(err)
	}
	if time.Until(before) > maxRevokeAhead {
		return 0, s.refused(&FieldError{Field: "before", Err: klink.Errorf(klink.CodeInvalid, "more than a day in the future: it could not be taken back")})
	}
	if err := s.store.Revoke(ctx, app, user, device, before); err != nil {
		return 0, s.refused(storeError(err, "revoke tokens of %s", user))
	}
	users, err := s.lookup(ctx, app, []string{user})
	if err != nil {
		return 0, s.refused(err)
	}
	var hit []crux.Session
	for _, ses := range users[0].Sessions {
		if (device == "" || ses.Device == device) && ses.Since.Before(before) {
			hit = append(hit, ses)
		}
	}
	return s.disconnect(user, hit, klink.DisconnectRevoked, "the token was revoked"), nil
}

// DeleteUser removes what is stored of a user and ends the sessions. It says what there was. Revocations stay.
func (s *Service) DeleteUser(ctx context.Context, app, user string) (crux.User, int, error) {
	if err := klink.CheckID("user", user, klink.MaxUserLen); err != nil {
		return crux.User{}, 0, s.refused(badField(klink.CodeInvalid, "user", "%w", err))
	}
	u, err := s.store.DeleteUser(ctx, app, user)
	if err != nil {
		return crux.User{}, 0, s.refused(storeError(err, "delete user %s", user))
	}
	return u, s.disconnect(user, u.Sessions, klink.DisconnectDeleted, "the user was deleted"), nil
}
