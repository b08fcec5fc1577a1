package push

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

// op is one push under way. It is handed from step to step: who started the last part of a step, or finished it, takes the next.
type op struct {
	s        *Service
	p        *klink.Push
	waiter   *waiter              // told at the end, or
	own      waiter               // for ops that are waited for singly
	callback func(*Result, error) // called at the end
	once     *onceAnswer          // gets the answer
	trace    *trace
	lost     []klink.SessionRef // on front ends that are not in view, for the trace

	names   []string   // distinct users to look up
	devices [][]string // by index of names: the devices meant, nil: all; shorter than names where users are meant whole
	from, n int        // of names within those of the batch

	parts []part
	one   [1]part // room for the usual single front end
	left  atomic.Int32
	again bool   // moved sessions have been looked up
	first []part // of the first round, once the second one has begun

	result Result
	err    error
	ended  atomic.Bool
}

// part is what one front end does of an op.
type part struct {
	o      *op
	fe     FrontEnd
	d      klink.Delivery
	report klink.Report
	err    error
}

// waiter wakes one goroutine when a number of things has ended.
type waiter struct {
	left  atomic.Int32
	ready chan struct{} // size 1: the only signal
}

func (w *waiter) done() {
	if w.left.Add(-1) == 0 {
		w.ready <- struct{}{}
	}
}

// broad says that the push goes to all front ends.
func (o *op) broad() bool { return len(o.p.To.Tags) > 0 || o.p.To.Expr != "" || o.p.To.All }

// appendNames adds the distinct users of the target to list and notes which of their devices are meant.
func (o *op) appendNames(list []string) []string {
	to := &o.p.To
	if len(to.Users) == 1 && len(to.Devices) == 0 {
		return append(list, to.Users[0])
	}
	if len(to.Users)+len(to.Devices) == 0 {
		return list
	}
	at := make(map[string]int, len(to.Users)+len(to.Devices))
	for _, u := range to.Users {
		if _, ok := at[u]; !ok {
			at[u] = len(at)
			list = append(list, u)
		}
	}
	whole := len(at)
	for _, d := range to.Devices {
		i, ok := at[d.User]
		if !ok {
			i = len(at)
			at[d.User] = i
			list = append(list, d.User)
		}
		if i < whole {
			continue
		}
		for len(o.devices) <= i {
			o.devices = append(o.devices, nil)
		}
		if !slices.Contains(o.devices[i], d.Device) {
			o.devices[i] = append(o.devices[i], d.Device)
		}
	}
	return list
}

// means reports whether the target means this session of the user names[i].
func (o *op) means(i int, device string) bool {
	return i >= len(o.devices) || o.devices[i] == nil || slices.Contains(o.devices[i], device)
}

// countOffline counts the users and devices named that have no session.
func (o *op) countOffline(i int, u *crux.User) int {
	if i >= len(o.devices) || o.devices[i] == nil {
		if len(u.Sessions) == 0 {
			return 1
		}
		return 0
	}
	n := 0
	for _, d := range o.devices[i] {
		there := false
		for j := range u.Sessions {
			there = there || u.Sessions[j].Device == d
		}
		if !there {
			n++
		}
	}
	return n
}

// send starts the first round. users answer names.
func (o *op) send(users []crux.User) {
	fes := o.s.dir.FrontEnds()
	o.result.Push = o.p.ID
	o.parts = o.one[:0]
	if o.broad() {
		if len(fes) > 1 {
			o.parts = make([]part, 0, len(fes))
		}
		for _, fe := range fes {
			o.addPart(fe)
		}
	}
	refs := 0
	for i := range users {
		refs += len(users[i].Sessions)
	}
	for i := range users {
		u := &users[i]
		o.result.Report.Offline += o.countOffline(i, u)
		for j := range u.Sessions {
			if ses := &u.Sessions[j]; o.means(i, ses.Device) {
				o.addSession(fes, u.User, ses, refs)
			}
		}
	}
	o.start()
}

func (o *op) addPart(fe FrontEnd) *part {
	o.parts = append(o.parts, part{o: o, fe: fe, d: klink.Delivery{Push: o.p}})
	p := &o.parts[len(o.parts)-1]
	if o.broad() && !o.again {
		p.d.Tags, p.d.Expr, p.d.All = o.p.To.Tags, o.p.To.Expr, o.p.To.All
	}
	return p
}

// addSession puts a session into the part of its front end; refs is how many there may be in all.
func (o *op) addSession(fes []FrontEnd, user string, ses *crux.Session, refs int) {
	ref := klink.SessionRef{Incarnation: ses.Incarnation, Handle: ses.Handle, User: user, Device: ses.Device}
	p := o.partOf(fes, ses.Incarnation.FE)
	if p == nil { // its front end is not in our view (any more): as good as gone
		o.result.Report.Matched++
		o.result.Report.Dropped[klink.DropGone]++
		o.result.Report.AddOutcome(klink.Outcome{
			FE: ses.Incarnation.FE, User: user, Device: ses.Device, Session: klink.SessionID(ses.Incarnation, ses.Handle),
			Result: klink.DropGone.String(), At: o.p.Accepted,
		})
		if o.trace != nil {
			o.lost = append(o.lost, ref)
		}
		return
	}
	if p.d.Sessions == nil {
		p.d.Sessions = make([]klink.SessionRef, 0, refs)
	}
	p.d.Sessions = append(p.d.Sessions, ref)
}

func (o *op) partOf(fes []FrontEnd, id string) *part {
	for i := range o.parts {
		if o.parts[i].fe.ID() == id {
			return &o.parts[i]
		}
	}
	for _, fe := range fes {
		if fe.ID() == id {
			return o.addPart(fe)
		}
	}
	return nil
}

// start hands the parts to their front ends. parts does not move any more.
func (o *op) start() {
	o.left.Store(int32(len(o.parts)) + 1)
	o.s.traces.plan(o.trace, o.parts, o.lost)
	o.lost = nil
	for i := range o.parts {
		p := &o.parts[i]
		if err := p.fe.Start(&p.d, p.finish); err != nil {
			p.err = err
			o.partEnded()
		}
	}
	o.partEnded() // the one that kept the op open while parts were started
}

// finish is called by the front end.
func (p *part) finish(r klink.Report) {
	p.report = r
	p.o.partEnded()
}

func (o *op) partEnded() {
	if o.left.Add(-1) != 0 {
		return
	}
	o.merge()
	if o.again || o.result.Report.Dropped[klink.DropGone] == 0 || len(o.names) == 0 {
		o.end()
		return
	}
	o.again = true
	if o.s.store.NonBlocking() {
		o.sendMoved(context.Background())
		return
	}
	o.s.wg.Go(func() { // we may be on an event loop
		ctx, cancel := context.WithTimeout(context.Background(), o.s.timeout)
		defer cancel()
		o.sendMoved(ctx)
	})
}

// merge adds the reports of the parts to the result.
func (o *op) merge() {
	for i := range o.parts {
		p := &o.parts[i]
		if p.err == nil {
			if p.report.FEs = 1; o.asked(p.fe.ID()) {
				p.report.FEs = 0
			}
			o.result.Report.Merge(&p.report)
			continue
		}
		code := klink.CodeInternal
		if e, ok := errors.AsType[*klink.Error](p.err); ok {
			code = e.Code
		}
		o.s.stats.unreached.Add(1)
		o.result.Unreached = append(o.result.Unreached, Unreached{FE: p.fe.ID(), Code: code, Text: p.err.Error()})
	}
	o.s.traces.report(o.trace, o.parts)
}

// asked reports whether a front end took its part of the first round, in the second one.
func (o *op) asked(fe string) bool {
	for i := range o.first {
		if o.first[i].err == nil && o.first[i].fe.ID() == fe {
			return true
		}
	}
	return false
}

// fail ends an op of which nothing was done.
func (o *op) fail(err error) {
	o.err = err
	o.tell()
}

// end closes the books.
func (o *op) end() {
	r := &o.result.Report
	if r.FEs == 0 && len(o.result.Unreached) > 0 {
		u := &o.result.Unreached[0]
		o.err = klink.Errorf(u.Code, "no front end took push %s: %s: %s", o.p.ID, u.FE, u.Text)
	}
	o.s.stats.add(r)
	o.s.traces.end(o.trace, &o.result)
	o.tell()
}

func (o *op) tell() {
	if o.once != nil {
		o.s.once.end(o.once, &o.result, o.err)
	}
	o.ended.Store(true)
	if o.callback != nil {
		o.callback(&o.result, o.s.refusedIf(o.err))
		return
	}
	o.waiter.done()
}

// answer is for the waiting caller, after the end.
func (o *op) answer() (*Result, error) {
	if o.err != nil {
		return nil, o.s.refused(o.err)
	}
	return &o.result, nil
}

func (s *Service) refusedIf(err error) error {
	if err != nil {
		return s.refused(err)
	}
	return nil
}
