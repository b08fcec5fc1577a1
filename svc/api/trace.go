package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/svc/push"
)

// usualTraces is how many pushes a list has where the request names no limit.
const usualTraces = 20

// targetJSON is a target as it was sent.
type targetJSON struct {
	Users   []string          `json:"users,omitempty"`
	Devices []klink.DeviceRef `json:"devices,omitempty"`
	Tags    []string          `json:"tags,omitempty"`
	Expr    string            `json:"expr,omitempty"`
	All     bool              `json:"all,omitempty"`
}

type reportJSON struct {
	Matched  int            `json:"matched"`
	Enqueued int            `json:"enqueued"`
	Queued   int            `json:"queued"`
	Offline  int            `json:"offline"`
	Dropped  map[string]int `json:"dropped"`
}

type frontEndJSON struct {
	FrontEnd string     `json:"front_end"`
	Sessions int        `json:"sessions"`
	Broad    bool       `json:"broad"`
	Ended    bool       `json:"ended"`
	Error    string     `json:"error,omitempty"`
	Report   reportJSON `json:"report"`
}

type traceJSON struct {
	Push         string           `json:"push"`
	From         string           `json:"from,omitempty"`
	To           targetJSON       `json:"to"`
	Accepted     time.Time        `json:"accepted"`
	Expires      *time.Time       `json:"expires,omitempty"`
	PayloadBytes int              `json:"payload_bytes"`
	CollapseKey  string           `json:"collapse_key,omitempty"`
	Droppable    bool             `json:"droppable"`
	Ended        bool             `json:"ended"`
	Report       reportJSON       `json:"report"`
	FrontEnds    []frontEndJSON   `json:"front_ends"`
	Outcomes     []outcomeJSON    `json:"outcomes"`
	User         *explanationJSON `json:"user,omitempty"`
}

type outcomeJSON struct {
	FrontEnd string    `json:"front_end"`
	User     string    `json:"user"`
	Device   string    `json:"device"`
	Session  string    `json:"session"`
	Result   string    `json:"result"`
	At       time.Time `json:"at"`
	Late     bool      `json:"late"`
}

type explanationJSON struct {
	User     string     `json:"user"`
	Verdict  string     `json:"verdict"`
	Text     string     `json:"text"`
	Sessions []fateJSON `json:"sessions"`
}

type fateJSON struct {
	FrontEnd string     `json:"front_end"`
	Device   string     `json:"device"`
	Session  string     `json:"session"`
	Verdict  string     `json:"verdict"`
	Result   string     `json:"result,omitempty"`
	At       *time.Time `json:"at,omitempty"`
	Text     string     `json:"text"`
}

// traceList is GET /v1/trace.
func (c *call) traceList() error {
	q, err := c.query("limit")
	if err != nil {
		return err
	}
	limit, err := limitOf(q, usualTraces, push.MaxTraces)
	if err != nil {
		return err
	}
	list := make([]traceJSON, 0, limit)
	for _, t := range c.s.push.Traces(c.key.App(), limit) {
		list = append(list, traceOf(&t))
	}
	return c.encode(map[string][]traceJSON{"pushes": list})
}

// tracePush is GET /v1/trace/push/{id}.
func (c *call) tracePush() error {
	q, err := c.query("user")
	if err != nil {
		return err
	}
	id, app := c.r.PathValue("id"), c.key.App()
	t, ok := c.s.push.Trace(app, id)
	if !ok {
		return &failure{kind: problemNotFound, detail: "this node does not know the push: it was never here, or too many came after it"}
	}
	v := traceOf(&t)
	if user, asked := q["user"]; asked {
		if err := klink.CheckID("user", user, klink.MaxUserLen); err != nil {
			return &failure{kind: problemInvalid, detail: "in the query: " + err.Error()}
		}
		e, ok, err := c.s.push.Explain(c.r.Context(), app, id, user)
		if err != nil {
			return err
		}
		if ok {
			v.User = explained(&e)
		}
	}
	return c.encode(v)
}

// encode answers with v. It is for answers that nobody asks for often.
func (c *call) encode(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	c.out = append(c.out, b...)
	c.reply(http.StatusOK)
	return nil
}

func traceOf(t *push.Trace) traceJSON {
	v := traceJSON{
		Push: t.Push, From: t.From, To: targetJSON(t.To), Accepted: t.Accepted.UTC(), PayloadBytes: t.PayloadBytes,
		CollapseKey: t.CollapseKey, Droppable: t.Droppable, Ended: t.Ended, Report: reportOf(&t.Report),
		FrontEnds: make([]frontEndJSON, 0, len(t.FEs)), Outcomes: make([]outcomeJSON, 0, len(t.Report.Outcomes)+len(t.Late)),
	}
	if !t.Expires.IsZero() {
		v.Expires = new(t.Expires.UTC())
	}
	for i := range t.FEs {
		p := &t.FEs[i]
		v.FrontEnds = append(v.FrontEnds, frontEndJSON{
			FrontEnd: p.FE, Sessions: p.Sessions, Broad: p.Broad, Ended: p.Ended, Error: p.Error, Report: reportOf(&p.Report),
		})
	}
	for i := range t.Report.Outcomes {
		v.Outcomes = append(v.Outcomes, outcomeOf(&t.Report.Outcomes[i], false))
	}
	for i := range t.Late {
		v.Outcomes = append(v.Outcomes, outcomeOf(&t.Late[i], true))
	}
	return v
}

func outcomeOf(o *klink.Outcome, late bool) outcomeJSON {
	return outcomeJSON{FrontEnd: o.FE, User: o.User, Device: o.Device, Session: o.Session, Result: o.Result, At: o.At.UTC(), Late: late}
}

func reportOf(r *klink.Report) reportJSON {
	v := reportJSON{Matched: r.Matched, Enqueued: r.Enqueued, Queued: r.Queued, Offline: r.Offline, Dropped: make(map[string]int)}
	for why, n := range r.Dropped {
		if n > 0 {
			v.Dropped[klink.Drop(why).String()] = int(n)
		}
	}
	return v
}

func explained(e *push.Explanation) *explanationJSON {
	v := &explanationJSON{User: e.User, Verdict: string(e.Verdict), Text: e.Text, Sessions: make([]fateJSON, 0, len(e.Fates))}
	for i := range e.Fates {
		f := &e.Fates[i]
		j := fateJSON{FrontEnd: f.FE, Device: f.Device, Session: f.Session, Verdict: string(f.Verdict), Result: f.Result, Text: f.Text}
		if !f.At.IsZero() {
			j.At = new(f.At.UTC())
		}
		v.Sessions = append(v.Sessions, j)
	}
	return v
}
