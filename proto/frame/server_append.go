package frame

import (
	"strings"
	"unicode/utf8"
)

// appendSafe appends a string that may hold parts of an error text or of a name: what is not UTF-8 in it is replaced, since a client would
// refuse the whole frame.
func appendSafe(dst []byte, number byte, s string) []byte { return appendField(dst, number, safe(s)) }

func appendSafeElements(dst []byte, number byte, vs []string) []byte {
	for _, v := range vs {
		dst = appendElement(dst, number, safe(v))
	}
	return dst
}

func safe(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// AppendConnected appends one ServerFrame body.
func AppendConnected(dst []byte, m *Connected) []byte {
	dst, at := open(dst, byte(ServerConnected))
	dst = appendSafe(dst, 1, m.Session)
	dst = appendUint(dst, 2, uint64(m.ServerTimeMs))
	if h := &m.Heartbeat; *h != (Heartbeat{}) {
		var in int
		dst, in = open(dst, 3)
		dst = appendUint(dst, 1, uint64(h.Seconds))
		dst = appendUint(dst, 2, uint64(h.MinSeconds))
		dst = end(appendUint(dst, 3, uint64(h.MaxSeconds)), in)
	}
	if l := &m.Limits; *l != (Limits{}) {
		var in int
		dst, in = open(dst, 4)
		dst = appendUint(dst, 1, uint64(l.FrameBytes))
		dst = appendUint(dst, 2, uint64(l.Tags))
		dst = appendUint(dst, 3, uint64(l.Requests))
		dst = appendUint(dst, 4, uint64(l.QueuedBytes))
		dst = end(appendUint(dst, 5, uint64(l.FramesPerSecond)), in)
	}
	dst = appendSafeElements(dst, 5, m.Capabilities)
	dst = appendUint(dst, 6, uint64(int64(m.Resume)))
	dst = appendSafeElements(dst, 7, m.Endpoints)
	dst = appendBool(dst, 8, m.Provisional)
	dst = appendBool(dst, 9, m.Degraded)
	dst = appendSafe(dst, 10, m.User)
	dst = appendSafe(dst, 11, m.App)
	dst = appendUint(dst, 12, m.Version)
	dst = appendTags(dst, 13, m.Tags)
	return end(appendUint(dst, 14, uint64(m.TokenExpiresMs)), at)
}

func appendTags(dst []byte, number byte, tags []TagResult) []byte {
	for i := range tags {
		t := &tags[i]
		var in int
		dst, in = open(dst, number)
		dst = appendSafe(dst, 1, t.Tag)
		dst = appendUint(dst, 2, uint64(t.Error))
		dst = appendSafe(dst, 3, t.Text)
		dst = appendSafe(dst, 4, t.Epoch)
		dst = appendUint(dst, 5, t.Offset)
		for j := range t.Recovered {
			var push int
			dst, push = open(dst, 6)
			dst = end(t.Recovered[j].append(dst), push)
		}
		dst = end(dst, in)
	}
	return dst
}

// AppendSubscribed appends one ServerFrame body.
func AppendSubscribed(dst []byte, m *Subscribed) []byte {
	dst, at := open(dst, byte(ServerSubscribed))
	dst = appendUint(dst, 1, uint64(m.ID))
	dst = appendTags(dst, 2, m.Tags)
	dst = appendBool(dst, 3, m.Barrier)
	return end(appendBool(dst, 4, m.Left), at)
}

// AppendTagsChanged appends one ServerFrame body.
func AppendTagsChanged(dst []byte, m *TagsChanged) []byte {
	dst, at := open(dst, byte(ServerTagsChanged))
	dst = appendSafeElements(dst, 1, m.Added)
	return end(appendSafeElements(dst, 2, m.Removed), at)
}

// AppendPublished appends one ServerFrame body.
func AppendPublished(dst []byte, m *Published) []byte {
	dst, at := open(dst, byte(ServerPublished))
	dst = appendUint(dst, 1, uint64(m.ID))
	dst = appendSafe(dst, 2, m.Push)
	dst = appendUint(dst, 3, uint64(m.Matched))
	return end(appendUint(dst, 4, uint64(m.Enqueued)), at)
}

// AppendResponse appends one ServerFrame body.
func AppendResponse(dst []byte, m *Response) []byte {
	dst, at := open(dst, byte(ServerResponse))
	dst = appendUint(dst, 1, uint64(m.ID))
	dst = appendUint(dst, 2, uint64(m.Error))
	dst = appendSafe(dst, 3, m.Text)
	return end(appendBody(dst, 4, m.Body.Kind, m.Body.Data), at)
}

// AppendGap appends one ServerFrame body.
func AppendGap(dst []byte, m *Gap) []byte {
	dst, at := open(dst, byte(ServerGap))
	dst = appendSafe(dst, 1, m.Tag)
	dst = appendUint(dst, 2, m.From)
	dst = appendUint(dst, 3, m.To)
	dst = appendUint(dst, 4, uint64(m.Count))
	return end(appendSafe(dst, 5, m.Reason), at)
}

// AppendPing appends one ServerFrame body.
func AppendPing(dst []byte, m *Ping) []byte {
	dst, at := open(dst, byte(ServerPing))
	return end(appendUint(dst, 1, m.ID), at)
}

// AppendError appends one ServerFrame body.
func AppendError(dst []byte, m *Error) []byte {
	dst, at := open(dst, byte(ServerError))
	dst = appendUint(dst, 1, uint64(m.ID))
	dst = appendUint(dst, 2, uint64(m.Code))
	dst = appendSafe(dst, 3, m.Text)
	return end(appendSafe(dst, 4, m.Limit), at)
}

// AppendDisconnect appends one ServerFrame body.
func AppendDisconnect(dst []byte, m *Disconnect) []byte {
	dst, at := open(dst, byte(ServerDisconnect))
	dst = appendUint(dst, 1, uint64(m.Code))
	dst = appendSafe(dst, 2, m.Reason)
	dst = appendBool(dst, 3, m.Retry)
	dst = appendUint(dst, 4, uint64(m.DelayMs))
	return end(appendSafe(dst, 5, m.Target), at)
}
