package netloop

import "math/bits"

// bufRef names a buffer of a [bufTable]; 0: none.
type bufRef uint32

const (
	minClass = 6 // 64 B
	maxKept  = 1 << 20
)

// bufTable holds the buffers of a loop's connections that have something unfinished. Arrays come in powers of two and are kept for
// reuse up to a bound.
type bufTable struct {
	all  [][]byte
	refs []bufRef     // free entries of all
	free [32][][]byte // by class
	kept int          // bytes in free
	used int64        // bytes of the arrays in use
}

func classOf(n int) int {
	if n <= 1<<minClass {
		return minClass
	}
	return bits.Len(uint(n - 1))
}

func (t *bufTable) array(n int) []byte {
	c := classOf(n)
	t.used += 1 << c
	if k := len(t.free[c]); k > 0 {
		b := t.free[c][k-1]
		t.free[c] = t.free[c][:k-1]
		t.kept -= 1 << c
		return b[:0]
	}
	return make([]byte, 0, 1<<c)
}

func (t *bufTable) release(b []byte) {
	c := classOf(cap(b))
	t.used -= 1 << c
	if t.kept+1<<c <= maxKept {
		t.free[c] = append(t.free[c], b)
		t.kept += 1 << c
	}
}

// put makes a buffer with a copy of p, with room for n bytes at least.
func (t *bufTable) put(p []byte, n int) bufRef {
	b := append(t.array(max(n, len(p))), p...)
	if k := len(t.refs); k > 0 {
		r := t.refs[k-1]
		t.refs = t.refs[:k-1]
		t.all[r-1] = b
		return r
	}
	t.all = append(t.all, b)
	return bufRef(len(t.all))
}

func (t *bufTable) get(r bufRef) []byte {
	if r == 0 {
		return nil
	}
	return t.all[r-1]
}

// add appends p to the buffer r, which may be 0, and returns its name.
func (t *bufTable) add(r bufRef, p []byte) bufRef {
	if r == 0 {
		return t.put(p, len(p))
	}
	b := t.all[r-1]
	if len(b)+len(p) > cap(b) {
		grown := append(t.array(len(b)+len(p)), b...)
		t.release(b)
		b = grown
	}
	t.all[r-1] = append(b, p...)
	return r
}

// cut drops the first n bytes.
func (t *bufTable) cut(r bufRef, n int) {
	b := t.all[r-1]
	t.all[r-1] = b[:copy(b, b[n:])]
}

// drop frees the buffer. Its bytes stay valid until the table is used again.
func (t *bufTable) drop(r bufRef) {
	if r == 0 {
		return
	}
	t.release(t.all[r-1])
	t.all[r-1] = nil
	t.refs = append(t.refs, r)
}
