package netloop

import "github.com/klinkio/klink"

// deadlines is a queue of equal delays, so that what was put in first is due first. Entries are not removed: whoever pops one looks whether it
// still concerns the connection.
type deadlines struct {
	q    []deadline
	head int
}

type deadline struct {
	at int64 // ms
	h  klink.Handle
}

func (d *deadlines) push(at int64, h klink.Handle) {
	if d.head > 64 && d.head*2 > len(d.q) {
		d.q = d.q[:copy(d.q, d.q[d.head:])]
		d.head = 0
	}
	d.q = append(d.q, deadline{at, h})
}

// pop takes the first entry that is due.
func (d *deadlines) pop(now int64) (klink.Handle, bool) {
	if d.head == len(d.q) || d.q[d.head].at > now {
		return 0, false
	}
	h := d.q[d.head].h
	d.head++
	if d.head == len(d.q) {
		d.head = 0
		if d.q = d.q[:0]; cap(d.q) > 4096 {
			d.q = nil
		}
	}
	return h, true
}

// next is when the first entry is due, 0: there is none.
func (d *deadlines) next() int64 {
	if d.head == len(d.q) {
		return 0
	}
	return d.q[d.head].at
}
