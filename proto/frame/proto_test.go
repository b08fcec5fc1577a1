package frame_test

import (
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

// What follows turns this package's structs into generated messages, so that the two can be compared.

func strs(vs [][]byte) []string {
	var out []string
	for _, v := range vs {
		out = append(out, string(v))
	}
	return out
}

func clientProto(t testing.TB, c *frame.Client) *klinkv1.ClientFrame {
	t.Helper()
	m := &klinkv1.ClientFrame{}
	switch c.Kind {
	case frame.KindPing, frame.KindUnknown:
	case frame.KindConnect:
		f := &c.Connect
		i, r := &f.Client, &f.Resume
		m.Kind = &klinkv1.ClientFrame_Connect{Connect: &klinkv1.Connect{
			Token: string(f.Token), Device: string(f.Device), Attempt: f.Attempt,
			Client: &klinkv1.ClientInfo{
				Name: string(i.Name), Version: string(i.Version), Platform: string(i.Platform), AppVersion: string(i.AppVersion),
			},
			Capabilities: strs(f.Capabilities),
			Resume: &klinkv1.Resume{
				Session: string(r.Session), Inbox: r.Inbox, InboxEpoch: string(r.InboxEpoch), Nonce: r.Nonce, AgeMs: r.AgeMs,
			},
			Tags: strs(f.Tags), HeartbeatSeconds: f.HeartbeatSeconds, Background: f.Background,
		}}
	case frame.KindSubscribe:
		s := &klinkv1.Subscribe{Id: c.Subscribe.ID}
		for _, p := range c.Subscribe.Tags {
			s.Tags = append(s.Tags, &klinkv1.TagPosition{Tag: string(p.Tag), Epoch: string(p.Epoch), Offset: p.Offset})
		}
		m.Kind = &klinkv1.ClientFrame_Subscribe{Subscribe: s}
	case frame.KindUnsubscribe:
		m.Kind = &klinkv1.ClientFrame_Unsubscribe{Unsubscribe: &klinkv1.Unsubscribe{Id: c.Unsubscribe.ID, Tags: strs(c.Unsubscribe.Tags)}}
	case frame.KindPublish:
		f := &c.Publish
		p := &klinkv1.Publish{
			Id: f.ID, Tag: string(f.Tag), IdempotencyKey: string(f.IdempotencyKey), CollapseKey: string(f.CollapseKey), Droppable: f.Droppable,
		}
		switch {
		case f.Body.Kind == klink.DataText:
			p.Body = &klinkv1.Publish_Text{Text: string(f.Body.Data)}
		case f.Body.Kind == klink.DataJSON:
			p.Body = &klinkv1.Publish_Json{Json: string(f.Body.Data)}
		case f.Body.Data != nil:
			p.Body = &klinkv1.Publish_Data{Data: f.Body.Data}
		}
		m.Kind = &klinkv1.ClientFrame_Publish{Publish: p}
	case frame.KindRequest:
		f := &c.Request
		p := &klinkv1.Request{Id: f.ID, Service: string(f.Service), Method: string(f.Method), DeadlineMs: f.DeadlineMs}
		switch {
		case f.Body.Kind == klink.DataText:
			p.Body = &klinkv1.Request_Text{Text: string(f.Body.Data)}
		case f.Body.Kind == klink.DataJSON:
			p.Body = &klinkv1.Request_Json{Json: string(f.Body.Data)}
		case f.Body.Data != nil:
			p.Body = &klinkv1.Request_Data{Data: f.Body.Data}
		}
		m.Kind = &klinkv1.ClientFrame_Request{Request: p}
	case frame.KindAck:
		m.Kind = &klinkv1.ClientFrame_Ack{Ack: &klinkv1.Ack{Inbox: c.Ack.Inbox, InboxEpoch: string(c.Ack.InboxEpoch)}}
	case frame.KindRefresh:
		m.Kind = &klinkv1.ClientFrame_Refresh{Refresh: &klinkv1.Refresh{Id: c.Refresh.ID, Token: string(c.Refresh.Token)}}
	case frame.KindSetHeartbeat:
		m.Kind = &klinkv1.ClientFrame_SetHeartbeat{SetHeartbeat: &klinkv1.SetHeartbeat{Seconds: c.SetHeartbeat.Seconds}}
	case frame.KindPong:
		m.Kind = &klinkv1.ClientFrame_Pong{Pong: &klinkv1.Pong{Id: c.Pong.ID}}
	case frame.KindBye:
		m.Kind = &klinkv1.ClientFrame_Bye{Bye: &klinkv1.Bye{Reason: string(c.Bye.Reason)}}
	default:
		t.Fatalf("kind %d", c.Kind)
	}
	return m
}

func pushProto(f *frame.Push) *klinkv1.Push {
	p := &klinkv1.Push{
		Id: string(f.ID), Tag: string(f.Tag), From: string(f.From), TimeMs: f.TimeMs, CollapseKey: string(f.CollapseKey), Expr: string(f.Expr),
	}
	switch {
	case f.Body.Kind == klink.DataText:
		p.Body = &klinkv1.Push_Text{Text: string(f.Body.Data)}
	case f.Body.Kind == klink.DataJSON:
		p.Body = &klinkv1.Push_Json{Json: string(f.Body.Data)}
	case f.Body.Data != nil:
		p.Body = &klinkv1.Push_Data{Data: f.Body.Data}
	}
	return p
}

func tagsProto(ts []frame.TagResult) []*klinkv1.TagResult {
	var out []*klinkv1.TagResult
	for _, r := range ts {
		p := &klinkv1.TagResult{Tag: r.Tag, Error: klinkv1.ErrorCode(r.Error), Text: r.Text, Epoch: r.Epoch, Offset: r.Offset}
		for i := range r.Recovered {
			p.Recovered = append(p.Recovered, pushProto(&r.Recovered[i]))
		}
		out = append(out, p)
	}
	return out
}

func connectedProto(f *frame.Connected) *klinkv1.Connected {
	return &klinkv1.Connected{
		Session: f.Session, ServerTimeMs: f.ServerTimeMs,
		Heartbeat: &klinkv1.Heartbeat{Seconds: f.Heartbeat.Seconds, MinSeconds: f.Heartbeat.MinSeconds, MaxSeconds: f.Heartbeat.MaxSeconds},
		Limits: &klinkv1.Limits{
			FrameBytes: f.Limits.FrameBytes, Tags: f.Limits.Tags, Requests: f.Limits.Requests,
			QueuedBytes: f.Limits.QueuedBytes, FramesPerSecond: f.Limits.FramesPerSecond,
		},
		Capabilities: f.Capabilities, Resume: klinkv1.ResumeOutcome(f.Resume), Endpoints: f.Endpoints, Provisional: f.Provisional,
		Degraded: f.Degraded, User: f.User, App: f.App, Version: f.Version, Tags: tagsProto(f.Tags), TokenExpiresMs: f.TokenExpiresMs,
	}
}

func serverProto(t testing.TB, s *frame.Server) *klinkv1.ServerFrame {
	t.Helper()
	m := &klinkv1.ServerFrame{}
	switch s.Kind {
	case frame.ServerPong, frame.ServerUnknown:
	case frame.ServerConnected:
		m.Kind = &klinkv1.ServerFrame_Connected{Connected: connectedProto(&s.Connected)}
	case frame.ServerSubscribed:
		f := &s.Subscribed
		m.Kind = &klinkv1.ServerFrame_Subscribed{Subscribed: &klinkv1.Subscribed{Id: f.ID, Tags: tagsProto(f.Tags), Barrier: f.Barrier, Left: f.Left}}
	case frame.ServerTagsChanged:
		m.Kind = &klinkv1.ServerFrame_TagsChanged{TagsChanged: &klinkv1.TagsChanged{Added: s.TagsChanged.Added, Removed: s.TagsChanged.Removed}}
	case frame.ServerPublished:
		f := &s.Published
		m.Kind = &klinkv1.ServerFrame_Published{Published: &klinkv1.Published{Id: f.ID, Push: f.Push, Matched: f.Matched, Enqueued: f.Enqueued}}
	case frame.ServerResponse:
		f := &s.Response
		p := &klinkv1.Response{Id: f.ID, Error: klinkv1.ErrorCode(f.Error), Text: f.Text}
		switch {
		case f.Body.Kind == klink.DataText:
			p.Body = &klinkv1.Response_TextBody{TextBody: string(f.Body.Data)}
		case f.Body.Kind == klink.DataJSON:
			p.Body = &klinkv1.Response_Json{Json: string(f.Body.Data)}
		case f.Body.Data != nil:
			p.Body = &klinkv1.Response_Data{Data: f.Body.Data}
		}
		m.Kind = &klinkv1.ServerFrame_Response{Response: p}
	case frame.ServerPush:
		m.Kind = &klinkv1.ServerFrame_Push{Push: pushProto(&s.Push)}
	case frame.ServerGap:
		f := &s.Gap
		m.Kind = &klinkv1.ServerFrame_Gap{Gap: &klinkv1.Gap{Tag: f.Tag, From: f.From, To: f.To, Count: f.Count, Reason: f.Reason}}
	case frame.ServerPing:
		m.Kind = &klinkv1.ServerFrame_Ping{Ping: &klinkv1.Ping{Id: s.Ping.ID}}
	case frame.ServerError:
		f := &s.Error
		m.Kind = &klinkv1.ServerFrame_Error{Error: &klinkv1.Error{Id: f.ID, Code: klinkv1.ErrorCode(f.Code), Text: f.Text, Limit: f.Limit}}
	case frame.ServerDisconnect:
		f := &s.Disconnect
		m.Kind = &klinkv1.ServerFrame_Disconnect{Disconnect: &klinkv1.Disconnect{
			Code: f.Code, Reason: f.Reason, Retry: f.Retry, DelayMs: f.DelayMs, Target: f.Target,
		}}
	default:
		t.Fatalf("kind %d", s.Kind)
	}
	return m
}

// meaning strips from a message what this package does not tell apart: unknown fields, a message within the kind that is there but
// empty, and numbers that are no klink.Code.
func meaning(m protoreflect.Message) {
	m.SetUnknown(nil)
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				meaning(v.List().Get(i).Message())
			}
		case fd.IsList():
		case fd.Message() != nil:
			meaning(v.Message())
			if proto.Size(v.Message().Interface()) == 0 && fd.ContainingOneof() == nil {
				m.Clear(fd)
			}
		case fd.Enum() != nil && fd.Enum().Name() == "ErrorCode":
			if n := v.Enum(); n < 0 || n > 0xffff {
				m.Set(fd, protoreflect.ValueOfEnum(protoreflect.EnumNumber(klink.CodeInternal)))
			}
		}
		return true
	})
}

// sameMeaning compares two messages after [meaning].
func sameMeaning(a, b proto.Message) bool {
	a, b = proto.Clone(a), proto.Clone(b)
	meaning(a.ProtoReflect())
	meaning(b.ProtoReflect())
	return proto.Equal(a, b)
}

// appendClient encodes what c holds.
func appendClient(dst []byte, c *frame.Client) []byte {
	switch c.Kind {
	case frame.KindConnect:
		return frame.AppendConnect(dst, &c.Connect)
	case frame.KindSubscribe:
		return frame.AppendSubscribe(dst, &c.Subscribe)
	case frame.KindUnsubscribe:
		return frame.AppendUnsubscribe(dst, &c.Unsubscribe)
	case frame.KindPublish:
		return frame.AppendPublish(dst, &c.Publish)
	case frame.KindRequest:
		return frame.AppendRequest(dst, &c.Request)
	case frame.KindAck:
		return frame.AppendAck(dst, &c.Ack)
	case frame.KindRefresh:
		return frame.AppendRefresh(dst, &c.Refresh)
	case frame.KindSetHeartbeat:
		return frame.AppendSetHeartbeat(dst, &c.SetHeartbeat)
	case frame.KindPong:
		return frame.AppendPong(dst, &c.Pong)
	case frame.KindBye:
		return frame.AppendBye(dst, &c.Bye)
	default:
		return dst
	}
}

// appendServer encodes what s holds; a push by way of a klink.Push, as a server does.
func appendServer(dst []byte, s *frame.Server) []byte {
	switch s.Kind {
	case frame.ServerConnected:
		return frame.AppendConnected(dst, &s.Connected)
	case frame.ServerSubscribed:
		return frame.AppendSubscribed(dst, &s.Subscribed)
	case frame.ServerTagsChanged:
		return frame.AppendTagsChanged(dst, &s.TagsChanged)
	case frame.ServerPublished:
		return frame.AppendPublished(dst, &s.Published)
	case frame.ServerResponse:
		return frame.AppendResponse(dst, &s.Response)
	case frame.ServerPush:
		p := klinkPush(&s.Push)
		return frame.AppendPush(dst, &p, string(s.Push.Tag))
	case frame.ServerGap:
		return frame.AppendGap(dst, &s.Gap)
	case frame.ServerPing:
		return frame.AppendPing(dst, &s.Ping)
	case frame.ServerError:
		return frame.AppendError(dst, &s.Error)
	case frame.ServerDisconnect:
		return frame.AppendDisconnect(dst, &s.Disconnect)
	default:
		return dst
	}
}

// texts are what random strings are made of.
var texts = []string{"", "a", "room:1", "ü€😀", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "\u2028<&>\ufffd", string(make([]byte, 130)), "lang"}

// fill sets random fields of m; messages are nested as deep as the schema is.
func fill(r *rand.Rand, m protoreflect.Message) {
	fds := m.Descriptor().Fields()
	for i := range fds.Len() {
		fd := fds.Get(i)
		if r.IntN(3) == 0 {
			continue
		}
		if !fd.IsList() {
			m.Set(fd, value(r, fd, m.NewField))
			continue
		}
		l := m.Mutable(fd).List()
		for range r.IntN(4) {
			l.Append(value(r, fd, func(protoreflect.FieldDescriptor) protoreflect.Value { return l.NewElement() }))
		}
	}
}

func value(r *rand.Rand, fd protoreflect.FieldDescriptor, fresh func(protoreflect.FieldDescriptor) protoreflect.Value) protoreflect.Value {
	n := r.Uint64() >> r.IntN(64)
	switch fd.Kind() {
	case protoreflect.MessageKind:
		v := fresh(fd)
		fill(r, v.Message())
		return v
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(texts[r.IntN(len(texts))])
	case protoreflect.BytesKind:
		b := make([]byte, r.IntN(5)*r.IntN(100))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return protoreflect.ValueOfBytes(b)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n&1 == 1)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n % 20))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(n)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	default:
		panic("a kind of field that no test covers: " + fd.Kind().String())
	}
}

// randomFrame sets one random kind of a frame with random content.
func randomFrame(r *rand.Rand, m protoreflect.Message) {
	fds := m.Descriptor().Oneofs().ByName("kind").Fields()
	fd := fds.Get(r.IntN(fds.Len()))
	v := m.NewField(fd)
	fill(r, v.Message())
	m.Set(fd, v)
}
