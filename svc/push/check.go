package push

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/tagindex"
)

// Limits of one push.
const (
	// MaxPayload bounds the payload in bytes: with everything that a frame says besides, it stays below 64 KiB.
	MaxPayload = 62 << 10
	// MaxNames bounds the users, the devices and the tags of one target, each.
	MaxNames = 1000
	// MaxCollapseKey bounds the collapse key in bytes.
	MaxCollapseKey = 128
	// MaxTTL bounds how long a push may wait.
	MaxTTL = 24 * time.Hour
	// MaxBatch bounds the pushes of one batch.
	MaxBatch = 1000
)

// FieldError says which part of a request is not acceptable. It unwraps to its [klink.Error].
type FieldError struct {
	Field string // as in the HTTP API, for example to.users[3]
	Err   *klink.Error
}

func (e *FieldError) Error() string { return e.Err.Code.String() + ": " + e.Field + ": " + e.Err.Text }

func (e *FieldError) Unwrap() error { return e.Err }

func badField(c klink.Code, field, format string, args ...any) error {
	return &FieldError{Field: field, Err: klink.Errorf(c, format, args...)}
}

func badItem(c klink.Code, list string, i int, err error) error {
	return &FieldError{Field: fmt.Sprintf("%s[%d]", list, i), Err: klink.Errorf(c, "%w", err)}
}

// Check reports as a [FieldError] why p can't be sent. It does not look into the payload beyond its size.
func (s *Service) Check(p *klink.Push) error {
	if err := klink.CheckID("app", p.App, klink.MaxAppLen); err != nil {
		return badField(klink.CodeInvalid, "app", "%w", err)
	}
	if err := s.checkTarget(&p.To); err != nil {
		return err
	}
	switch {
	case len(p.Payload.Data) > MaxPayload:
		return badField(klink.CodeTooLarge, payloadField(p.Payload.Kind), "the payload is %d bytes long, limit %d", len(p.Payload.Data), MaxPayload)
	case p.CollapseKey != "":
		if err := klink.CheckID("collapse key", p.CollapseKey, MaxCollapseKey); err != nil {
			return badField(klink.CodeInvalid, "collapse_key", "%w", err)
		}
	}
	if !p.Expires.IsZero() && !time.Now().Before(p.Expires) {
		return badField(klink.CodeExpired, "ttl", "the time to live is over")
	}
	return nil
}

func (s *Service) checkTarget(t *klink.Target) error {
	if len(t.Users)+len(t.Devices)+len(t.Tags) == 0 && t.Expr == "" && !t.All {
		return badField(klink.CodeInvalid, "to", "it names nobody: give users, devices, tags, expr or all")
	}
	if err := checkNames("to.users", "user", t.Users, klink.MaxUserLen); err != nil {
		return err
	}
	if len(t.Devices) > MaxNames {
		return badField(klink.CodeLimit, "to.devices", "%d devices, limit %d", len(t.Devices), MaxNames)
	}
	for i := range t.Devices {
		d := &t.Devices[i]
		if err := klink.CheckID("user", d.User, klink.MaxUserLen); err != nil {
			return badItem(klink.CodeInvalid, "to.devices", i, err)
		}
		if err := klink.CheckID("device", d.Device, klink.MaxDeviceLen); err != nil {
			return badItem(klink.CodeInvalid, "to.devices", i, err)
		}
	}
	if err := checkNames("to.tags", "tag", t.Tags, klink.MaxTagLen); err != nil {
		return err
	}
	if t.Expr == "" {
		return nil
	}
	covered, err := s.exprs.check(t.Expr)
	switch {
	case err != nil:
		return badField(klink.CodeInvalid, "to.expr", "%w", err)
	case !covered && !t.All:
		return badField(klink.CodeInvalid, "to.expr", "it fits sessions that carry none of its tags: set all to mean that")
	}
	return nil
}

func checkNames(list, what string, names []string, limit int) error {
	if len(names) > MaxNames {
		return badField(klink.CodeLimit, list, "%d %ss, limit %d", len(names), what, MaxNames)
	}
	for i, n := range names {
		if err := klink.CheckID(what, n, limit); err != nil {
			return badItem(klink.CodeInvalid, list, i, err)
		}
	}
	return nil
}

// checkPayload is for payloads that no decoder of this process has looked at.
func checkPayload(p *klink.Payload) error {
	switch {
	case p.Kind == klink.DataText && !utf8.Valid(p.Data):
		return badField(klink.CodeInvalid, "text", "it is not valid UTF-8")
	case p.Kind == klink.DataJSON && (!utf8.Valid(p.Data) || !json.Valid(p.Data)):
		return badField(klink.CodeInvalid, "data", "it is not one JSON value in UTF-8")
	}
	return nil
}

// maxExprs bounds the expressions known to be right: back ends use few, often.
const maxExprs = 1024

// exprCache remembers expressions that parsed, and whether some tags cover them.
type exprCache struct {
	mu sync.RWMutex
	m  map[string]bool
}

func (c *exprCache) check(s string) (covered bool, err error) {
	c.mu.RLock()
	covered, ok := c.m[s]
	c.mu.RUnlock()
	if ok {
		return covered, nil
	}
	e, err := tagindex.Parse(s)
	if err != nil {
		return false, err
	}
	_, covered = e.Cover()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxExprs {
		c.m = make(map[string]bool)
	}
	c.m[s] = covered
	return covered, nil
}

// payloadField is the payload's field in the HTTP API.
func payloadField(k klink.DataKind) string {
	return [...]string{klink.DataBinary: "data_base64", klink.DataText: "text", klink.DataJSON: "data"}[k]
}
