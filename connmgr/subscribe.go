package connmgr

import (
	"fmt"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

// backEndTags is how many tags of tokens and back ends a session may carry beyond the limit of its client's subscriptions: a push to a tag that a
// back end has set on a user must not miss a device because of what that device has subscribed to.
const backEndTags = 512

// maxTexts bounds the results of one answer that say in words what their code says, so that an answer is not many times its question.
const maxTexts = 16

// join gives the session a tag, if it carries fewer than limit.
func (s *Shard) join(slot uint32, l *lane, tag []byte, limit int) (klink.Code, string) {
	s.keyBuf = appendTagKey(s.keyBuf[:0], l, tag)
	if s.index.Count(slot) >= limit {
		if id, ok := s.index.Lookup(string(s.keyBuf)); !ok || !s.index.Has(slot, id) {
			s.stats.Refused[LimitTags].Add(1)
			return klink.CodeLimit, fmt.Sprintf("at most %d tags per connection", limit)
		}
		return klink.OK, ""
	}
	if id, _, _ := s.index.JoinBytes(slot, s.keyBuf); id == 0 {
		s.stats.Refused[LimitTagIndex].Add(1)
		return klink.CodeOverloaded, "the tag index is full"
	}
	return klink.OK, ""
}

// allowedJoin joins a tag that the client asks for, where its grants allow it.
func (s *Shard) allowedJoin(slot uint32, ss *session, l *lane, tag []byte) (klink.Code, string) {
	name := string(tag)
	if err := klink.CheckID("tag", name, klink.MaxTagLen); err != nil {
		return klink.CodeInvalid, err.Error()
	}
	if !s.grants.get(ss.grants).CanSubscribe(name, s.user(ss)) {
		return klink.CodeForbidden, "the token does not allow this tag"
	}
	return s.join(slot, l, tag, s.mgr.cfg.MaxTags)
}

// subscribe joins tags. The index has them before the answer is sent, so the answer is a barrier.
func (s *Shard) subscribe(slot uint32, ss *session, f *frame.Subscribe) {
	l := s.apps.at(ss.app)
	res := s.results[:0]
	for i := range f.Tags {
		code, text := s.allowedJoin(slot, ss, l, f.Tags[i].Tag)
		if i >= maxTexts {
			text = ""
		}
		res = append(res, frame.TagResult{Tag: string(f.Tags[i].Tag), Error: code, Text: text})
	}
	s.buf = frame.AppendSubscribed(s.buf[:0], &frame.Subscribed{ID: f.ID, Tags: res, Barrier: true})
	s.results = res
	s.answerBody(slot, ss, s.buf)
}

func (s *Shard) unsubscribe(slot uint32, ss *session, f *frame.Unsubscribe) {
	l := s.apps.at(ss.app)
	res := s.results[:0]
	for i, tag := range f.Tags {
		r := frame.TagResult{Tag: string(tag)}
		s.keyBuf = appendTagKey(s.keyBuf[:0], l, tag)
		if left, _ := s.index.Leave(slot, string(s.keyBuf)); !left {
			if r.Error = klink.CodeNotFound; i < maxTexts {
				r.Text = "this connection does not carry the tag"
			}
		}
		res = append(res, r)
	}
	s.buf = frame.AppendSubscribed(s.buf[:0], &frame.Subscribed{ID: f.ID, Tags: res, Left: true})
	s.results = res
	s.answerBody(slot, ss, s.buf)
}

// ChangeTags applies what a back end changed on a user to one of its sessions and tells the client; for a login under way, when it is admitted.
func (s *Shard) ChangeTags(h klink.Handle, add, remove []string) {
	ss := s.slab.find(h)
	switch {
	case ss != nil && ss.state == stateLive:
		s.changeTags(h.Slot(), ss, add, remove)
	case ss != nil && ss.state == stateLogin:
		s.putEarlyTags(h, add, remove)
	default:
		s.stats.Stale.Add(1)
	}
}

func (s *Shard) changeTags(slot uint32, ss *session, add, remove []string) {
	if ss.state != stateLive {
		return
	}
	l := s.apps.at(ss.app)
	var m frame.TagsChanged
	for _, t := range remove {
		if left, _ := s.index.Leave(slot, s.key(l, t)); left {
			m.Removed = append(m.Removed, t)
		}
	}
	for _, t := range add {
		id, ok := s.index.Lookup(s.key(l, t))
		if ok && s.index.Has(slot, id) {
			continue
		}
		if code, _ := s.join(slot, l, []byte(t), s.mgr.cfg.MaxTags+backEndTags); code == klink.OK {
			m.Added = append(m.Added, t)
		}
	}
	if len(m.Added)+len(m.Removed) == 0 {
		return
	}
	s.buf = frame.AppendTagsChanged(s.buf[:0], &m)
	s.answerBody(slot, ss, s.buf)
}
