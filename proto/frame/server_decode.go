package frame

import (
	"fmt"

	"github.com/klinkio/klink"
)

// Decode reads one ServerFrame. Byte slices in s alias body; they and the slices of s are valid until body changes or s decodes another. A
// frame without a known kind has [ServerUnknown]. After an error s means nothing: a *[TooMany] when a bound was broken, else
// the bytes are no ServerFrame. A number that is no klink.Code reads as klink.CodeInternal.
func (s *Server) Decode(body []byte) error {
	s.Kind = ServerPong
	if len(body) == 0 {
		return nil
	}
	s.Kind = ServerUnknown
	f := fields{rest: body}
	for f.next() {
		n := f.key >> 3
		if f.key&7 != wireBytes || n > uint64(ServerDisconnect) {
			continue
		}
		kind := ServerKind(n)
		if kind != s.Kind {
			s.reset(kind)
		}
		if err := s.message(f.val); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return f.err
}

// reset makes the struct of a kind empty and keeps the room of its slices.
func (s *Server) reset(kind ServerKind) {
	s.Kind = kind
	s.recovered = 0
	switch kind {
	case ServerConnected:
		c := &s.Connected
		*c = Connected{Capabilities: c.Capabilities[:0], Endpoints: c.Endpoints[:0], Tags: c.Tags[:0]}
	case ServerSubscribed:
		s.Subscribed = Subscribed{Tags: s.Subscribed.Tags[:0]}
	case ServerTagsChanged:
		s.TagsChanged = TagsChanged{Added: s.TagsChanged.Added[:0], Removed: s.TagsChanged.Removed[:0]}
	case ServerPublished:
		s.Published = Published{}
	case ServerResponse:
		s.Response = Response{}
	case ServerPush:
		s.Push = Push{}
	case ServerGap:
		s.Gap = Gap{}
	case ServerPing:
		s.Ping = Ping{}
	case ServerError:
		s.Error = Error{}
	case ServerDisconnect:
		s.Disconnect = Disconnect{}
	}
}

// message merges an encoded message into the struct of s.Kind.
func (s *Server) message(b []byte) error {
	f := fields{rest: b}
	switch s.Kind {
	case ServerConnected:
		s.mergeConnected(&f)
	case ServerSubscribed:
		s.mergeSubscribed(&f)
	case ServerTagsChanged:
		s.TagsChanged.merge(&f, &s.Bounds)
	case ServerPublished:
		s.Published.merge(&f)
	case ServerResponse:
		s.Response.merge(&f)
	case ServerPush:
		s.Push.merge(&f)
	case ServerGap:
		s.Gap.merge(&f)
	case ServerPing:
		s.Ping.merge(&f)
	case ServerError:
		s.Error.merge(&f)
	case ServerDisconnect:
		s.Disconnect.merge(&f)
	}
	return f.err
}

// code is the value of a field of type ErrorCode.
func (f *fields) code() klink.Code {
	if v := int32(f.num); v >= 0 && v <= 0xffff {
		return klink.Code(v)
	}
	return klink.CodeInternal
}

func (s *Server) mergeConnected(f *fields) {
	m := &s.Connected
	for f.next() {
		switch f.key {
		case 1<<3 | wireBytes:
			m.Session = f.str()
		case 2<<3 | wireVarint:
			m.ServerTimeMs = int64(f.num)
		case 3<<3 | wireBytes:
			sub := fields{rest: f.val}
			m.Heartbeat.merge(&sub)
			f.err = sub.err
		case 4<<3 | wireBytes:
			sub := fields{rest: f.val}
			m.Limits.merge(&sub)
			f.err = sub.err
		case 5<<3 | wireBytes:
			if f.room(len(m.Capabilities), s.Bounds.Capabilities, maxCapabilities, "capabilities") {
				m.Capabilities = append(m.Capabilities, f.str())
			}
		case 6<<3 | wireVarint:
			m.Resume = ResumeOutcome(f.num)
		case 7<<3 | wireBytes:
			if f.room(len(m.Endpoints), s.Bounds.Endpoints, maxEndpoints, "endpoints") {
				m.Endpoints = append(m.Endpoints, f.str())
			}
		case 8<<3 | wireVarint:
			m.Provisional = f.num != 0
		case 9<<3 | wireVarint:
			m.Degraded = f.num != 0
		case 10<<3 | wireBytes:
			m.User = f.str()
		case 11<<3 | wireBytes:
			m.App = f.str()
		case 12<<3 | wireVarint:
			m.Version = f.num
		case 13<<3 | wireBytes:
			m.Tags = s.appendTag(m.Tags, f)
		case 14<<3 | wireVarint:
			m.TokenExpiresMs = int64(f.num)
		}
	}
}

func (m *Heartbeat) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireVarint:
			m.Seconds = uint32(f.num)
		case 2<<3 | wireVarint:
			m.MinSeconds = uint32(f.num)
		case 3<<3 | wireVarint:
			m.MaxSeconds = uint32(f.num)
		}
	}
}

func (m *Limits) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireVarint:
			m.FrameBytes = uint32(f.num)
		case 2<<3 | wireVarint:
			m.Tags = uint32(f.num)
		case 3<<3 | wireVarint:
			m.Requests = uint32(f.num)
		case 4<<3 | wireVarint:
			m.QueuedBytes = uint32(f.num)
		case 5<<3 | wireVarint:
			m.FramesPerSecond = uint32(f.num)
		}
	}
}

func (s *Server) mergeSubscribed(f *fields) {
	m := &s.Subscribed
	for f.next() {
		switch f.key {
		case 1<<3 | wireVarint:
			m.ID = uint32(f.num)
		case 2<<3 | wireBytes:
			m.Tags = s.appendTag(m.Tags, f)
		case 3<<3 | wireVarint:
			m.Barrier = f.num != 0
		case 4<<3 | wireVarint:
			m.Left = f.num != 0
		}
	}
}

// appendTag reads the current field of f as one more TagResult.
func (s *Server) appendTag(tags []TagResult, f *fields) []TagResult {
	if !f.room(len(tags), s.Bounds.Tags, maxServerTags, "tags") {
		return tags
	}
	tags = grow(tags)
	m := &tags[len(tags)-1]
	*m = TagResult{Recovered: m.Recovered[:0]}
	sub := fields{rest: f.val}
	for sub.next() {
		switch sub.key {
		case 1<<3 | wireBytes:
			m.Tag = sub.str()
		case 2<<3 | wireVarint:
			m.Error = sub.code()
		case 3<<3 | wireBytes:
			m.Text = sub.str()
		case 4<<3 | wireBytes:
			m.Epoch = sub.str()
		case 5<<3 | wireVarint:
			m.Offset = sub.num
		case 6<<3 | wireBytes:
			if sub.room(s.recovered, s.Bounds.Recovered, maxRecovered, "recovered pushes") {
				s.recovered++
				m.Recovered = append(m.Recovered, Push{})
				in := fields{rest: sub.val}
				m.Recovered[len(m.Recovered)-1].merge(&in)
				sub.err = in.err
			}
		}
	}
	f.err = sub.err
	return tags
}

func (m *TagsChanged) merge(f *fields, lim *Bounds) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireBytes:
			if f.room(len(m.Added), lim.Tags, maxServerTags, "tags") {
				m.Added = append(m.Added, f.str())
			}
		case 2<<3 | wireBytes:
			if f.room(len(m.Removed), lim.Tags, maxServerTags, "tags") {
				m.Removed = append(m.Removed, f.str())
			}
		}
	}
}

func (m *Published) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireVarint:
			m.ID = uint32(f.num)
		case 2<<3 | wireBytes:
			m.Push = f.str()
		case 3<<3 | wireVarint:
			m.Matched = uint32(f.num)
		case 4<<3 | wireVarint:
			m.Enqueued = uint32(f.num)
		}
	}
}

func (m *Response) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireVarint:
			m.ID = uint32(f.num)
		case 2<<3 | wireVarint:
			m.Error = f.code()
		case 3<<3 | wireBytes:
			m.Text = f.str()
		case 4<<3 | wireBytes, 5<<3 | wireBytes, 6<<3 | wireBytes:
			m.Body.set(f, 4)
		}
	}
}

func (m *Push) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireBytes:
			m.ID = f.text()
		case 2<<3 | wireBytes:
			m.Tag = f.text()
		case 3<<3 | wireBytes:
			m.From = f.text()
		case 4<<3 | wireBytes, 5<<3 | wireBytes, 6<<3 | wireBytes:
			m.Body.set(f, 4)
		case 7<<3 | wireVarint:
			m.TimeMs = int64(f.num)
		case 8<<3 | wireBytes:
			m.CollapseKey = f.text()
		case 9<<3 | wireBytes:
			m.Expr = f.text()
		}
	}
}

func (m *Gap) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireBytes:
			m.Tag = f.str()
		case 2<<3 | wireVarint:
			m.From = f.num
		case 3<<3 | wireVarint:
			m.To = f.num
		case 4<<3 | wireVarint:
			m.Count = uint32(f.num)
		case 5<<3 | wireBytes:
			m.Reason = f.str()
		}
	}
}

func (m *Ping) merge(f *fields) {
	for f.next() {
		if f.key == 1<<3|wireVarint {
			m.ID = f.num
		}
	}
}

func (m *Error) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireVarint:
			m.ID = uint32(f.num)
		case 2<<3 | wireVarint:
			m.Code = f.code()
		case 3<<3 | wireBytes:
			m.Text = f.str()
		case 4<<3 | wireBytes:
			m.Limit = f.str()
		}
	}
}

func (m *Disconnect) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireVarint:
			m.Code = uint32(f.num)
		case 2<<3 | wireBytes:
			m.Reason = f.str()
		case 3<<3 | wireVarint:
			m.Retry = f.num != 0
		case 4<<3 | wireVarint:
			m.DelayMs = uint32(f.num)
		case 5<<3 | wireBytes:
			m.Target = f.str()
		}
	}
}
