package api

import (
	"log/slog"
	"net/http"
	"net/url"
	"strconv"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/svc/presence"
	"github.com/klinkio/klink/svc/push"
)

// pathID is an identifier in the path.
func (c *call) pathID(name string, limit int) (string, error) {
	v := c.r.PathValue(name)
	if err := klink.CheckID(name, v, limit); err != nil {
		return "", &failure{kind: problemInvalid, detail: "in the path: " + err.Error()}
	}
	return v, nil
}

// query reads the parameters after the question mark; others than the known ones are refused.
func (c *call) query(known ...string) (map[string]string, error) {
	if c.r.URL.RawQuery == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, &failure{kind: problemInvalid, detail: "the query of the URL is malformed"}
	}
	got := make(map[string]string, len(values))
	for name, v := range values {
		ok := false
		for _, k := range known {
			ok = ok || k == name
		}
		if !ok || len(v) != 1 {
			return nil, &failure{kind: problemInvalid, detail: "unknown or repeated query parameter " + strconv.Quote(name[:min(len(name), maxNamed)])}
		}
		got[name] = v[0]
	}
	return got, nil
}

// limitOf reads the parameter limit.
func limitOf(q map[string]string, usual, most int) (int, error) {
	v, ok := q["limit"]
	if !ok {
		return usual, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		return 0, &failure{kind: problemInvalid, detail: "limit is not a number from 1 to " + strconv.Itoa(most)}
	}
	return n, nil
}

// tagInfo is GET /v1/tags/{tag}.
func (c *call) tagInfo() error {
	tag, err := c.pathID("tag", klink.MaxTagLen)
	if err != nil {
		return err
	}
	if _, err := c.query(); err != nil {
		return err
	}
	n, err := c.s.presence.Count(c.r.Context(), c.key.App(), tag)
	if err != nil {
		return err
	}
	recent := c.s.push.Recent(c.key.App(), tag)
	b := appendField(append(c.out, '{'), "tag", tag)
	b = appendInt(b, "members", n.Sessions)
	b = appendInt(b, "front_ends", n.FEs)
	b = appendStrings(appendName(b, "unreached"), n.Unreached)
	b = append(appendName(b, "recent"), '{')
	b = appendInt(b, "pushes", recent.Pushes)
	b = appendInt(b, "matched", recent.Matched)
	b = appendInt(b, "enqueued", recent.Enqueued)
	b = appendDropped(b, &recent.Dropped)
	c.out = append(b, "}}"...)
	c.reply(http.StatusOK)
	return nil
}

// usualPage is how many members a page has where the request names no limit.
const usualPage = 100

// tagMembers is GET /v1/tags/{tag}/members.
func (c *call) tagMembers() error {
	tag, err := c.pathID("tag", klink.MaxTagLen)
	if err != nil {
		return err
	}
	q, err := c.query("limit", "cursor")
	if err != nil {
		return err
	}
	limit, err := limitOf(q, usualPage, presence.MaxPage)
	if err != nil {
		return err
	}
	page, err := c.s.presence.Members(c.r.Context(), c.key.App(), tag, q["cursor"], limit)
	if err != nil {
		return err
	}
	b := append(c.out, `{"members":[`...)
	for i := range page.Members {
		if i > 0 {
			b = append(b, ',')
		}
		m := &page.Members[i]
		b = appendField(append(b, '{'), "user", m.User)
		b = appendSession(b, m.Device, m.Incarnation, m.Handle)
		b = appendField(b, "transport", m.Transport.String())
		b = appendTime(appendName(b, "since"), m.Since)
		b = append(appendNumberString(appendName(b, "version"), uint64(m.Version)), '}')
	}
	b = append(b, ']')
	if page.Next != "" {
		b = appendField(b, "next", page.Next)
	}
	c.out = append(b, '}')
	c.reply(http.StatusOK)
	return nil
}

// changeTags is POST /v1/tags.
func (c *call) changeTags() error {
	var user string
	var add, remove []string
	var o object
	r := &c.json
	for r.open(&o); r.field(&o); {
		switch string(r.name) {
		case "user":
			r.take(&o, 0, "user")
			user = r.str()
		case "add":
			r.take(&o, 1, "add")
			add = r.strs("tags", push.MaxNames)
		case "remove":
			r.take(&o, 2, "remove")
			remove = r.strs("tags", push.MaxNames)
		default:
			r.unknown("user, add, remove")
		}
	}
	if err := c.finish(); err != nil {
		return err
	}
	ut, err := c.s.push.ChangeTags(c.r.Context(), c.key.App(), user, add, remove)
	c.audit("change_tags", err, slog.String("user", user), slog.Int("added", len(ut.Added)), slog.Int("removed", len(ut.Removed)))
	if err != nil {
		return err
	}
	b := appendField(append(c.out, '{'), "user", user)
	b = appendStrings(appendName(b, "tags"), ut.Tags)
	b = appendStrings(appendName(b, "added"), ut.Added)
	b = appendStrings(appendName(b, "removed"), ut.Removed)
	b = appendNumberString(appendName(b, "version"), uint64(ut.Version))
	c.out = append(appendInt(b, "sessions", len(ut.Sessions)), '}')
	c.reply(http.StatusOK)
	return nil
}
