package api

import (
	"net/http"
	"strconv"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/svc/presence"
)

// presenceQuery is POST /v1/presence/query.
func (c *call) presenceQuery() error {
	users, err := c.json.users()
	if err != nil {
		return err
	}
	list, err := c.s.presence.Query(c.r.Context(), c.key.App(), users)
	if err != nil {
		return err
	}
	c.out = appendUsers(c.out, list)
	c.reply(http.StatusOK)
	return nil
}

// users reads a whole body of the query.
func (r *reader) users() ([]string, error) {
	var users []string
	var o object
	for r.open(&o); r.field(&o); {
		if string(r.name) != "users" {
			r.unknown("users")
			continue
		}
		r.take(&o, 0, "users")
		users = r.strs("users", presence.MaxUsers)
	}
	if r.err == nil && !o.has(0) {
		r.fail("the field users is missing")
	}
	if err := r.finish(); err != nil {
		return nil, err
	}
	for i, u := range users {
		if err := klink.CheckID("user", u, klink.MaxUserLen); err != nil {
			at := "users[" + strconv.Itoa(i) + "]"
			return nil, &failure{kind: problemInvalid, detail: at + ": " + err.Error(), path: "$." + at}
		}
	}
	return users, nil
}

func appendUsers(b []byte, list []crux.User) []byte {
	b = append(b, `{"users":[`...)
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendUser(b, &list[i])
	}
	return append(b, "]}"...)
}

// appendUser appends what is known of a user.
func appendUser(b []byte, u *crux.User) []byte {
	b = append(b, '{')
	b = appendField(b, "user", u.User)
	b = appendFlag(b, "online", u.Online())
	b = appendNumberString(appendName(b, "version"), uint64(u.Version))
	b = appendFlag(b, "stale", u.Stale)
	if !u.LastSeen.IsZero() {
		b = appendTime(appendName(b, "last_seen"), u.LastSeen)
	}
	b = appendStrings(appendName(b, "tags"), u.Tags)
	b = append(appendName(b, "devices"), '[')
	for i := range u.Sessions {
		if i > 0 {
			b = append(b, ',')
		}
		s := &u.Sessions[i]
		b = appendSession(append(b, '{'), s.Device, s.Incarnation, s.Handle)
		b = appendField(b, "transport", s.Transport.String())
		b = appendTime(appendName(b, "since"), s.Since)
		b = append(appendNumberString(appendName(b, "version"), uint64(s.Version)), '}')
	}
	return append(b, "]}"...)
}

// appendSession appends the fields that name a session.
func appendSession(b []byte, device string, inc klink.Incarnation, h klink.Handle) []byte {
	b = appendField(b, "device", device)
	b = appendName(b, "session")
	b = append(b, '"')
	quoted := appendString(nil, inc.FE)
	b = append(b, quoted[1:len(quoted)-1]...)
	b = append(b, '.')
	b = strconv.AppendUint(b, inc.Num, 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, uint64(h), 16)
	b = append(b, '"')
	return appendField(b, "front_end", inc.FE)
}
