package frame

// ErrDeep lets the comparison with the generated code know where this package is narrower on purpose.
var ErrDeep = errDeep

// BufferOf is the size of a reader's buffer.
func BufferOf(r *Reader) int { return len(r.buf) }
