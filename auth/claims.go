package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/klinkio/klink"
)

// Claims is what a token says.
type Claims struct {
	App       string // klink.DefaultApp where the token names none
	User      string // sub
	Device    string // binds the token to one device; empty: any
	ID        string // jti
	Issued    time.Time
	NotBefore time.Time
	Expires   time.Time
	Audience  []string
	Subscribe []string // patterns, claim "tags"
	Join      []string // tags joined at login, claim "join"
	Publish   []string // patterns
	Services  []string // patterns

	Grants *Grants // made by Verify
}

// wire is the claims as JSON. Unknown claims are allowed: tokens are made by others, too.
type wire struct {
	Sub      string    `json:"sub"`
	App      string    `json:"app,omitempty"`
	Device   string    `json:"device,omitempty"`
	ID       string    `json:"jti,omitempty"`
	Iat      *number   `json:"iat,omitempty"`
	Nbf      *number   `json:"nbf,omitempty"`
	Exp      *number   `json:"exp,omitempty"`
	Aud      audiences `json:"aud,omitempty"`
	Tags     []string  `json:"tags,omitempty"`
	Join     []string  `json:"join,omitempty"`
	Publish  []string  `json:"publish,omitempty"`
	Services []string  `json:"services,omitempty"`
}

// number is a NumericDate: seconds, possibly with a fraction.
type number float64

func numberOf(t time.Time) *number {
	if t.IsZero() {
		return nil
	}
	return new(number(t.Unix()))
}

func (n *number) time() time.Time {
	if n == nil {
		return time.Time{}
	}
	sec, frac := math.Modf(float64(*n))
	return time.Unix(int64(sec), int64(frac*1e9))
}

// valid keeps dates where time.Time and 32 bits of seconds are exact.
func (n *number) valid() bool { return n == nil || (*n >= 0 && *n < math.MaxUint32) }

// audiences is a string or a list of strings.
type audiences []string

func (a *audiences) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*a = make([]string, 1)
		return json.Unmarshal(b, &(*a)[0])
	}
	return json.Unmarshal(b, (*[]string)(a))
}

func parseClaims(b []byte) (*Claims, error) {
	var w wire
	if err := json.Unmarshal(b, &w); err != nil {
		return nil, errors.New("the claims are not the JSON that is expected")
	}
	if w.App == "" {
		w.App = klink.DefaultApp
	}
	if err := klink.CheckID("sub", w.Sub, klink.MaxUserLen); err != nil {
		return nil, err
	}
	if err := klink.CheckID("app", w.App, klink.MaxAppLen); err != nil {
		return nil, err
	}
	if w.Device != "" {
		if err := klink.CheckID("device", w.Device, klink.MaxDeviceLen); err != nil {
			return nil, err
		}
	}
	if len(w.Join) > MaxPatterns {
		return nil, fmt.Errorf("join has %d tags, limit %d", len(w.Join), MaxPatterns)
	}
	for _, t := range w.Join {
		if err := klink.CheckID("join tag", t, klink.MaxTagLen); err != nil {
			return nil, err
		}
	}
	if !w.Exp.valid() || !w.Nbf.valid() || !w.Iat.valid() {
		return nil, errors.New("a date of the token is out of range")
	}
	return &Claims{
		App: w.App, User: w.Sub, Device: w.Device, ID: w.ID, Issued: w.Iat.time(), NotBefore: w.Nbf.time(), Expires: w.Exp.time(),
		Audience: w.Aud, Subscribe: w.Tags, Join: w.Join, Publish: w.Publish, Services: w.Services,
	}, nil
}

func (c *Claims) marshal() ([]byte, error) {
	return json.Marshal(wire{
		Sub: c.User, App: c.App, Device: c.Device, ID: c.ID, Iat: numberOf(c.Issued), Nbf: numberOf(c.NotBefore), Exp: numberOf(c.Expires),
		Aud: c.Audience, Tags: c.Subscribe, Join: c.Join, Publish: c.Publish, Services: c.Services,
	})
}
