package api

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/svc/push"
)

// disconnect is POST /v1/disconnect.
func (c *call) disconnect() error {
	var k push.Kick
	var o object
	r := &c.json
	for r.open(&o); r.field(&o); {
		switch string(r.name) {
		case "user":
			r.take(&o, 0, "user")
			k.User = r.str()
		case "device":
			r.take(&o, 1, "device")
			k.Device = r.some()
		case "session":
			r.take(&o, 2, "session")
			k.Session = r.some()
		case "reason":
			r.take(&o, 3, "reason")
			k.Reason = r.some()
		default:
			r.unknown("user, device, session, reason")
		}
	}
	if err := c.finish(); err != nil {
		return err
	}
	n, err := c.s.push.Disconnect(c.r.Context(), c.key.App(), k)
	c.audit("disconnect", err, slog.String("user", k.User), slog.String("device", k.Device), slog.String("session", k.Session), slog.Int("sessions", n))
	if err != nil {
		return err
	}
	c.out = append(appendInt(append(c.out, '{'), "disconnected", n), '}')
	c.reply(http.StatusOK)
	return nil
}

// some reads a string that narrows down what an administrative call does: an empty one would widen it and is refused.
func (r *reader) some() string {
	s := r.str()
	if s == "" {
		r.fail("an empty string: leave the field out to mean all")
	}
	return s
}

// revoke is POST /v1/revoke.
func (c *call) revoke() error {
	var user, device string
	before := time.Now()
	var o object
	r := &c.json
	for r.open(&o); r.field(&o); {
		switch string(r.name) {
		case "user":
			r.take(&o, 0, "user")
			user = r.str()
		case "device":
			r.take(&o, 1, "device")
			device = r.some()
		case "before":
			r.take(&o, 2, "before")
			before = r.time()
		default:
			r.unknown("user, device, before")
		}
	}
	if err := c.finish(); err != nil {
		return err
	}
	n, err := c.s.push.Revoke(c.r.Context(), c.key.App(), user, device, before)
	c.audit("revoke", err, slog.String("user", user), slog.String("device", device), slog.Time("before", before), slog.Int("sessions", n))
	if err != nil {
		return err
	}
	b := appendTime(appendName(append(c.out, '{'), "before"), before)
	c.out = append(appendInt(b, "disconnected", n), '}')
	c.reply(http.StatusOK)
	return nil
}

// time reads a time of RFC 3339.
func (r *reader) time() time.Time {
	b := r.text()
	if r.err != nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, string(b[:min(len(b), maxNamed)]))
	if err != nil {
		r.fail(`not a time of RFC 3339, for example "2026-12-01T10:00:00Z"`)
	}
	return t
}

// deleteUser is DELETE /v1/users/{user}.
func (c *call) deleteUser() error {
	user, err := c.pathID("user", klink.MaxUserLen)
	if err != nil {
		return err
	}
	if _, err := c.query(); err != nil {
		return err
	}
	u, n, err := c.s.push.DeleteUser(c.r.Context(), c.key.App(), user)
	c.audit("delete_user", err, slog.String("user", user), slog.Int("sessions", n))
	if err != nil {
		return err
	}
	b := appendField(append(c.out, '{'), "user", user)
	b = appendFlag(b, "existed", u.Version != 0)
	b = appendNumberString(appendName(b, "version"), uint64(u.Version))
	c.out = append(appendInt(b, "disconnected", n), '}')
	c.reply(http.StatusOK)
	return nil
}
