package auth

import (
	"encoding/json"
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
	seen := 0
	s := scanner{b: b}
	err = s.object(func(name, value []byte) error {
		bit := -1
		for i := range claimNames {
			if string(name) == claimNames[i] {
				bit = i
				break
			}
		}
		if bit < 0 {
			return nil
		}
		if seen&(1<<bit) != 0 {
			return fmt.Errorf("the claim %s stands twice", claimNames[bit])
		}
		seen |= 1 << bit
		if err := c.set(bit, value, &patterns); err != nil {
			return fmt.Errorf("the claim %s has the wrong form", claimNames[bit])
		}
		return nil
	})
	if err == nil {
		err = c.check()
	}
	return c, patterns, err
}

// claimNames are the claims that are read, by the number that set knows.
var claimNames = [...]string{"sub", "app", "device", "jti", "iat", "nbf", "exp", "aud", "join", "tags", "publish", "services"}

func (c *Claims) set(claim int, value []byte, patterns *[3][]byte) (err error) {
	switch claim {
	case 0, 1, 2, 3:
		t, err := textOf(value)
		if err != nil {
			return err
		}
		switch dst := [...]*string{&c.User, &c.App, &c.Device, &c.ID}[claim]; {
		case claim == 1 && string(t) == klink.DefaultApp:
			*dst = klink.DefaultApp
		default:
			*dst = string(t)
		}
	case 4, 5, 6:
		v, err := dateOf(value)
		if err != nil || v < 0 || v >= math.MaxUint32 {
			return errJSON
		}
		sec, frac := math.Modf(v)
		*[...]*time.Time{&c.Issued, &c.NotBefore, &c.Expires}[claim-4] = time.Unix(int64(sec), int64(frac*1e9))
	case 7:
		c.Audience, err = textsOf(value, true)
	case 8:
		c.Join, err = textsOf(value, false)
	default:
		if string(value) != "null" {
			patterns[claim-9] = value
		}
	}
	return err
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
