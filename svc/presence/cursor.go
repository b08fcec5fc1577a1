package presence

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/klinkio/klink"
)

// ErrCursor says that a cursor of Members is none that this service gave.
var ErrCursor = klink.Errorf(klink.CodeInvalid, "the cursor is not one that was given out, or its front end is gone: begin again without one")

// A cursor is the front end's own cursor and its id, so that it holds when others come and go.
func formatCursor(fe string, at uint64) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(fe)), at)
	return base64.RawURLEncoding.EncodeToString(append(b, fe...))
}

// maxCursor bounds a cursor in bytes before it is decoded.
const maxCursor = 512

func parseCursor(s string, fes []FrontEnd) (fe int, at uint64, err error) {
	if s == "" {
		return 0, 0, nil
	}
	if len(s) > maxCursor {
		return 0, 0, ErrCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) < 9 {
		return 0, 0, ErrCursor
	}
	for i := range fes {
		if fes[i].ID() == string(b[8:]) {
			return i, binary.BigEndian.Uint64(b), nil
		}
	}
	return 0, 0, ErrCursor
}
