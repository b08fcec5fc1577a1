package api

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// livez is GET /livez: the process answers. It looks at nothing else, so that what is away elsewhere does not restart it.
func (c *call) livez() error {
	c.out = append(c.out, `{"status":"ok"}`...)
	c.reply(http.StatusOK)
	return nil
}

// readyTimeout bounds all checks of readiness.
const readyTimeout = 2 * time.Second

// readyz is GET /readyz: whether a balancer should send requests and devices here. With ?verbose all checks are listed, else
// those that failed.
func (c *call) readyz() error {
	q, err := c.query("verbose")
	if err != nil {
		return err
	}
	_, verbose := q["verbose"]
	ctx, cancel := context.WithTimeout(c.r.Context(), readyTimeout)
	defer cancel()
	checks := slices.Clone(c.s.ready)
	checks = append(checks, Check{Name: "draining", Func: func(context.Context) error {
		if c.s.draining.Load() {
			return &failure{kind: problemUnavailable, detail: "the process drains"}
		}
		return nil
	}})
	status, word := http.StatusOK, "ok"
	list := []byte{'['}
	for _, ch := range checks {
		err := ch.Func(ctx)
		if err != nil {
			status, word = http.StatusServiceUnavailable, "unready"
		} else if !verbose {
			continue
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = appendFlag(appendField(append(list, '{'), "name", ch.Name), "ok", err == nil)
		if err != nil {
			list = appendField(list, "detail", err.Error())
		}
		list = append(list, '}')
	}
	b := appendField(append(c.out, '{'), "status", word)
	b = append(append(appendName(b, "checks"), list...), ']')
	c.out = append(b, '}')
	c.reply(status)
	return nil
}

// endpointList is GET /v1/endpoints.
func (c *call) endpointList() error {
	if _, err := c.query(); err != nil {
		return err
	}
	b := append(c.out, `{"endpoints":[`...)
	if c.s.endpoints != nil {
		for i, e := range c.s.endpoints() {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendField(appendField(append(b, '{'), "transport", e.Transport), "url", e.URL), '}')
		}
	}
	c.out = append(b, "]}"...)
	c.reply(http.StatusOK)
	return nil
}

// problemPage is GET /v1/problems/{code}: what the type of a problem points to.
func (c *call) problemPage() error {
	for i := range problems {
		row := &problems[i]
		if row.Code != c.r.PathValue("code") {
			continue
		}
		b := appendField(append(c.out, '{'), "code", row.Code)
		b = appendInt(b, "status", row.Status)
		b = appendField(b, "title", row.Title)
		b = appendField(b, "meaning", row.Meaning)
		c.out = append(appendFlag(b, "retry", row.Retry), '}')
		c.reply(http.StatusOK)
		return nil
	}
	return &failure{kind: problemNotFound, detail: "there is no problem of that code"}
}
