package frame

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

// DecodeJSON reads the JSON text of one ClientFrame as protojson defines it; members that are unknown are skipped. The empty object is
// the heartbeat. c is valid until it decodes another frame and does not alias text. It allocates.
func (c *Client) DecodeJSON(text []byte) error {
	var m klinkv1.ClientFrame
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: 16}).Unmarshal(text, &m); err != nil {
		return fmt.Errorf("not a frame in JSON: %w", err)
	}
	var err error
	if c.text, err = (proto.MarshalOptions{}).MarshalAppend(c.text[:0], &m); err != nil {
		return fmt.Errorf("frame in JSON: %w", err)
	}
	if err = c.Decode(c.text); err != nil {
		return err
	}
	if c.Kind == KindPing && !emptyObject(text) {
		c.Kind = KindUnknown
	}
	return nil
}

// emptyObject reports whether a JSON object, known to be one, has no members.
func emptyObject(text []byte) bool {
	text = bytes.Trim(text, " \t\r\n")
	return len(bytes.Trim(text[1:len(text)-1], " \t\r\n")) == 0
}
