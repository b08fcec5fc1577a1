package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/svc/push"
)

// Bits of the fields of a push.
const (
	pushTo = iota
	pushData
	pushText
	pushBase64
	pushCollapse
	pushDroppable
	pushTTL
)

const pushFields = "to, data, text, data_base64, collapse_key, droppable, ttl"

// push is POST /v1/push.
func (c *call) push() error {
	now := time.Now()
	p := &klink.Push{ID: klink.NewID(now), App: c.key.App(), Accepted: now}
	c.json.push(p)
	if err := c.finish(); err != nil {
		return err
	}
	var once push.Once
	if v := c.r.Header["Idempotency-Key"]; len(v) > 0 {
		if v[0] == "" { // the service takes that for none, and the client relies on it
			return &failure{kind: problemInvalid, detail: "the header Idempotency-Key is empty"}
		}
		once = push.Once{Key: v[0], Digest: sha256.Sum256(c.in)}
	}
	res, err := c.s.push.Push(c.r.Context(), p, once)
	if err != nil {
		return headerError(err)
	}
	if res.Replayed {
		c.w.Header().Set("Idempotent-Replayed", "true")
	}
	c.out = appendPushed(c.out, res)
	c.reply(http.StatusOK)
	return nil
}

// headerError keeps errors of the header out of the list of places in the body.
func headerError(err error) error {
	if f := asFailure(err); f.path == "$.Idempotency-Key" {
		f.path = ""
		return f
	}
	return err
}

// push reads one push. What p keeps is copied out of the buffer.
func (r *reader) push(p *klink.Push) {
	var o object
	for r.open(&o); r.field(&o); {
		switch string(r.name) {
		case "to":
			r.take(&o, pushTo, "to")
			r.target(&p.To)
		case "data":
			r.take(&o, pushData, "data")
			p.Payload = klink.Payload{Kind: klink.DataJSON, Data: append([]byte{}, r.raw()...)}
		case "text":
			r.take(&o, pushText, "text")
			p.Payload = klink.Payload{Kind: klink.DataText, Data: append([]byte{}, r.text()...)}
		case "data_base64":
			r.take(&o, pushBase64, "data_base64")
			p.Payload = klink.Payload{Kind: klink.DataBinary, Data: r.base64()}
		case "collapse_key":
			r.take(&o, pushCollapse, "collapse_key")
			p.CollapseKey = r.str()
		case "droppable":
			r.take(&o, pushDroppable, "droppable")
			p.Droppable = r.flag()
		case "ttl":
			r.take(&o, pushTTL, "ttl")
			if d := r.ttl(); d > 0 {
				p.Expires = p.Accepted.Add(d)
			}
		default:
			r.unknown(pushFields)
		}
	}
	r.checkPush(&o)
}

// checkPush checks what must be there, once the object has ended.
func (r *reader) checkPush(o *object) {
	if r.err != nil {
		return
	}
	bodies := 0
	for _, bit := range [...]int{pushData, pushText, pushBase64} {
		if o.has(bit) {
			bodies++
		}
	}
	switch {
	case !o.has(pushTo):
		r.fail("the field to is missing")
	case bodies == 0:
		r.fail("the payload is missing: give data, text or data_base64")
	case bodies > 1:
		r.fail("more than one payload: give one of data, text and data_base64")
	}
}

// target reads who is meant.
func (r *reader) target(t *klink.Target) {
	var o object
	for r.open(&o); r.field(&o); {
		switch string(r.name) {
		case "users":
			r.take(&o, 0, "users")
			t.Users = r.strs("users", push.MaxNames)
		case "devices":
			r.take(&o, 1, "devices")
			t.Devices = r.devices()
		case "tags":
			r.take(&o, 2, "tags")
			t.Tags = r.strs("tags", push.MaxNames)
		case "expr":
			r.take(&o, 3, "expr")
			t.Expr = r.str()
		case "all":
			r.take(&o, 4, "all")
			t.All = r.flag()
		default:
			r.unknown("users, devices, tags, expr, all")
		}
	}
}

// strs reads an array of at most limit strings.
func (r *reader) strs(what string, limit int) []string {
	var all []string
	var l list
	for r.each(&l, "an array of strings"); r.next(&l); {
		if l.n == limit {
			r.tooMany(what, limit)
			return nil
		}
		all = append(all, r.str())
	}
	return all
}

// tooMany stops reading a list that is too long.
func (r *reader) tooMany(what string, limit int) {
	if r.err == nil {
		*r.top() = nowhere
		path := r.where()
		r.err = &failure{kind: problemLimit, path: path, detail: path[len("$."):] + ": more than " + strconv.Itoa(limit) + " " + what}
	}
}

func (r *reader) devices() []klink.DeviceRef {
	var all []klink.DeviceRef
	var l list
	for r.each(&l, "an array of objects"); r.next(&l); {
		if l.n == push.MaxNames {
			r.tooMany("devices", push.MaxNames)
			return nil
		}
		var d klink.DeviceRef
		var o object
		for r.open(&o); r.field(&o); {
			switch string(r.name) {
			case "user":
				r.take(&o, 0, "user")
				d.User = r.str()
			case "device":
				r.take(&o, 1, "device")
				d.Device = r.str()
			default:
				r.unknown("user, device")
			}
		}
		all = append(all, d)
	}
	return all
}

// base64 reads a string of standard base64.
func (r *reader) base64() []byte {
	b := r.text()
	if r.err != nil {
		return nil
	}
	data := make([]byte, base64.StdEncoding.DecodedLen(len(b)))
	n, err := base64.StdEncoding.Strict().Decode(data, b)
	if err != nil {
		r.fail("not base64 (RFC 4648 section 4, with padding)")
		return nil
	}
	return data[:n]
}

// ttl reads a duration such as "60s".
func (r *reader) ttl() time.Duration {
	b := r.text()
	if r.err != nil {
		return 0
	}
	d, err := time.ParseDuration(string(b[:min(len(b), maxNamed)]))
	if err != nil || d <= 0 || d > push.MaxTTL {
		r.fail(`not a duration above 0 and up to 24h, for example "60s"`)
		return 0
	}
	return d
}

// appendPushed appends the answer to a push.
func appendPushed(b []byte, res *push.Result) []byte {
	r := &res.Report
	b = append(b, '{')
	b = appendField(b, "push", res.Push)
	b = appendInt(b, "matched", r.Matched)
	b = appendInt(b, "enqueued", r.Enqueued)
	b = appendInt(b, "queued", r.Queued)
	b = appendInt(b, "offline", r.Offline)
	b = appendDropped(b, &r.Dropped)
	b = appendInt(b, "front_ends", r.FEs)
	if len(res.Unreached) > 0 {
		b = append(appendName(b, "unreached"), '[')
		for i := range res.Unreached {
			u := &res.Unreached[i]
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, '{')
			b = appendField(b, "front_end", u.FE)
			b = appendField(b, "code", problems[problemOf(u.Code)].Code)
			b = append(appendField(b, "detail", u.Text), '}')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendDropped appends `"dropped":{reason:n}` with the reasons that there are.
func appendDropped(b []byte, dropped *[klink.NumDrops]uint32) []byte {
	b = append(appendName(b, "dropped"), '{')
	for why, n := range dropped {
		if n > 0 {
			b = appendInt(b, klink.Drop(why).String(), int(n))
		}
	}
	return append(b, '}')
}
