package frame

import (
	"math"

	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

// notAFrame is what a client of the JSON binding gets in place of bytes that are no ServerFrame, which would be a defect of ours.
const notAFrame = `{"error":{"code":"INTERNAL","text":"a frame of the server could not be read"}}`

// ServerJSON is an encoded ServerFrame as compact JSON text with the meaning that protojson gives it; of members that are unset
// and of messages that are empty nothing is written. The text is new and does not alias body.
func ServerJSON(body []byte) []byte {
	s := Server{Bounds: Bounds{Tags: math.MaxInt, Capabilities: math.MaxInt, Endpoints: math.MaxInt, Recovered: math.MaxInt}}
	if err := s.Decode(body); err != nil {
		return []byte(notAFrame)
	}
	o := object{b: make([]byte, 0, 96+len(body)*3/2)}
	o.b = append(o.b, '{')
	if s.Kind != ServerPong && s.Kind != ServerUnknown {
		o.open(jsonNames[s.Kind])
		s.members(&o)
		o.close()
	}
	o.close()
	return o.b
}

// jsonNames are the members of ServerFrame by kind.
var jsonNames = [NumServerKinds]string{
	ServerConnected: "connected", ServerSubscribed: "subscribed", ServerTagsChanged: "tagsChanged", ServerPublished: "published",
	ServerResponse: "response", ServerPush: "push", ServerGap: "gap", ServerPing: "ping", ServerError: "error",
	ServerDisconnect: "disconnect",
}

var (
	pushBody     = [3]string{"data", "text", "json"}
	responseBody = [3]string{"data", "textBody", "json"}
)

func (s *Server) members(o *object) {
	switch s.Kind {
	case ServerConnected:
		s.Connected.members(o)
	case ServerSubscribed:
		m := &s.Subscribed
		o.uint32("id", m.ID)
		tagMembers(o, m.Tags)
		o.bool("barrier", m.Barrier)
		o.bool("left", m.Left)
	case ServerTagsChanged:
		o.strings("added", s.TagsChanged.Added)
		o.strings("removed", s.TagsChanged.Removed)
	case ServerPublished:
		m := &s.Published
		o.uint32("id", m.ID)
		o.string("push", m.Push)
		o.uint32("matched", m.Matched)
		o.uint32("enqueued", m.Enqueued)
	case ServerResponse:
		m := &s.Response
		o.uint32("id", m.ID)
		o.enum("error", int32(m.Error), klinkv1.ErrorCode_name)
		o.string("text", m.Text)
		o.body(&responseBody, m.Body)
	case ServerPush:
		s.Push.members(o)
	case ServerGap:
		m := &s.Gap
		o.string("tag", m.Tag)
		o.uint64("from", m.From)
		o.uint64("to", m.To)
		o.uint32("count", m.Count)
		o.string("reason", m.Reason)
	case ServerPing:
		o.uint64("id", s.Ping.ID)
	case ServerError:
		m := &s.Error
		o.uint32("id", m.ID)
		o.enum("code", int32(m.Code), klinkv1.ErrorCode_name)
		o.string("text", m.Text)
		o.string("limit", m.Limit)
	case ServerDisconnect:
		m := &s.Disconnect
		o.uint32("code", m.Code)
		o.string("reason", m.Reason)
		o.bool("retry", m.Retry)
		o.uint32("delayMs", m.DelayMs)
		o.string("target", m.Target)
	}
}

func (m *Connected) members(o *object) {
	o.string("session", m.Session)
	o.int64("serverTimeMs", m.ServerTimeMs)
	if h := &m.Heartbeat; *h != (Heartbeat{}) {
		o.open("heartbeat")
		o.uint32("seconds", h.Seconds)
		o.uint32("minSeconds", h.MinSeconds)
		o.uint32("maxSeconds", h.MaxSeconds)
		o.close()
	}
	if l := &m.Limits; *l != (Limits{}) {
		o.open("limits")
		o.uint32("frameBytes", l.FrameBytes)
		o.uint32("tags", l.Tags)
		o.uint32("requests", l.Requests)
		o.uint32("queuedBytes", l.QueuedBytes)
		o.uint32("framesPerSecond", l.FramesPerSecond)
		o.close()
	}
	o.strings("capabilities", m.Capabilities)
	o.enum("resume", int32(m.Resume), klinkv1.ResumeOutcome_name)
	o.strings("endpoints", m.Endpoints)
	o.bool("provisional", m.Provisional)
	o.bool("degraded", m.Degraded)
	o.string("user", m.User)
	o.string("app", m.App)
	o.uint64("version", m.Version)
	tagMembers(o, m.Tags)
	o.int64("tokenExpiresMs", m.TokenExpiresMs)
}

func tagMembers(o *object, tags []TagResult) {
	if len(tags) == 0 {
		return
	}
	o.member("tags")
	o.b = append(o.b, '[')
	for i := range tags {
		t := &tags[i]
		o.element()
		o.string("tag", t.Tag)
		o.enum("error", int32(t.Error), klinkv1.ErrorCode_name)
		o.string("text", t.Text)
		o.string("epoch", t.Epoch)
		o.uint64("offset", t.Offset)
		if len(t.Recovered) > 0 {
			o.member("recovered")
			o.b = append(o.b, '[')
			for j := range t.Recovered {
				o.element()
				t.Recovered[j].members(o)
				o.close()
			}
			o.b = append(o.b, ']')
		}
		o.close()
	}
	o.b = append(o.b, ']')
}

func (m *Push) members(o *object) {
	o.bytes("id", m.ID)
	o.bytes("tag", m.Tag)
	o.bytes("from", m.From)
	o.body(&pushBody, m.Body)
	o.int64("timeMs", m.TimeMs)
	o.bytes("collapseKey", m.CollapseKey)
	o.bytes("expr", m.Expr)
}
