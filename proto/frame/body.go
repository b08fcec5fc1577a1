package frame

import (
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/klinkio/klink"
)

// Body is the payload of a Publish, Request, Response or Push. Binary with Data nil is no payload at all; Data that is
// empty but not nil is an empty one.
type Body struct {
	Kind klink.DataKind
	Data []byte
}

var (
	errNotText = errors.New("the text is not valid UTF-8")
	errNotJSON = errors.New("the payload is not one JSON value")
	errNoKind  = errors.New("the payload has an unknown kind")
)

// Check reports why the payload can't be sent on: decoding does not look into JSON.
func (b Body) Check() error { return CheckPayload(b.Kind, b.Data) }

// CheckPayload reports why data is no payload of its kind: text that is not UTF-8, JSON that is not one value.
func CheckPayload(kind klink.DataKind, data []byte) error {
	switch kind {
	case klink.DataBinary:
		return nil
	case klink.DataText:
		if !utf8.Valid(data) {
			return errNotText
		}
		return nil
	case klink.DataJSON:
		if !utf8.Valid(data) || !json.Valid(data) { // Valid does not look into strings
			return errNotJSON
		}
		return nil
	default:
		return errNoKind
	}
}

// set takes the current field, one of the three of a body, whose first has the number first: data, text and json
// follow each other in every message.
func (b *Body) set(f *fields, first uint64) {
	b.Kind, b.Data = klink.DataKind(f.key>>3-first), f.val
	if b.Kind != klink.DataBinary {
		f.text()
	}
}
