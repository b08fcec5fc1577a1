package sdk

import (
	"context"
	"errors"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

// Publication is what a client sends to everyone who carries a tag.
type Publication struct {
	Tag            string
	Payload        klink.Payload
	CollapseKey    string // of pushes that wait with the same key, a slow receiver gets the newest only
	IdempotencyKey string // a repeated publication with it takes effect once
	Droppable      bool   // a slow receiver may miss it
}

// Published is what became of a publication.
type Published struct {
	ID       string // of the push
	Matched  int    // sessions that it was for
	Enqueued int    // sessions that it is on its way to
}

// Call is a request to a service behind klink.
type Call struct {
	Service string
	Method  string
	Payload klink.Payload
	Timeout time.Duration // of the whole call, told to the server; 0: the context's, else the server's default
}

// call is a request in flight.
type call struct {
	done    chan answer // has room for the one answer
	counted bool        // the server counts it as a request
}

// answer is what came back; err is a *klink.Error or errLost.
type answer struct {
	err       error
	sub       Subscription
	published Published
	payload   klink.Payload
}

const maxKeyLen = 128 // of collapse and idempotency keys, services and methods

// Publish sends p and returns the server's report. It waits for a connection while ctx lets it. Errors are *[klink.Error]. After
// CodeTimeout and CodeUnavailable it is not known whether the publication took effect; with an IdempotencyKey it can be repeated.
func (c *Client) Publish(ctx context.Context, p Publication) (Published, error) {
	err := klink.CheckID("tag", p.Tag, klink.MaxTagLen)
	if err == nil && p.CollapseKey != "" {
		err = klink.CheckID("collapse key", p.CollapseKey, maxKeyLen)
	}
	if err == nil && p.IdempotencyKey != "" {
		err = klink.CheckID("idempotency key", p.IdempotencyKey, maxKeyLen)
	}
	if err := c.checkCall(err, p.Payload); err != nil {
		return Published{}, err
	}
	a, err := c.request(ctx, func(id uint32) []byte {
		return frame.AppendPublish(nil, &frame.Publish{
			ID: id, Tag: []byte(p.Tag), Body: frame.Body(p.Payload), Droppable: p.Droppable,
			IdempotencyKey: []byte(p.IdempotencyKey), CollapseKey: []byte(p.CollapseKey),
		})
	})
	return a.published, err
}

// Request asks a service and returns its answer. It waits for a connection while ctx lets it. Errors are *[klink.Error]; after
// CodeTimeout and CodeUnavailable it is not known whether the request took effect.
func (c *Client) Request(ctx context.Context, r Call) (klink.Payload, error) {
	err := klink.CheckID("service", r.Service, maxKeyLen)
	if err == nil && r.Method != "" {
		err = klink.CheckID("method", r.Method, maxKeyLen)
	}
	if err := c.checkCall(err, r.Payload); err != nil {
		return klink.Payload{}, err
	}
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	a, err := c.request(ctx, func(id uint32) []byte {
		m := frame.Request{ID: id, Service: []byte(r.Service), Method: []byte(r.Method), Body: frame.Body(r.Payload)}
		if at, ok := ctx.Deadline(); ok {
			m.DeadlineMs = uint32(min(max(1, time.Until(at).Milliseconds()), 1<<31))
		}
		return frame.AppendRequest(nil, &m)
	})
	return a.payload, err
}

// checkCall refuses what the server would refuse.
func (c *Client) checkCall(err error, p klink.Payload) error {
	if err == nil {
		err = frame.CheckPayload(p.Kind, p.Data)
	}
	if err != nil {
		c.stats.refused.Add(1)
		return klink.Errorf(klink.CodeInvalid, "%w", err)
	}
	return c.foreground()
}

// request does a call that the server counts as a request.
func (c *Client) request(ctx context.Context, encode func(id uint32) []byte) (answer, error) {
	cn, err := c.await(ctx)
	if err != nil {
		return answer{}, err
	}
	a, err := cn.roundTrip(ctx, true, encode)
	if errors.Is(err, errLost) {
		if c.life.Err() != nil {
			return answer{}, c.closedError()
		}
		err = klink.Errorf(klink.CodeUnavailable, "no answer: %w", errLost)
	}
	return a, err
}

// begin registers a call and gives it an id.
func (cn *conn) begin(counted bool) (uint32, *call, error) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.lost {
		return 0, nil, errLost
	}
	if limit := int(cn.limits.Requests); counted && limit > 0 && cn.inUse >= limit {
		cn.c.stats.refused.Add(1)
		return 0, nil, klink.Errorf(klink.CodeLimit, "%d requests are in flight, as many as the server allows", limit)
	}
	if len(cn.pending) >= maxPending {
		cn.c.stats.refused.Add(1)
		return 0, nil, klink.Errorf(klink.CodeLimit, "%d calls wait for an answer", maxPending)
	}
	id := cn.lastID + 1
	for id == 0 || cn.pending[id] != nil {
		id++
	}
	cn.lastID = id
	cl := &call{done: make(chan answer, 1), counted: counted}
	cn.pending[id] = cl
	if counted {
		cn.inUse++
	}
	return id, cl, nil
}

// maxPending bounds calls without an answer of all kinds, also those that nobody waits for any longer.
const maxPending = 4096

// answer ends a call. It stays in flight until then even if its caller has gone: the server counts it, and its id is taken.
func (cn *conn) answer(id uint32, a answer) {
	if !cn.finish(id, a) {
		cn.c.stats.stray.Add(1)
	}
}

func (cn *conn) finish(id uint32, a answer) bool {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	cl := cn.pending[id]
	if cl == nil {
		return false
	}
	delete(cn.pending, id)
	if cl.counted {
		cn.inUse--
	}
	cl.done <- a
	return true
}

// roundTrip sends a frame and waits for its answer. The error is a *klink.Error or errLost.
func (cn *conn) roundTrip(ctx context.Context, counted bool, encode func(id uint32) []byte) (answer, error) {
	id, cl, err := cn.begin(counted)
	if err != nil {
		return answer{}, err
	}
	body := encode(id)
	if limit := int(cn.limits.FrameBytes); limit > 0 && len(body) > limit {
		cn.finish(id, answer{})
		cn.c.stats.refused.Add(1)
		return answer{}, klink.Errorf(klink.CodeTooLarge, "a frame of %d bytes, the server takes at most %d", len(body), limit)
	}
	select {
	case cn.out <- body:
	case a := <-cl.done: // lost
		return a, a.err
	case <-ctx.Done():
		cn.finish(id, answer{})
		return answer{}, ctxError(ctx, "not sent")
	}
	select {
	case a := <-cl.done:
		return a, a.err
	case <-ctx.Done():
		return answer{}, ctxError(ctx, "no answer")
	}
}

func (cn *conn) onResponse(m *frame.Response) {
	a := answer{payload: klink.Payload{Kind: m.Body.Kind, Data: append([]byte(nil), m.Body.Data...)}}
	if m.Error != klink.OK {
		a = answer{err: &klink.Error{Code: m.Error, Text: m.Text}}
	}
	cn.answer(m.ID, a)
}

// onError ends the call that failed. With [klink.OK] it says that a request which has no other answer was done.
func (cn *conn) onError(m *frame.Error) {
	text := m.Text
	if m.Limit != "" {
		text += " (limit " + m.Limit + ")"
	}
	var err error
	if m.Code != klink.OK {
		err = &klink.Error{Code: m.Code, Text: text}
	}
	switch {
	case cn.finish(m.ID, answer{err: err}):
	case err != nil && m.ID == 0:
		cn.c.events.add(event{err: err})
	default:
		cn.c.stats.stray.Add(1)
	}
}
