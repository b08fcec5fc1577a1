package frame

// AppendConnect appends one ClientFrame body.
func AppendConnect(dst []byte, m *Connect) []byte {
	dst, at := open(dst, byte(KindConnect))
	dst = appendField(dst, 1, m.Token)
	dst = appendField(dst, 2, m.Device)
	dst = appendUint(dst, 3, m.Attempt)
	if c := &m.Client; len(c.Name)+len(c.Version)+len(c.Platform)+len(c.AppVersion) > 0 {
		var in int
		dst, in = open(dst, 4)
		dst = appendField(dst, 1, c.Name)
		dst = appendField(dst, 2, c.Version)
		dst = appendField(dst, 3, c.Platform)
		dst = end(appendField(dst, 4, c.AppVersion), in)
	}
	dst = appendElements(dst, 5, m.Capabilities)
	if r := &m.Resume; len(r.Session)+len(r.InboxEpoch)+len(r.Nonce) > 0 || r.Inbox|uint64(r.AgeMs) != 0 {
		var in int
		dst, in = open(dst, 6)
		dst = appendField(dst, 1, r.Session)
		dst = appendUint(dst, 2, r.Inbox)
		dst = appendField(dst, 3, r.InboxEpoch)
		dst = appendField(dst, 4, r.Nonce)
		dst = end(appendUint(dst, 5, uint64(r.AgeMs)), in)
	}
	dst = appendElements(dst, 7, m.Tags)
	dst = appendUint(dst, 8, uint64(m.HeartbeatSeconds))
	return end(appendBool(dst, 9, m.Background), at)
}

// AppendSubscribe appends one ClientFrame body.
func AppendSubscribe(dst []byte, m *Subscribe) []byte {
	dst, at := open(dst, byte(KindSubscribe))
	dst = appendUint(dst, 1, uint64(m.ID))
	for i := range m.Tags {
		t := &m.Tags[i]
		var in int
		dst, in = open(dst, 2)
		dst = appendField(dst, 1, t.Tag)
		dst = appendField(dst, 2, t.Epoch)
		dst = end(appendUint(dst, 3, t.Offset), in)
	}
	return end(dst, at)
}

// AppendUnsubscribe appends one ClientFrame body.
func AppendUnsubscribe(dst []byte, m *Unsubscribe) []byte {
	dst, at := open(dst, byte(KindUnsubscribe))
	dst = appendUint(dst, 1, uint64(m.ID))
	return end(appendElements(dst, 2, m.Tags), at)
}

// AppendPublish appends one ClientFrame body.
func AppendPublish(dst []byte, m *Publish) []byte {
	dst, at := open(dst, byte(KindPublish))
	dst = appendUint(dst, 1, uint64(m.ID))
	dst = appendField(dst, 2, m.Tag)
	dst = appendBody(dst, 3, m.Body.Kind, m.Body.Data)
	dst = appendField(dst, 6, m.IdempotencyKey)
	dst = appendField(dst, 7, m.CollapseKey)
	return end(appendBool(dst, 8, m.Droppable), at)
}

// AppendRequest appends one ClientFrame body.
func AppendRequest(dst []byte, m *Request) []byte {
	dst, at := open(dst, byte(KindRequest))
	dst = appendUint(dst, 1, uint64(m.ID))
	dst = appendField(dst, 2, m.Service)
	dst = appendField(dst, 3, m.Method)
	dst = appendBody(dst, 4, m.Body.Kind, m.Body.Data)
	return end(appendUint(dst, 7, uint64(m.DeadlineMs)), at)
}

// AppendAck appends one ClientFrame body.
func AppendAck(dst []byte, m *Ack) []byte {
	dst, at := open(dst, byte(KindAck))
	dst = appendUint(dst, 1, m.Inbox)
	return end(appendField(dst, 2, m.InboxEpoch), at)
}

// AppendRefresh appends one ClientFrame body.
func AppendRefresh(dst []byte, m *Refresh) []byte {
	dst, at := open(dst, byte(KindRefresh))
	dst = appendUint(dst, 1, uint64(m.ID))
	return end(appendField(dst, 2, m.Token), at)
}

// AppendSetHeartbeat appends one ClientFrame body.
func AppendSetHeartbeat(dst []byte, m *SetHeartbeat) []byte {
	dst, at := open(dst, byte(KindSetHeartbeat))
	return end(appendUint(dst, 1, uint64(m.Seconds)), at)
}

// AppendPong appends one ClientFrame body.
func AppendPong(dst []byte, m *Pong) []byte {
	dst, at := open(dst, byte(KindPong))
	return end(appendUint(dst, 1, m.ID), at)
}

// AppendBye appends one ClientFrame body.
func AppendBye(dst []byte, m *Bye) []byte {
	dst, at := open(dst, byte(KindBye))
	return end(appendField(dst, 1, m.Reason), at)
}
