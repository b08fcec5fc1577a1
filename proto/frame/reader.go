package frame

import (
	"errors"
	"io"
)

const (
	readerStart = 4 << 10 // bytes of a new reader's buffer
	maxIdle     = 100     // reads without a byte or an error, one after the other
)

// Reader takes bodies out of a byte stream. Its buffer grows with the frames that come, to their limit plus the prefix.
// A Reader belongs to one goroutine.
type Reader struct {
	r     io.Reader
	limit int

	buf  []byte
	from int   // of what was read and not handed out yet: buf[from:to]
	to   int   //
	err  error // of r, told after the frames before it
}

// NewReader makes a reader of bodies of at most limit bytes.
func NewReader(r io.Reader, limit int) *Reader { return &Reader{r: r, limit: limit} }

// Next returns the next body, valid until the next call, possibly empty. The error is io.EOF when the stream ended between two frames,
// io.ErrUnexpectedEOF within one, *[TooLarge] or [ErrPrefix] when it can't go on, else the stream's own. It stays.
func (r *Reader) Next() ([]byte, error) {
	for {
		n, hdr, err := Length(r.buf[r.from:r.to], r.limit)
		if err != nil {
			return nil, err
		}
		if hdr > 0 && r.to-r.from-hdr >= n {
			at := r.from + hdr
			r.from = at + n
			return r.buf[at:r.from:r.from], nil
		}
		if r.err != nil {
			if errors.Is(r.err, io.EOF) && r.from < r.to {
				return nil, io.ErrUnexpectedEOF
			}
			return nil, r.err
		}
		r.room(hdr + max(n, 0))
		r.fill()
	}
}

// room makes space to read at least one byte more of a frame of size bytes with its prefix. size is too small while the prefix is not whole.
func (r *Reader) room(size int) {
	if r.from == r.to {
		r.from, r.to = 0, 0
	}
	size = max(size, r.to-r.from+1)
	if r.from+size <= len(r.buf) {
		return
	}
	if size <= len(r.buf) {
		r.to = copy(r.buf, r.buf[r.from:r.to])
		r.from = 0
		return
	}
	next := max(readerStart, len(r.buf))
	for next < size {
		next *= 2
	}
	buf := make([]byte, min(next, max(size, r.limit+5)))
	r.to = copy(buf, r.buf[r.from:r.to])
	r.from, r.buf = 0, buf
}

// fill reads once, or until something comes.
func (r *Reader) fill() {
	for range maxIdle {
		n, err := r.r.Read(r.buf[r.to:])
		r.to += n
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}
