package push

import (
	"context"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

// deviceKey names a device within an op.
type deviceKey struct{ user, device string }

// sendMoved looks the users up once more and sends to those sessions that took the place of one that was gone. A session that is
// gone and has no successor stays reported as gone.
func (o *op) sendMoved(ctx context.Context) {
	users, err := o.s.lookup(ctx, o.p.App, o.names)
	if err != nil {
		o.end() // the report of the first round is true as it is
		return
	}
	gone, sent := o.goneSessions()
	fes := o.s.dir.FrontEnds()
	o.first, o.parts = o.parts, nil
	moved := uint32(0)
	for i := range users {
		for j := range users[i].Sessions {
			ses := &users[i].Sessions[j]
			key := deviceKey{users[i].User, ses.Device}
			if _, was := gone[key]; !was || sent[sessionKey{ses.Incarnation, ses.Handle}] || !o.means(i, ses.Device) {
				continue
			}
			if hasFE(fes, ses.Incarnation.FE) {
				o.addSession(fes, users[i].User, ses, 1)
				o.forgetGone(key)
				moved++
			}
		}
	}
	if moved == 0 {
		o.end()
		return
	}
	o.s.stats.moved.Add(uint64(moved))
	r := &o.result.Report
	n := min(moved, r.Dropped[klink.DropGone])
	r.Dropped[klink.DropGone] -= n
	r.Matched -= int(n)
	o.start()
}

type sessionKey struct {
	inc klink.Incarnation
	h   klink.Handle
}

// goneSessions are the devices whose session was gone, and all sessions that the first round went to. When more were gone
// than a report names, every device of the first round counts as perhaps gone: one whose session was replaced meanwhile gets a copy
// on each of the two.
func (o *op) goneSessions() (gone map[deviceKey]struct{}, sent map[sessionKey]bool) {
	gone, sent = make(map[deviceKey]struct{}), make(map[sessionKey]bool)
	r := &o.result.Report
	named := uint32(0)
	for i := range r.Outcomes {
		if oc := &r.Outcomes[i]; oc.Result == klink.DropGone.String() {
			gone[deviceKey{oc.User, oc.Device}] = struct{}{}
			named++
		}
	}
	for i := range o.parts {
		for _, ref := range o.parts[i].d.Sessions {
			sent[sessionKey{ref.Incarnation, ref.Handle}] = true
			if named < r.Dropped[klink.DropGone] {
				gone[deviceKey{ref.User, ref.Device}] = struct{}{}
			}
		}
	}
	return gone, sent
}

// forgetGone removes the outcome of a session that has a successor.
func (o *op) forgetGone(k deviceKey) {
	list := o.result.Report.Outcomes
	for i := range list {
		if oc := &list[i]; oc.User == k.user && oc.Device == k.device && oc.Result == klink.DropGone.String() {
			o.result.Report.Outcomes = append(list[:i], list[i+1:]...)
			return
		}
	}
}

func hasFE(fes []FrontEnd, id string) bool {
	for _, fe := range fes {
		if fe.ID() == id {
			return true
		}
	}
	return false
}

// refsByFE groups sessions of one user by front end; those of front ends that are not in view are left out.
func refsByFE(fes []FrontEnd, user string, sessions []crux.Session, each func(FrontEnd, []klink.SessionRef) error) (n int, err error) {
	for _, fe := range fes {
		var refs []klink.SessionRef
		for i := range sessions {
			if s := &sessions[i]; s.Incarnation.FE == fe.ID() {
				refs = append(refs, klink.SessionRef{Incarnation: s.Incarnation, Handle: s.Handle, User: user, Device: s.Device})
			}
		}
		if len(refs) == 0 {
			continue
		}
		n += len(refs)
		if e := each(fe, refs); e != nil && err == nil {
			err = e
		}
	}
	return n, err
}
