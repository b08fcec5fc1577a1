package auth

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/klinkio/klink"
)

// MaxPatterns bounds the patterns of one kind in a token, and the tags that it joins.
const MaxPatterns = 64

// EchoService may be called with every token.
const EchoService = "echo"

// Grants is what tokens allow. It is immutable, holds nothing of a single user, and is shared by all sessions whose tokens say the same.
type Grants struct {
	subscribe, publish, services []pattern
	lists                        [3][]string // as the token says them
}

// CanSubscribe reports whether the user may join the tag.
func (g *Grants) CanSubscribe(tag string, user []byte) bool { return match(g.subscribe, tag, user) }

// CanPublish reports whether the user may push to the tag.
func (g *Grants) CanPublish(tag string, user []byte) bool { return match(g.publish, tag, user) }

// CanCall reports whether the user may call the service.
func (g *Grants) CanCall(service string, user []byte) bool {
	return service == EchoService || match(g.services, service, user)
}

// userMark stands for the token's user in a pattern.
const userMark = "{user}"

// pattern is before, then the user if it is named, then after, and then anything if it is open.
type pattern struct {
	before, after string
	user          bool
	open          bool
}

func (p *pattern) match(s string, user []byte) bool {
	rest, ok := strings.CutPrefix(s, p.before)
	if !ok {
		return false
	}
	if p.user {
		if len(rest) < len(user) || rest[:len(user)] != string(user) {
			return false
		}
		rest, ok = strings.CutPrefix(rest[len(user):], p.after)
		if !ok {
			return false
		}
	}
	return p.open || rest == ""
}

func match(list []pattern, s string, user []byte) bool {
	for i := range list {
		if list[i].match(s, user) {
			return true
		}
	}
	return false
}

// parsePattern reads one pattern: a name, possibly with {user} in it once, possibly with * at its end.
func parsePattern(what, s string) (p pattern, err error) {
	if err := klink.CheckID(what+" pattern", s, klink.MaxTagLen); err != nil {
		return p, err
	}
	body, open := strings.CutSuffix(s, "*")
	p.open = open
	p.before, p.after, p.user = strings.Cut(body, userMark)
	switch {
	case strings.Contains(body, "*"):
		return p, fmt.Errorf("%s pattern %q has a * that is not its end", what, s)
	case strings.Contains(p.after, userMark):
		return p, fmt.Errorf("%s pattern %q names {user} twice", what, s)
	}
	return p, nil
}

func parsePatterns(what string, list []string) ([]pattern, error) {
	if len(list) > MaxPatterns {
		return nil, fmt.Errorf("%s has %d patterns, limit %d", what, len(list), MaxPatterns)
	}
	out := make([]pattern, 0, len(list))
	for _, s := range list {
		p, err := parsePattern(what, s)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// grantCache makes equal sets one object. It is bounded: when full it forgets, and later sets are equal but not identical to those given out.
type grantCache struct {
	mu  sync.RWMutex
	set map[string]*Grants // by the raw text of the claims, and by the canonical form
}

// maxGrantSets bounds the cache's entries.
const maxGrantSets = 4096

// claimOf names the claims of a set, in the order of Grants.lists.
var claimOf = [...]string{"tags", "publish", "services"}

// get is the object for the raw text of the three claims.
func (c *grantCache) get(raw *[3][]byte) (*Grants, error) {
	var buf [512]byte
	key := buf[:0]
	for _, r := range raw {
		key = append(append(key, r...), 0) // no JSON text holds a zero byte
	}
	c.mu.RLock()
	g := c.set[string(key)]
	c.mu.RUnlock()
	if g != nil {
		return g, nil
	}
	g, err := parseGrants(raw)
	if err != nil {
		return nil, err
	}
	canon := g.canonical()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set == nil || len(c.set)+2 > maxGrantSets {
		c.set = make(map[string]*Grants)
	}
	if old := c.set[canon]; old != nil {
		g = old
	}
	c.set[canon], c.set[string(key)] = g, g
	return g, nil
}

func parseGrants(raw *[3][]byte) (*Grants, error) {
	g := new(Grants)
	for i, dst := range [...]*[]pattern{&g.subscribe, &g.publish, &g.services} {
		if len(raw[i]) == 0 {
			continue
		}
		list, err := textsOf(raw[i], false)
		if err != nil {
			return nil, fmt.Errorf("%s is not a list of strings", claimOf[i])
		}
		if *dst, err = parsePatterns(claimOf[i], list); err != nil {
			return nil, err
		}
		g.lists[i] = list
	}
	return g, nil
}

// canonical is the same for sets that allow the same in another order. Its first byte starts no raw text.
func (g *Grants) canonical() string {
	out := []byte{1}
	for _, list := range g.lists {
		sorted := slices.Clone(list)
		slices.Sort(sorted)
		for _, s := range slices.Compact(sorted) {
			out = append(append(out, s...), 0) // no pattern holds a control character
		}
		out = append(out, 0)
	}
	return string(out)
}
