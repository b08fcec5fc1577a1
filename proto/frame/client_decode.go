package frame

import "fmt"

// Decode reads one ClientFrame. Byte slices in c alias body; c is valid until body changes or c decodes another. A frame without a known
// kind has [KindUnknown]. An error is a *[TooMany] when a bound was broken: then
// Kind and the ID, if it came before the list, are right; else the bytes are no ClientFrame, and c means nothing.
func (c *Client) Decode(body []byte) error {
	c.Kind = KindPing
	if len(body) == 0 {
		return nil
	}
	c.Kind = KindUnknown
	f := fields{rest: body}
	for f.next() {
		n := f.key >> 3
		if f.key&7 != wireBytes || n > uint64(KindBye) {
			continue
		}
		kind := Kind(n)
		if kind != c.Kind {
			c.reset(kind)
		}
		if err := c.message(f.val); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return f.err
}

// reset makes the struct of a kind empty and keeps the room of its slices.
func (c *Client) reset(kind Kind) {
	c.Kind = kind
	switch kind {
	case KindConnect:
		c.Connect = Connect{Capabilities: c.Connect.Capabilities[:0], Tags: c.Connect.Tags[:0]}
	case KindSubscribe:
		c.Subscribe = Subscribe{Tags: c.Subscribe.Tags[:0]}
	case KindUnsubscribe:
		c.Unsubscribe = Unsubscribe{Tags: c.Unsubscribe.Tags[:0]}
	case KindPublish:
		c.Publish = Publish{}
	case KindRequest:
		c.Request = Request{}
	case KindAck:
		c.Ack = Ack{}
	case KindRefresh:
		c.Refresh = Refresh{}
	case KindSetHeartbeat:
		c.SetHeartbeat = SetHeartbeat{}
	case KindPong:
		c.Pong = Pong{}
	case KindBye:
		c.Bye = Bye{}
	}
}

// message merges an encoded message into the struct of c.Kind.
func (c *Client) message(b []byte) error {
	f := fields{rest: b}
	switch c.Kind {
	case KindConnect:
		c.Connect.merge(&f, &c.Bounds)
	case KindSubscribe:
		c.Subscribe.merge(&f, &c.Bounds)
	case KindUnsubscribe:
		c.Unsubscribe.merge(&f, &c.Bounds)
	case KindPublish:
		c.Publish.merge(&f)
	case KindRequest:
		c.Request.merge(&f)
	case KindAck:
		c.Ack.merge(&f)
	case KindRefresh:
		c.Refresh.merge(&f)
	case KindSetHeartbeat:
		c.SetHeartbeat.merge(&f)
	case KindPong:
		c.Pong.merge(&f)
	case KindBye:
		c.Bye.merge(&f)
	}
	return f.err
}

func (m *Connect) merge(f *fields, lim *Bounds) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireBytes:
			m.Token = f.text()
		case 2<<3 | wireBytes:
			m.Device = f.text()
		case 3<<3 | wireVarint:
			m.Attempt = f.num
		case 4<<3 | wireBytes:
			sub := fields{rest: f.val}
			m.Client.merge(&sub)
			f.err = sub.err
		case 5<<3 | wireBytes:
			if f.room(len(m.Capabilities), lim.Capabilities, maxCapabilities, "capabilities") {
				m.Capabilities = append(m.Capabilities, f.text())
			}
		case 6<<3 | wireBytes:
			sub := fields{rest: f.val}
			m.Resume.merge(&sub)
			f.err = sub.err
		case 7<<3 | wireBytes:
			if f.room(len(m.Tags), lim.Tags, maxClientTags, "tags") {
				m.Tags = append(m.Tags, f.text())
			}
		case 8<<3 | wireVarint:
			m.HeartbeatSeconds = uint32(f.num)
		case 9<<3 | wireVarint:
			m.Background = f.num != 0
		}
	}
}

func (m *ClientInfo) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireBytes:
			m.Name = f.text()
		case 2<<3 | wireBytes:
			m.Version = f.text()
		case 3<<3 | wireBytes:
			m.Platform = f.text()
		case 4<<3 | wireBytes:
			m.AppVersion = f.text()
		}
	}
}

func (m *Resume) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireBytes:
			m.Session = f.text()
		case 2<<3 | wireVarint:
			m.Inbox = f.num
		case 3<<3 | wireBytes:
			m.InboxEpoch = f.text()
		case 4<<3 | wireBytes:
			m.Nonce = f.val
		case 5<<3 | wireVarint:
			m.AgeMs = uint32(f.num)
		}
	}
}

func (m *Subscribe) merge(f *fields, lim *Bounds) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireVarint:
			m.ID = uint32(f.num)
		case 2<<3 | wireBytes:
			if !f.room(len(m.Tags), lim.Tags, maxClientTags, "tags") {
				return
			}
			m.Tags = append(m.Tags, TagPosition{})
			sub := fields{rest: f.val}
			m.Tags[len(m.Tags)-1].merge(&sub)
			f.err = sub.err
		}
	}
}

func (m *TagPosition) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireBytes:
			m.Tag = f.text()
		case 2<<3 | wireBytes:
			m.Epoch = f.text()
		case 3<<3 | wireVarint:
			m.Offset = f.num
		}
	}
}

func (m *Unsubscribe) merge(f *fields, lim *Bounds) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireVarint:
			m.ID = uint32(f.num)
		case 2<<3 | wireBytes:
			if f.room(len(m.Tags), lim.Tags, maxClientTags, "tags") {
				m.Tags = append(m.Tags, f.text())
			}
		}
	}
}

func (m *Publish) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireVarint:
			m.ID = uint32(f.num)
		case 2<<3 | wireBytes:
			m.Tag = f.text()
		case 3<<3 | wireBytes, 4<<3 | wireBytes, 5<<3 | wireBytes:
			m.Body.set(f, 3)
		case 6<<3 | wireBytes:
			m.IdempotencyKey = f.text()
		case 7<<3 | wireBytes:
			m.CollapseKey = f.text()
		case 8<<3 | wireVarint:
			m.Droppable = f.num != 0
		}
	}
}

func (m *Request) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireVarint:
			m.ID = uint32(f.num)
		case 2<<3 | wireBytes:
			m.Service = f.text()
		case 3<<3 | wireBytes:
			m.Method = f.text()
		case 4<<3 | wireBytes, 5<<3 | wireBytes, 6<<3 | wireBytes:
			m.Body.set(f, 4)
		case 7<<3 | wireVarint:
			m.DeadlineMs = uint32(f.num)
		}
	}
}

func (m *Ack) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireVarint:
			m.Inbox = f.num
		case 2<<3 | wireBytes:
			m.InboxEpoch = f.text()
		}
	}
}

func (m *Refresh) merge(f *fields) {
	for f.next() {
		switch f.key {
		case 1<<3 | wireVarint:
			m.ID = uint32(f.num)
		case 2<<3 | wireBytes:
			m.Token = f.text()
		}
	}
}

func (m *SetHeartbeat) merge(f *fields) {
	for f.next() {
		if f.key == 1<<3|wireVarint {
			m.Seconds = uint32(f.num)
		}
	}
}

func (m *Pong) merge(f *fields) {
	for f.next() {
		if f.key == 1<<3|wireVarint {
			m.ID = f.num
		}
	}
}

func (m *Bye) merge(f *fields) {
	for f.next() {
		if f.key == 1<<3|wireBytes {
			m.Reason = f.text()
		}
	}
}
