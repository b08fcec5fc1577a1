package frame

import (
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

// ServerJSON is the text form of an encoded ServerFrame. A body that is none becomes an Error frame.
func ServerJSON(body []byte) []byte {
	var m klinkv1.ServerFrame
	if err := proto.Unmarshal(body, &m); err != nil {
		return []byte(`{"error":{"code":"INTERNAL","text":"a frame could not be put into JSON"}}`)
	}
	out, err := protojson.Marshal(&m)
	if err != nil {
		return []byte(`{"error":{"code":"INTERNAL","text":"a frame could not be put into JSON"}}`)
	}
	return out
}
