package netloop

import "math/bits"

const (
	minClass   = 6 // 64 B
	numClasses = 32
	maxKept    = 512 << 10
)

// arrays keeps byte arrays in powers of two for reuse, up to maxKept bytes.
type arrays struct {
	free [numClasses][][]byte
	kept int
}

func classOf(n int) int {
	if n <= 1<<minClass {
		return minClass
	}
	return bits.Len(uint(n - 1))
}

// sizeFor is the size of the array that n bytes get.
func sizeFor(n int) int { return 1 << classOf(n) }

func (a *arrays) take(n int) []byte {
	c := classOf(n)
	if k := len(a.free[c]); k > 0 {
		b := a.free[c][k-1]
		a.free[c][k-1] = nil
		a.free[c] = a.free[c][:k-1]
		a.kept -= cap(b)
		return b[:0]
	}
	return make([]byte, 0, 1<<c)
}

func (a *arrays) put(b []byte) {
	if a.kept+cap(b) > maxKept {
		return
	}
	c := classOf(cap(b))
	a.free[c] = append(a.free[c], b)
	a.kept += cap(b)
}

// inRef names a buffer of an [inTable]; 0: none.
type inRef uint32

// inTable holds the partial input of a loop's connections. A buffer grows with what has arrived, never with what a client
// announces, so a slow client costs twice its bytes at most.
type inTable struct {
	arrays
	all  [][]byte
	free []inRef
	used int64 // bytes of the arrays in use
}

func (t *inTable) get(r inRef) []byte {
	if r == 0 {
		return nil
	}
	return t.all[r-1]
}

// growth is how many bytes more the table would use after add.
func (t *inTable) growth(r inRef, n int) int64 {
	b := t.get(r)
	if r != 0 && len(b)+n <= cap(b) {
		return 0
	}
	return int64(sizeFor(len(b)+n) - cap(b))
}

// add appends a copy of p to the buffer r, which may be 0, and returns its name.
func (t *inTable) add(r inRef, p []byte) inRef {
	b := t.get(r)
	if r == 0 || len(b)+len(p) > cap(b) {
		grown := append(t.take(len(b)+len(p)), b...)
		t.used += int64(cap(grown) - cap(b))
		if r == 0 {
			r = t.name()
		} else {
			t.put(b)
		}
		b = grown
	}
	t.all[r-1] = append(b, p...)
	return r
}

func (t *inTable) name() inRef {
	if k := len(t.free); k > 0 {
		r := t.free[k-1]
		t.free = t.free[:k-1]
		return r
	}
	t.all = append(t.all, nil)
	return inRef(len(t.all))
}

// detach takes the buffer out of the table. The caller gives the array back with release.
func (t *inTable) detach(r inRef) []byte {
	b := t.all[r-1]
	t.all[r-1] = nil
	t.free = append(t.free, r)
	return b
}

func (t *inTable) release(b []byte) {
	t.used -= int64(cap(b))
	t.put(b)
}

// drop frees the buffer r, which may be 0. Its bytes are valid until the table is used again.
func (t *inTable) drop(r inRef) {
	if r != 0 {
		t.release(t.detach(r))
	}
}

// outRef names an entry of an [outTable]; 0: none.
type outRef uint32

// output is what a blocked connection still has to send, in this order: the rest of what the kernel took a part of, what was added
// after that, and the answer to the newest WebSocket ping.
type output struct {
	head  []byte // shared bytes of a frame, or in base
	base  []byte // nil: head is shared and only read
	tail  []byte
	pong  [125]byte
	pongN int8 // -1: none
}

// outTable holds the unsent output of a loop's blocked connections: one entry for each. Shared bytes stay shared.
type outTable struct {
	arrays
	all   []output
	free  []outRef
	bytes int64 // unsent, in all entries
}

// hold makes an entry with b, which is copied if it is not shared.
func (t *outTable) hold(b []byte, shared bool) outRef {
	var r outRef
	if k := len(t.free); k > 0 {
		r = t.free[k-1]
		t.free = t.free[:k-1]
	} else {
		t.all = append(t.all, output{})
		r = outRef(len(t.all))
	}
	o := &t.all[r-1]
	o.head, o.pongN = b, -1
	if !shared {
		o.base = append(t.take(len(b)), b...)
		o.head = o.base
	}
	t.bytes += int64(len(b))
	return r
}

// add appends a copy of b behind everything that waits.
func (t *outTable) add(r outRef, b []byte) {
	o := &t.all[r-1]
	if n := len(o.tail) + len(b); n > cap(o.tail) {
		grown := append(t.take(n), o.tail...)
		if o.tail != nil {
			t.put(o.tail)
		}
		o.tail = grown
	}
	o.tail = append(o.tail, b...)
	t.bytes += int64(len(b))
}

// setPong notes the payload of a ping. A newer one takes its place (RFC 6455, section 5.5.3).
func (t *outTable) setPong(r outRef, payload []byte) {
	o := &t.all[r-1]
	o.pongN = int8(copy(o.pong[:], payload))
}

// pong is the answer that is due, if there is one.
func (t *outTable) pong(r outRef) (payload []byte, ok bool) {
	o := &t.all[r-1]
	if o.pongN < 0 {
		return nil, false
	}
	return o.pong[:o.pongN], true
}

// next is what to send; empty: only the pong is left.
func (t *outTable) next(r outRef) []byte { return t.all[r-1].head }

// sent drops the first n bytes of next.
func (t *outTable) sent(r outRef, n int) {
	o := &t.all[r-1]
	o.head = o.head[n:]
	t.bytes -= int64(n)
	if len(o.head) == 0 && o.tail != nil {
		if o.base != nil {
			t.put(o.base)
		}
		o.head, o.base, o.tail = o.tail, o.tail, nil
	}
}

func (t *outTable) size(r outRef) int {
	if r == 0 {
		return 0
	}
	return len(t.all[r-1].head) + len(t.all[r-1].tail)
}

// drop frees the entry r, which may be 0.
func (t *outTable) drop(r outRef) {
	if r == 0 {
		return
	}
	o := &t.all[r-1]
	t.bytes -= int64(len(o.head) + len(o.tail))
	if o.base != nil {
		t.put(o.base)
	}
	if o.tail != nil {
		t.put(o.tail)
	}
	o.head, o.base, o.tail = nil, nil, nil
	t.free = append(t.free, r)
}
