package push

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/tagindex"
)

// Verdict is the short answer to "did the user get it".
type Verdict string

// The verdicts, the best first: of several sessions of a user the best one counts. A drop is named by [klink.Drop.String].
const (
	VerdictSent        Verdict = "sent"         // a session's connection took it
	VerdictQueued      Verdict = "queued"       // it waits, or waited, behind a slow reader; no drop is known
	VerdictPending     Verdict = "pending"      // a front end has not answered yet
	VerdictDropped     Verdict = "dropped"      // see the result of each session
	VerdictUnreached   Verdict = "unreached"    // the front end of the session did not take the push
	VerdictLater       Verdict = "later"        // the user connected after the push
	VerdictNotMember   Verdict = "not_member"   // the user's sessions do not fit the target's tags or expression
	VerdictOffline     Verdict = "offline"      // the user had no session
	VerdictUnknown     Verdict = "unknown"      // the session that the user may have had has ended since
	VerdictNotTargeted Verdict = "not_targeted" // the target has no part that could mean the user
)

var verdictOrder = []Verdict{
	VerdictSent, VerdictQueued, VerdictPending, VerdictDropped, VerdictUnreached, VerdictUnknown, VerdictNotMember, VerdictLater, VerdictOffline,
	VerdictNotTargeted,
}

// Fate is what happened at one session of the user.
type Fate struct {
	FE, Device, Session string
	Verdict             Verdict
	Result              string    // the outcome where one is known
	At                  time.Time // of the outcome
	Text                string    // for people
}

// Explanation says why a user did or did not get a push.
type Explanation struct {
	User    string
	Verdict Verdict
	Text    string // for people
	Fates   []Fate
}

// explainer combines what is remembered of a push with what is known now.
type explainer struct {
	t     *trace
	user  string
	now   crux.User
	late  []klink.Outcome
	fates []Fate
}

// Explain says what became of a push of the app at one user. ok is false where the push is not known (any more).
func (s *Service) Explain(ctx context.Context, app, id, user string) (e Explanation, ok bool, err error) {
	t, ok := s.traces.find(app, id)
	if !ok {
		return Explanation{}, false, nil
	}
	users, err := s.lookup(ctx, app, []string{user})
	if err != nil {
		return Explanation{}, true, err
	}
	x := &explainer{t: &t, user: user, now: users[0], late: t.lateOutcomes()}
	x.named()
	x.noted()
	if t.broadTarget() {
		if err := x.sessionsNow(ctx); err != nil {
			return Explanation{}, true, err
		}
	}
	return x.sum(), true, nil
}

func (t *trace) broadTarget() bool { return t.to.All || t.to.Expr != "" || len(t.to.Tags) > 0 }

// lateOutcomes asks every front end of the push once.
func (t *trace) lateOutcomes() []klink.Outcome {
	var late []klink.Outcome
	for i := range t.parts {
		if first := t.part(t.parts[i].fe.ID()); first == &t.parts[i] {
			late = append(late, t.parts[i].fe.LateOutcomes(t.id)...)
		}
	}
	return late
}

// named handles the sessions that the user state named when the push was planned.
func (x *explainer) named() {
	for i := range x.t.parts {
		p := &x.t.parts[i]
		for _, ref := range p.sessions {
			if ref.User == x.user {
				x.add(x.fateOf(p, ref))
			}
		}
	}
	for _, ref := range x.t.gone {
		if ref.User == x.user {
			x.add(dropFate(ref.Incarnation.FE, ref.Device, klink.SessionID(ref.Incarnation, ref.Handle), klink.DropGone.String(), x.t.accepted))
		}
	}
}

// noted handles outcomes of sessions that were not named but matched a tag, an expression or everyone.
func (x *explainer) noted() {
	for _, oc := range x.late {
		x.addOutcome(&oc)
	}
	for i := range x.t.parts {
		for j := range x.t.parts[i].report.Outcomes {
			x.addOutcome(&x.t.parts[i].report.Outcomes[j])
		}
	}
}

func (x *explainer) addOutcome(oc *klink.Outcome) {
	if oc.User == x.user && !x.known(oc.Session) {
		x.add(outcomeFate(oc))
	}
}

func (x *explainer) known(session string) bool {
	return slices.ContainsFunc(x.fates, func(f Fate) bool { return f.Session == session })
}

func (x *explainer) add(f Fate) { x.fates = append(x.fates, f) }

// fateOf is what a front end said of a session that it was told to send to.
func (x *explainer) fateOf(p *tracePart, ref klink.SessionRef) Fate {
	id := klink.SessionID(ref.Incarnation, ref.Handle)
	f := Fate{FE: p.fe.ID(), Device: ref.Device, Session: id}
	for _, list := range [2][]klink.Outcome{x.late, p.report.Outcomes} {
		for i := range list {
			if list[i].Session == id {
				return outcomeFate(&list[i])
			}
		}
	}
	f.Verdict, f.Text = p.verdict(ref.Handle)
	return f
}

// verdict is for a matched session of which no outcome is known.
func (p *tracePart) verdict(h klink.Handle) (Verdict, string) {
	switch {
	case p.err != nil:
		return VerdictUnreached, "front end " + p.fe.ID() + " did not take the push: " + p.err.Error()
	case !p.ended:
		return VerdictPending, "front end " + p.fe.ID() + " has not answered yet"
	case slices.Contains(p.report.SentTo, h):
		return VerdictSent, "the connection took it at once"
	}
	if other := p.report.Matched - len(p.report.Outcomes); p.report.Queued+p.report.DroppedTotal() > len(p.report.Outcomes) {
		return VerdictUnknown, fmt.Sprintf("one of %d sessions whose single outcomes were too many to keep", other)
	}
	return VerdictSent, "the connection took it at once; all drops of this push are known and this is none of them"
}

func outcomeFate(oc *klink.Outcome) Fate {
	switch oc.Result {
	case klink.OutcomeSent:
		return Fate{FE: oc.FE, Device: oc.Device, Session: oc.Session, Verdict: VerdictSent, Result: oc.Result, At: oc.At, Text: "the connection took it"}
	case klink.OutcomeQueued:
		return Fate{
			FE: oc.FE, Device: oc.Device, Session: oc.Session, Verdict: VerdictQueued, Result: oc.Result, At: oc.At,
			Text: "the client read too slowly: it was queued, and no later drop is known",
		}
	}
	return dropFate(oc.FE, oc.Device, oc.Session, oc.Result, oc.At)
}

func dropFate(fe, device, session, why string, at time.Time) Fate {
	return Fate{FE: fe, Device: device, Session: session, Verdict: VerdictDropped, Result: why, At: at, Text: dropText(why)}
}

func dropText(why string) string {
	switch why {
	case klink.DropSlow.String():
		return "the client read too slowly and its outbound budget was used up"
	case klink.DropCollapsed.String():
		return "a newer push with the same collapse key took its place in the queue of a slow reader"
	case klink.DropDroppable.String():
		return "it was droppable and the queue of a slow reader was over its budget"
	case klink.DropExpired.String():
		return "its time to live ended in the queue of a slow reader"
	case klink.DropClosed.String():
		return "the session ended while the push was queued or on its way"
	case klink.DropGone.String():
		return "the session had ended, and the device had no other one"
	case klink.DropOverloaded.String(), klink.DropMemory.String():
		return "the front end was out of room: " + why
	}
	return "dropped: " + why
}

// sessionsNow looks at the user's present sessions, for pushes that go to whoever fits.
func (x *explainer) sessionsNow(ctx context.Context) error {
	for i := range x.now.Sessions {
		s := &x.now.Sessions[i]
		ref := klink.SessionRef{Incarnation: s.Incarnation, Handle: s.Handle, User: x.user, Device: s.Device}
		id := klink.SessionID(ref.Incarnation, ref.Handle)
		if x.known(id) {
			continue
		}
		f := Fate{FE: s.Incarnation.FE, Device: s.Device, Session: id}
		p := x.t.part(s.Incarnation.FE)
		switch {
		case s.Since.After(x.t.accepted):
			f.Verdict, f.Text = VerdictLater, fmt.Sprintf("connected at %s, after the push", stamp(s.Since))
		case p == nil:
			f.Verdict, f.Text = VerdictUnreached, "front end "+s.Incarnation.FE+" was not in view"
		case p.err != nil || !p.ended || slices.Contains(p.report.SentTo, s.Handle) || x.t.to.All && x.t.to.Expr == "":
			f.Verdict, f.Text = p.verdict(s.Handle)
		default:
			if err := x.fits(ctx, p, ref, &f); err != nil {
				return err
			}
		}
		x.add(f)
	}
	return nil
}

// fits asks whether the session carries now what the push wanted then.
func (x *explainer) fits(ctx context.Context, p *tracePart, ref klink.SessionRef, f *Fate) error {
	tags, live, err := p.fe.SessionTags(ctx, ref)
	switch {
	case err != nil:
		return fmt.Errorf("tags of a session of %s on %s: %w", x.user, p.fe.ID(), err)
	case !live:
		f.Verdict, f.Text = VerdictUnknown, "the session has ended; which tags it carried is not known any more"
		return nil
	}
	has := func(t string) bool { return slices.Contains(tags, t) }
	fit := slices.ContainsFunc(x.t.to.Tags, has)
	if !fit && x.t.to.Expr != "" {
		if e, err := tagindex.Parse(x.t.to.Expr); err == nil {
			fit = e.Eval(has)
		}
	}
	if !fit {
		f.Verdict, f.Text = VerdictNotMember, fmt.Sprintf("the session fits neither tag nor expression now; it carries %d tags%s", len(tags), some(tags))
		return nil
	}
	f.Verdict, f.Text = p.verdict(ref.Handle)
	f.Text += " (it carries the tag now; when it joined is not kept)"
	return nil
}

// some lists a few tags.
func some(tags []string) string {
	if len(tags) == 0 {
		return ""
	}
	text := ": " + strings.Join(tags[:min(len(tags), 8)], ", ")
	if len(tags) > 8 {
		text += ", ..."
	}
	return text
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// sum chooses the verdict of the user.
func (x *explainer) sum() Explanation {
	e := Explanation{User: x.user, Fates: x.fates}
	meant := x.t.broadTarget() || slices.Contains(x.t.to.Users, x.user) ||
		slices.ContainsFunc(x.t.to.Devices, func(d klink.DeviceRef) bool { return d.User == x.user })
	switch {
	case !meant:
		e.Verdict, e.Text = VerdictNotTargeted, "the target names neither the user nor a tag or expression"
	case len(x.fates) > 0:
		best := slices.MinFunc(x.fates, func(a, b Fate) int {
			return slices.Index(verdictOrder, a.Verdict) - slices.Index(verdictOrder, b.Verdict)
		})
		e.Verdict, e.Text = best.Verdict, best.Text
	default:
		e.Verdict, e.Text = x.absent()
	}
	return e
}

// absent is for users without any session that the push could have gone to.
func (x *explainer) absent() (Verdict, string) {
	seen := x.now.LastSeen
	for i := range x.now.Sessions {
		s := &x.now.Sessions[i]
		if s.Since.After(x.t.accepted) {
			return VerdictLater, fmt.Sprintf("no session then; device %s connected at %s, after the push", s.Device, stamp(s.Since))
		}
		if len(x.t.to.Devices) > 0 {
			return VerdictOffline, "the devices named had no session; the user had one on device " + s.Device
		}
	}
	switch {
	case len(x.now.Sessions) == 0 && seen.After(x.t.accepted) && x.t.broadTarget():
		return VerdictUnknown, fmt.Sprintf("the last session ended at %s, after the push; which tags it carried is not known any more", stamp(seen))
	case !seen.IsZero():
		return VerdictOffline, fmt.Sprintf("offline: no session at the time of the push; the last one ended at %s", stamp(seen))
	case x.now.Version == 0:
		return VerdictOffline, "offline: nothing is known of this user, who may never have connected"
	}
	return VerdictOffline, "offline: no session at the time of the push"
}
