package auth

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/klinkio/klink"
)

// Claims is what a token says. What is a list is not to be changed: Subscribe, Publish and Services are shared with all tokens that allow the
// same, and stand in the order of the first of them.
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

// wire is the claims as Mint writes them.
type wire struct {
	Sub      string   `json:"sub"`
	App      string   `json:"app,omitempty"`
	Device   string   `json:"device,omitempty"`
	ID       string   `json:"jti,omitempty"`
	Iat      *int64   `json:"iat,omitempty"`
	Nbf      *int64   `json:"nbf,omitempty"`
	Exp      *int64   `json:"exp,omitempty"`
	Aud      []string `json:"aud,omitempty"`
	Tags     []string `json:"tags,omitempty"`
	Join     []string `json:"join,omitempty"`
	Publish  []string `json:"publish,omitempty"`
	Services []string `json:"services,omitempty"`
}

func date(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.Unix())
}

// parseClaims reads the claims. Those that are not known are passed over; the patterns stay as text, for the cache of grants.
func parseClaims(b []byte) (c *Claims, patterns [3][]byte, err error) {
	c = new(Claims)
	s := scanner{b: b}
	err = s.object(func(name, value []byte) error {
		if err := c.set(name, value, &patterns); err != nil {
			return fmt.Errorf("the claim %s has the wrong form", name)
		}
		return nil
	})
	if err == nil {
		err = c.check()
	}
	return c, patterns, err
}

func (c *Claims) set(name, value []byte, patterns *[3][]byte) (err error) {
	switch string(name) {
	case "sub":
		c.User, err = stringOf(value)
	case "app":
		if string(value) == `"`+klink.DefaultApp+`"` {
			c.App = klink.DefaultApp // the usual one costs no allocation
			return nil
		}
		c.App, err = stringOf(value)
	case "device":
		c.Device, err = stringOf(value)
	case "jti":
		c.ID, err = stringOf(value)
	case "iat":
		c.Issued, err = timeOf(value)
	case "nbf":
		c.NotBefore, err = timeOf(value)
	case "exp":
		c.Expires, err = timeOf(value)
	case "aud":
		c.Audience, err = textsOf(value, true)
	case "join":
		c.Join, err = textsOf(value, false)
	case "tags":
		patterns[0] = value
	case "publish":
		patterns[1] = value
	case "services":
		patterns[2] = value
	}
	return err
}

func stringOf(value []byte) (string, error) {
	t, err := textOf(value)
	return string(t), err
}

const (
	maxDate  = 253_402_300_799 // the last second of the year 9999; beyond it are dates in milliseconds, a common mistake
	lastDate = math.MaxUint32  // sessions keep 32 bits: later dates read as this one, in the year 2106
)

// timeOf reads a NumericDate.
func timeOf(value []byte) (time.Time, error) {
	v, err := dateOf(value)
	if err != nil || v < 0 || v > maxDate {
		return time.Time{}, errJSON
	}
	sec, frac := math.Modf(min(v, lastDate))
	return time.Unix(int64(sec), int64(frac*1e9)), nil
}

func (c *Claims) check() error {
	if c.App == "" {
		c.App = klink.DefaultApp
	}
	if err := klink.CheckID("sub", c.User, klink.MaxUserLen); err != nil {
		return err
	}
	if err := klink.CheckID("app", c.App, klink.MaxAppLen); err != nil {
		return err
	}
	if c.Device != "" {
		if err := klink.CheckID("device", c.Device, klink.MaxDeviceLen); err != nil {
			return err
		}
	}
	if len(c.Join) > MaxPatterns {
		return fmt.Errorf("join has %d tags, limit %d", len(c.Join), MaxPatterns)
	}
	for _, t := range c.Join {
		if err := klink.CheckID("join tag", t, klink.MaxTagLen); err != nil {
			return err
		}
	}
	return nil
}

func (c *Claims) marshal() ([]byte, error) {
	return json.Marshal(wire{
		Sub: c.User, App: c.App, Device: c.Device, ID: c.ID, Iat: date(c.Issued), Nbf: date(c.NotBefore), Exp: date(c.Expires),
		Aud: c.Audience, Tags: c.Subscribe, Join: c.Join, Publish: c.Publish, Services: c.Services,
	})
}
