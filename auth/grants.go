package auth

import (
	"fmt"
	"strings"
	"sync"

	"github.com/klinkio/klink"
)

// MaxPatterns bounds the patterns of one kind in a token, and the tags that it joins.
const MaxPatterns = 64

// EchoService may be called with every token.
const EchoService = "echo"

// Grants is what a token allows. It is immutable and shared by all sessions that may do the same.
type Grants struct {
	subscribe, publish, services patterns
}

// CanSubscribe reports whether the client may join the tag.
func (g *Grants) CanSubscribe(tag string) bool { return g.subscribe.match(tag) }

// CanPublish reports whether the client may push to the tag.
func (g *Grants) CanPublish(tag string) bool { return g.publish.match(tag) }

// CanCall reports whether the client may call the service.
func (g *Grants) CanCall(service string) bool {
	return service == EchoService || g.services.match(service)
}

// patterns are sorted into exact names and prefixes.
type patterns struct {
	exact    []string
	prefixes []string
}

func (p *patterns) match(s string) bool {
	for _, e := range p.exact {
		if e == s {
			return true
		}
	}
	for _, pre := range p.prefixes {
		if strings.HasPrefix(s, pre) {
			return true
		}
	}
	return false
}

// parsePatterns reads a claim's patterns for a user.
func parsePatterns(what string, list []string, user string) (p patterns, err error) {
	if len(list) > MaxPatterns {
		return p, fmt.Errorf("%s has %d patterns, limit %d", what, len(list), MaxPatterns)
	}
	for _, s := range list {
		if err := klink.CheckID(what+" pattern", s, klink.MaxTagLen); err != nil {
			return p, err
		}
		body, wild := strings.CutSuffix(s, "*")
		if strings.Contains(body, "*") {
			return p, fmt.Errorf("%s pattern %q has a * that is not its end", what, s)
		}
		// A user id could itself end in *: it is put in after the pattern was understood.
		body = strings.ReplaceAll(body, "{user}", user)
		if wild {
			p.prefixes = append(p.prefixes, body)
		} else {
			p.exact = append(p.exact, body)
		}
	}
	return p, nil
}

// grantCache makes equal sets one object. It is bounded: when full it forgets, and later sets are equal but not identical to those given out.
type grantCache struct {
	mu  sync.Mutex
	set map[string]*Grants
}

const maxGrantSets = 4096

// get is the object for the three lists; key holds them, and the user where a pattern needs it.
func (c *grantCache) get(subscribe, publish, services []string, user string) (*Grants, error) {
	key := grantKey(subscribe, publish, services, user)
	c.mu.Lock()
	g := c.set[key]
	c.mu.Unlock()
	if g != nil {
		return g, nil
	}
	g = new(Grants)
	var err error
	if g.subscribe, err = parsePatterns("tags", subscribe, user); err != nil {
		return nil, err
	}
	if g.publish, err = parsePatterns("publish", publish, user); err != nil {
		return nil, err
	}
	if g.services, err = parsePatterns("services", services, user); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.set[key]; old != nil {
		return old, nil
	}
	if c.set == nil || len(c.set) >= maxGrantSets {
		c.set = make(map[string]*Grants)
	}
	c.set[key] = g
	return g, nil
}

func grantKey(subscribe, publish, services []string, user string) string {
	var b strings.Builder
	personal := false
	for _, list := range [...][]string{subscribe, publish, services} {
		for _, s := range list {
			personal = personal || strings.Contains(s, "{user}")
			b.WriteString(s)
			b.WriteByte(0)
		}
		b.WriteByte(1)
	}
	if personal {
		b.WriteString(user)
	}
	return b.String()
}
