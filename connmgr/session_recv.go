package connmgr

import (
	"errors"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
)

// Costs of what a client sends, in thousandths of a frame of its budget. A heartbeat is the cheapest frame there is, but not free: a byte each, a
// client could have thousands answered for one packet.
const (
	costFrame = 1000
	costPing  = 100
)

// OnMessage implements [link.Handler].
func (s *Shard) OnMessage(h klink.Handle, body []byte) {
	slot := h.Slot()
	ss := s.slab.find(h)
	if ss == nil || ss.state == stateClosing {
		return
	}
	s.heard(ss)
	ping := s.isPing(ss, body)
	cost := costPing
	if !ping {
		cost = costFrame * (1 + len(body)>>10)
	}
	if !s.spend(ss, cost) {
		s.stats.Refused[LimitFrameRate].Add(1)
		s.disconnect(slot, ss, klink.DisconnectRateLimited, "frames_per_second: more frames than the limit told in Connected")
		return
	}
	if ping {
		s.ping(slot, ss)
		return
	}
	if ss.state == stateLogin {
		s.putEarly(slot, ss, h, body)
		return
	}
	s.handleFrame(slot, ss, h, body)
}

// isPing knows the heartbeat: an empty body, {} in JSON.
func (s *Shard) isPing(ss *session, body []byte) bool {
	return len(body) == 0 || (ss.form == uint8(link.FormWSJSON) && len(body) == 2 && body[0] == '{' && body[1] == '}')
}

// ping answers a heartbeat. Before the login it is heard and no more.
func (s *Shard) ping(slot uint32, ss *session) {
	s.stats.FramesIn[frame.KindPing].Add(1)
	if ss.state == stateLive {
		s.answer(slot, ss, s.pong)
	}
}

// spend takes thousandths of frames from the session's budget and reports whether it had them.
func (s *Shard) spend(ss *session, cost int) bool {
	now := uint32(s.loop.NowMs())
	rate, burst := int64(s.mgr.cfg.FramesPerSecond), int64(s.mgr.cfg.FrameBurst)*1000
	have := min(burst, int64(ss.tokens)+int64(now-ss.tokensAt)*rate)
	ss.tokensAt = now
	have -= int64(cost)
	ss.tokens = int32(max(have, -burst))
	return have >= 0
}

func (s *Shard) handleFrame(slot uint32, ss *session, h klink.Handle, body []byte) {
	c := &s.client
	var err error
	if ss.form == uint8(link.FormWSJSON) {
		err = c.DecodeJSON(body)
	} else {
		err = c.Decode(body)
	}
	if err != nil {
		s.unreadable(slot, ss, h, err)
		return
	}
	if c.Kind == frame.KindPing { // written in another way than isPing knows
		s.ping(slot, ss)
		return
	}
	s.stats.FramesIn[c.Kind].Add(1)
	if ss.state == stateOpen {
		if c.Kind != frame.KindConnect {
			s.disconnect(slot, ss, klink.DisconnectProtocol, "the first frame must be Connect")
			return
		}
		s.login(ss, h, &c.Connect)
		return
	}
	switch c.Kind {
	case frame.KindConnect:
		s.disconnect(slot, ss, klink.DisconnectProtocol, "a second Connect")
	case frame.KindSubscribe:
		s.subscribe(slot, ss, &c.Subscribe)
	case frame.KindUnsubscribe:
		s.unsubscribe(slot, ss, &c.Unsubscribe)
	case frame.KindPublish:
		s.publish(slot, ss, h, &c.Publish)
	case frame.KindRequest:
		s.request(slot, ss, h, &c.Request)
	case frame.KindRefresh:
		s.refresh(slot, ss, h, &c.Refresh)
	case frame.KindSetHeartbeat:
		ss.heartbeat = s.heartbeat(int(c.SetHeartbeat.Seconds))
		s.arm(slot, ss)
	case frame.KindPong:
		s.mgr.pings.ponged(h, c.Pong.ID)
	case frame.KindBye:
		s.bye(slot, ss, string(c.Bye.Reason))
	default: // Ack moves nothing before there is an inbox; kinds of newer clients are skipped
	}
}

// unreadable answers a frame that can't be decoded: with an error where it is only too long a list of tags, else with the end of the session.
func (s *Shard) unreadable(slot uint32, ss *session, h klink.Handle, err error) {
	text := "frame: " + err.Error()
	if ss.state != stateLive {
		s.Refuse(h, klink.DisconnectProtocol, text)
		return
	}
	if _, ok := errors.AsType[*frame.TooMany](err); ok {
		s.stats.Refused[LimitTags].Add(1)
		switch c := &s.client; c.Kind {
		case frame.KindSubscribe:
			s.fail(slot, ss, c.Subscribe.ID, klink.CodeLimit, text, LimitTags.String())
			return
		case frame.KindUnsubscribe:
			s.fail(slot, ss, c.Unsubscribe.ID, klink.CodeLimit, text, LimitTags.String())
			return
		default:
		}
	}
	s.disconnect(slot, ss, klink.DisconnectProtocol, text)
}

func (s *Shard) login(ss *session, h klink.Handle, c *frame.Connect) {
	if err := klink.CheckID("device", string(c.Device), klink.MaxDeviceLen); err != nil {
		s.Refuse(h, klink.DisconnectBadConnect, err.Error())
		return
	}
	ss.state = stateLogin
	s.mgr.auth.Login(s, h, c)
}

// bye is the client's orderly end.
func (s *Shard) bye(slot uint32, ss *session, _ string) {
	h := s.handle(slot, ss)
	s.stats.Ended[endOf(link.ClosePeer)].Add(1)
	s.retire(slot, ss, klink.DropClosed, 0)
	s.loop.Close(h, 0, "")
}

func (s *Shard) heartbeat(wish int) uint16 {
	if wish == 0 {
		wish = s.mgr.cfg.HeartbeatSeconds
	}
	return uint16(min(max(wish, s.mgr.cfg.HeartbeatMin), s.mgr.cfg.HeartbeatMax))
}

// fail answers one request of the client with an error; the session goes on.
func (s *Shard) fail(slot uint32, ss *session, id uint32, code klink.Code, text, limit string) {
	s.buf = frame.AppendError(s.buf[:0], &frame.Error{ID: id, Code: code, Text: text, Limit: limit})
	s.answerBody(slot, ss, s.buf)
}

func (s *Shard) publish(slot uint32, ss *session, h klink.Handle, p *frame.Publish) {
	g := s.grants.get(ss.grants)
	tag := string(p.Tag)
	err := klink.CheckID("tag", tag, klink.MaxTagLen)
	switch {
	case err != nil:
		s.fail(slot, ss, p.ID, klink.CodeInvalid, err.Error(), "")
	case !s.payloadFits(slot, ss, p.ID, p.Body):
	case !g.CanPublish(tag, s.user(ss)):
		s.fail(slot, ss, p.ID, klink.CodeForbidden, "the token does not allow publishing to "+tag, "")
	case !s.takeRequest(slot, ss, p.ID):
	default:
		s.mgr.auth.Publish(s, h, p)
	}
}

func (s *Shard) request(slot uint32, ss *session, h klink.Handle, r *frame.Request) {
	g := s.grants.get(ss.grants)
	svc := string(r.Service)
	switch {
	case !s.payloadFits(slot, ss, r.ID, r.Body):
	case !g.CanCall(svc, s.user(ss)):
		s.fail(slot, ss, r.ID, klink.CodeForbidden, "the token does not allow calling "+svc, "")
	case !s.takeRequest(slot, ss, r.ID):
	default:
		s.mgr.auth.Request(s, h, r)
	}
}

func (s *Shard) payloadFits(slot uint32, ss *session, id uint32, b frame.Body) bool {
	if limit := s.mgr.cfg.PublishPayloadBytes; len(b.Data) > limit {
		s.stats.Refused[LimitPayload].Add(1)
		s.fail(slot, ss, id, klink.CodeTooLarge, "the payload is too large", LimitPayload.String())
		return false
	}
	if err := b.Check(); err != nil {
		s.fail(slot, ss, id, klink.CodeInvalid, err.Error(), "")
		return false
	}
	return true
}

// takeRequest counts a request in flight; [Shard.Published] and [Shard.Respond] give it back.
func (s *Shard) takeRequest(slot uint32, ss *session, id uint32) bool {
	if int(ss.requests) >= s.mgr.cfg.MaxRequests {
		s.stats.Refused[LimitRequests].Add(1)
		s.fail(slot, ss, id, klink.CodeLimit, "too many requests in flight", LimitRequests.String())
		return false
	}
	ss.requests++
	return true
}

// live finds a live session for an answer that came from elsewhere; the connection may be gone meanwhile.
func (s *Shard) live(h klink.Handle) (uint32, *session) {
	ss := s.slab.find(h)
	if ss == nil || ss.state != stateLive {
		s.stats.Stale.Add(1)
		return 0, nil
	}
	return h.Slot(), ss
}

// Published answers a Publish.
func (s *Shard) Published(h klink.Handle, id uint32, push string, rep *klink.Report, err error) {
	slot, ss := s.live(h)
	if ss == nil {
		return
	}
	ss.requests--
	if err != nil {
		e := asError(err)
		s.fail(slot, ss, id, e.Code, e.Text, "")
		return
	}
	s.buf = frame.AppendPublished(s.buf[:0], &frame.Published{
		ID: id, Push: push, Matched: uint32(rep.Matched), Enqueued: uint32(rep.Enqueued),
	})
	s.answerBody(slot, ss, s.buf)
}

// Respond answers a Request.
func (s *Shard) Respond(h klink.Handle, r *frame.Response) {
	slot, ss := s.live(h)
	if ss == nil {
		return
	}
	ss.requests--
	s.buf = frame.AppendResponse(s.buf[:0], r)
	s.answerBody(slot, ss, s.buf)
}

func asError(err error) *klink.Error {
	if e, ok := errors.AsType[*klink.Error](err); ok {
		return e
	}
	return &klink.Error{Code: klink.CodeInternal, Text: err.Error(), Err: err}
}
