package fe

import (
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/connmgr"
	"github.com/klinkio/klink/proto/frame"
)

// maxPublishing bounds the pushes of clients that are under way on this FE. The apps share it equally, so that none takes
// the room of another; each has minPublishing.
const (
	maxPublishing = 4096
	minPublishing = 64
)

// published is the answer to a Publish on its way back to the loop.
type published struct {
	h    klink.Handle
	id   uint32
	push string
	rep  klink.Report
	err  error
}

// Run implements [connmgr.Task].
func (p *published) Run(s *connmgr.Shard) { s.Published(p.h, p.id, p.push, &p.rep, p.err) }

// Publish implements [connmgr.Authority].
func (n *Node) Publish(s *connmgr.Shard, h klink.Handle, f *frame.Publish) {
	id, ok := s.Identity(h)
	if !ok {
		return
	}
	ans := &published{h: h, id: f.ID}
	running := n.publishing[id.App]
	switch {
	case n.cfg.Publisher == nil:
		ans.err = klink.Errorf(klink.CodeUnavailable, "no push service")
	case running.Load() >= int64(max(minPublishing, maxPublishing/len(n.publishing))):
		ans.err = klink.Errorf(klink.CodeOverloaded, "too many publishes under way")
	}
	if ans.err != nil {
		ans.Run(s)
		return
	}
	now := time.Now()
	p := &klink.Push{
		ID: klink.NewID(now), App: id.App, From: id.User, To: klink.Target{Tags: []string{string(f.Tag)}},
		Payload:     klink.Payload{Kind: f.Body.Kind, Data: append([]byte(nil), f.Body.Data...)},
		CollapseKey: string(f.CollapseKey), Droppable: f.Droppable, Accepted: now,
	}
	ans.push = p.ID
	running.Add(1)
	n.cfg.Publisher.Publish(p, func(rep klink.Report, err error) {
		running.Add(-1)
		ans.rep, ans.err = rep, err
		s.Post(ans)
	})
}
