package sdk

import "sync"

// maxControl bounds the events that wait beside pushes: statuses, tags, errors. The last status is never dropped.
const maxControl = 256

// event is one callback to make; one field is set.
type event struct {
	status *Status
	push   *Push
	gap    *Gap
	tags   *Tags
	err    error
}

// bytes is what the event holds of what a server sent.
func (e *event) bytes() int {
	n := 0
	switch {
	case e.push != nil:
		p := e.push
		n = len(p.Payload.Data) + len(p.ID) + len(p.Tag) + len(p.From) + len(p.Expr) + len(p.CollapseKey)
	case e.tags != nil:
		for _, l := range [][]string{e.tags.Added, e.tags.Removed, e.tags.Barrier} {
			for _, t := range l {
				n += len(t)
			}
		}
		for i := range e.tags.Refused {
			n += len(e.tags.Refused[i].Tag) + len(e.tags.Refused[i].Text)
		}
	case e.gap != nil:
		n = len(e.gap.Tag) + len(e.gap.Reason)
	}
	return n
}

// dispatcher makes the callbacks, one at a time and in order, and bounds what waits for them.
type dispatcher struct {
	handler   Handler
	stats     *counters
	maxEvents int
	maxBytes  int

	mu      sync.Mutex
	queue   []event // waiting; taken as a whole by run
	bytes   int     // waiting, or taken and not called yet
	pushes  int     // as bytes
	control int     // as bytes
	closed  bool    // nothing is taken any more
	discard bool    // what waits is dropped, but for the last status
	wake    chan struct{}
	done    chan struct{}
}

func newDispatcher(c *Config, stats *counters) *dispatcher {
	return &dispatcher{
		handler: c.Handler, stats: stats, maxEvents: c.QueueEvents, maxBytes: c.QueueBytes,
		wake: make(chan struct{}, 1), // a token: there is something new
		done: make(chan struct{}),
	}
}

// add puts an event behind the others. It never blocks.
func (d *dispatcher) add(e event) {
	d.mu.Lock()
	if !d.closed && d.admit(&e) {
		d.queue = append(d.queue, e)
	}
	d.mu.Unlock()
	d.signal()
}

func (d *dispatcher) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// admit counts an event in, or drops it and leaves a gap. One event always fits, however large.
func (d *dispatcher) admit(e *event) bool {
	size := e.bytes()
	full := size > 0 && d.bytes > 0 && d.bytes+size > d.maxBytes
	switch {
	case e.push != nil:
		if full || d.pushes >= d.maxEvents {
			d.stats.dropped.Add(1)
			d.lost(1)
			return false
		}
		d.pushes++
	case (full || d.control >= maxControl) && (e.status == nil || e.status.State != StateClosed):
		d.stats.dropped.Add(1)
		if e.gap != nil {
			d.lost(e.gap.Count)
		}
		return false
	default:
		d.control++
	}
	d.bytes += size
	return true
}

// lost makes the last event a gap that covers n pushes more. It is one for any number of pushes that were dropped in a row, so it stays
// within the bounds: between two of them there is a push or another event that was admitted.
func (d *dispatcher) lost(n uint32) {
	if k := len(d.queue); k > 0 {
		if g := d.queue[k-1].gap; g != nil && g.Local {
			g.Count += n
			return
		}
	}
	e := event{gap: &Gap{Count: n, Reason: GapLocal, Local: true}}
	d.queue = append(d.queue, e)
	d.bytes += e.bytes()
	d.control++
}

// close takes last as the last event. With discard, what waits is dropped.
func (d *dispatcher) close(last event, discard bool) {
	d.mu.Lock()
	if !d.closed {
		d.control++
		d.queue = append(d.queue, last)
		d.closed, d.discard = true, discard
	}
	d.mu.Unlock()
	d.signal()
}

// run makes callbacks until the last event.
func (d *dispatcher) run() {
	defer close(d.done)
	var batch []event
	for {
		d.mu.Lock()
		batch, d.queue = d.queue, batch[:0]
		closed := d.closed
		d.mu.Unlock()
		for i := range batch {
			if d.take(&batch[i], closed && i == len(batch)-1) {
				d.call(&batch[i])
			}
			batch[i] = event{}
		}
		if closed {
			return
		}
		if cap(batch) > 4*maxControl {
			batch = nil
		}
		<-d.wake
	}
}

// take counts an event out and reports whether its callback is to be made.
func (d *dispatcher) take(e *event, last bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bytes -= e.bytes()
	if e.push != nil {
		d.pushes--
	} else {
		d.control--
	}
	if d.discard && !last {
		d.stats.dropped.Add(1)
		return false
	}
	return true
}

func (d *dispatcher) call(e *event) {
	switch {
	case e.status != nil:
		d.handler.OnStatus(e.status)
	case e.push != nil:
		d.handler.OnPush(e.push)
	case e.gap != nil:
		d.handler.OnGap(e.gap)
	case e.tags != nil:
		d.handler.OnTags(e.tags)
	case e.err != nil:
		d.handler.OnError(e.err)
	}
}
