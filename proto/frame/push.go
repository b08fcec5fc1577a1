package frame

import (
	"encoding/binary"

	"github.com/klinkio/klink"
)

// AppendPush appends one ServerFrame body: p as members of tag get it, or without a tag. The identifiers and the payload of p must
// have been checked (klink.CheckID, [CheckPayload]).
func AppendPush(dst []byte, p *klink.Push, tag string) []byte {
	size := pushSize(p, len(tag))
	dst = append(dst, byte(ServerPush)<<3|wireBytes)
	dst = binary.AppendUvarint(dst, uint64(size))
	dst = appendField(dst, 1, p.ID)
	dst = appendField(dst, 2, tag)
	dst = appendField(dst, 3, p.From)
	dst = appendBody(dst, 4, p.Payload.Kind, p.Payload.Data)
	dst = appendUint(dst, 7, uint64(acceptedMs(p)))
	dst = appendField(dst, 8, p.CollapseKey)
	return appendField(dst, 9, p.To.Expr)
}

// PushSize is the most bytes that [AppendPush] appends for p, with any tag of p's or without.
func PushSize(p *klink.Push) int {
	tag := 0
	for _, t := range p.To.Tags {
		tag = max(tag, len(t))
	}
	return sizeField(pushSize(p, tag))
}

// pushSize is the size of the Push message with a tag of n bytes.
func pushSize(p *klink.Push, n int) int {
	size := 0
	for _, l := range [...]int{len(p.ID), n, len(p.From), len(p.CollapseKey), len(p.To.Expr)} {
		if l > 0 {
			size += sizeField(l)
		}
	}
	if p.Payload.Kind != klink.DataBinary || p.Payload.Data != nil {
		size += sizeField(len(p.Payload.Data))
	}
	if ms := acceptedMs(p); ms != 0 {
		size += 1 + sizeVarint(uint64(ms))
	}
	return size
}

func acceptedMs(p *klink.Push) int64 {
	if p.Accepted.IsZero() {
		return 0
	}
	return p.Accepted.UnixMilli()
}

// append appends the fields of the message.
func (m *Push) append(dst []byte) []byte {
	dst = appendField(dst, 1, m.ID)
	dst = appendField(dst, 2, m.Tag)
	dst = appendField(dst, 3, m.From)
	dst = appendBody(dst, 4, m.Body.Kind, m.Body.Data)
	dst = appendUint(dst, 7, uint64(m.TimeMs))
	dst = appendField(dst, 8, m.CollapseKey)
	return appendField(dst, 9, m.Expr)
}
