package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// MaxBody is the default limit of a body from a client in bytes. The limit in force is stated in Connected.
const MaxBody = 64 << 10

// ErrPrefix says that a length is not written in the fewest bytes. There is one way to write each length, so that
// no two readers disagree about where a frame begins.
var ErrPrefix = errors.New("the length of a frame is written in more bytes than it needs")

// TooLarge is the error of a frame that says it is larger than its reader takes.
type TooLarge struct {
	Size uint64 // bytes; at least so many when the length was not read to its end
	Max  int
}

func (e *TooLarge) Error() string {
	return fmt.Sprintf("a frame of at least %d bytes, limit %d", e.Size, e.Max)
}

// Length reads the length prefix at the start of in. A whole prefix gives the size n of the body and the size hdr of the prefix; the body
// may not be there yet. When in ends within the prefix it returns -1, 0, nil. A length above limit is a *[TooLarge], at the first byte that
// makes it certain; one that is not minimal is [ErrPrefix]; the stream can't go on after either. limit is in bytes, from 0 to 2^31-1.
func Length(in []byte, limit int) (n, hdr int, err error) {
	limit = min(limit, math.MaxInt32)
	var v uint64
	for i, b := range in {
		v |= uint64(b&0x7f) << (7 * i)
		if b >= 0x80 {
			// More follows, and its last byte is not zero. So five bytes are always enough to know.
			if least := v + 1<<(7*(i+1)); least > uint64(limit) {
				return 0, 0, &TooLarge{least, limit}
			}
			continue
		}
		switch {
		case b == 0 && i > 0:
			return 0, 0, ErrPrefix
		case v > uint64(limit):
			return 0, 0, &TooLarge{v, limit}
		}
		return int(v), i + 1, nil
	}
	return -1, 0, nil
}

// AppendStream appends a body the way a byte stream carries it: length, then body.
func AppendStream(dst, body []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(body))), body...)
}
