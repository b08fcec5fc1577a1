package link

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/klinkio/klink/proto/frame"
	"github.com/klinkio/klink/proto/wsframe"
)

// Frame is one outbound frame, or a batch of them that leaves in one write. It is made once and shared by
// every connection that it goes to, on all loops. The bytes of each wire form are built at first need.
type Frame struct {
	body  []byte   // one encoded ServerFrame; nil for a batch
	parts []*Frame // of a batch
	forms [NumForms]atomic.Pointer[[]byte]
}

// NewFrame makes a frame of an encoded klinkv1.ServerFrame. It keeps body, which must not change any more.
// An empty body is the pong.
func NewFrame(body []byte) *Frame { return &Frame{body: body} }

// NewBatch joins frames so that one write carries them all. It keeps parts.
func NewBatch(parts []*Frame) *Frame {
	if len(parts) == 1 {
		return parts[0]
	}
	return &Frame{parts: parts}
}

// Parts are the frames of a batch, nil for a single frame.
func (f *Frame) Parts() []*Frame { return f.parts }

// Body is the encoded ServerFrame of a single frame.
func (f *Frame) Body() []byte { return f.body }

// Bytes is the frame in a wire form. The bytes are shared: never write to them. Goroutines that race to be first
// may build them twice; one of the equal results is kept.
func (f *Frame) Bytes(form Form) []byte {
	if p := f.forms[form].Load(); p != nil {
		return *p
	}
	var b []byte
	if f.parts != nil {
		n := 0
		for _, p := range f.parts {
			n += len(p.Bytes(form))
		}
		b = make([]byte, 0, n)
		for _, p := range f.parts {
			b = append(b, p.Bytes(form)...)
		}
	} else {
		b = AppendForm(nil, form, f.body)
	}
	if f.forms[form].CompareAndSwap(nil, &b) {
		return b
	}
	return *f.forms[form].Load()
}

// AppendForm appends one ServerFrame body in a wire form to dst.
func AppendForm(dst []byte, form Form, body []byte) []byte {
	switch form {
	case FormWSBinary:
		dst = wsframe.AppendHeader(dst, wsframe.OpBinary, len(body))
		return append(dst, body...)
	case FormWSJSON:
		text := frame.ServerJSON(body)
		dst = wsframe.AppendHeader(dst, wsframe.OpText, len(text))
		return append(dst, text...)
	default:
		dst = binary.AppendUvarint(dst, uint64(len(body)))
		return append(dst, body...)
	}
}
