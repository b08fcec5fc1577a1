package api

import (
	"crypto/sha256"
	"net/http"
	"strconv"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/svc/push"
)

// maxBatchKey bounds the idempotency key of a batch in bytes: "/" and the number of the item are added to it.
const maxBatchKey = push.MaxOnceKey - 4

// pushBatch is POST /v1/push/batch. A body of the wrong shape is refused as a whole; what the service refuses of single items is in
// their answers.
func (c *call) pushBatch() error {
	key := ""
	if v := c.r.Header["Idempotency-Key"]; len(v) > 0 {
		if key = v[0]; key == "" || len(key) > maxBatchKey {
			return &failure{kind: problemInvalid, detail: "the Idempotency-Key of a batch has 1 to " + strconv.Itoa(maxBatchKey) + " bytes"}
		}
	}
	items := c.json.batch(c.key.App(), time.Now(), key)
	if err := c.finish(); err != nil {
		return err
	}
	if more := len(items) - 1; more > 0 { // the request has spent one
		if err := c.spend(more); err != nil {
			return err
		}
	}
	answers := c.s.push.PushBatch(c.r.Context(), items)
	c.out = append(c.out, `{"results":[`...)
	for i := range answers {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = c.appendAnswer(c.out, &answers[i])
	}
	c.out = append(c.out, "]}"...)
	c.reply(http.StatusOK)
	return nil
}

// batch reads the items of a batch.
func (r *reader) batch(app string, now time.Time, key string) []push.Item {
	var items []push.Item
	var o object
	for r.open(&o); r.field(&o); {
		if string(r.name) != "items" {
			r.unknown("items")
			continue
		}
		r.take(&o, 0, "items")
		var l list
		for r.each(&l, "an array of pushes"); r.next(&l); {
			if l.n == push.MaxBatch {
				r.tooMany("items", push.MaxBatch)
				break
			}
			start := r.pos
			p := &klink.Push{ID: klink.NewID(now), App: app, Accepted: now}
			r.push(p)
			it := push.Item{Push: p}
			if key != "" {
				it.Once = push.Once{Key: key + "/" + strconv.Itoa(l.n), Digest: sha256.Sum256(r.buf[start:r.pos])}
			}
			items = append(items, it)
		}
	}
	if r.err == nil && !o.has(0) {
		r.fail("the field items is missing")
	}
	return items
}

// appendAnswer appends the answer to one item: status, and either the push answer or a problem.
func (c *call) appendAnswer(b []byte, a *push.Answer) []byte {
	if a.Err == nil {
		b = append(b, `{"status":200,"result":`...)
		b = appendPushed(b, a.Result)
		if a.Result.Replayed {
			b = appendFlag(b, "replayed", true)
		}
		return append(b, '}')
	}
	f := asFailure(a.Err)
	if f.kind == problemInternal {
		c.s.log.Error("push of a batch failed", "request_id", c.id, "err", f.cause)
	}
	c.s.metrics.batch.failed(f.kind)
	b = append(b, '{')
	b = appendInt(b, "status", problems[f.kind].Status)
	b = appendProblem(appendName(b, "problem"), f, c.id)
	return append(b, '}')
}
