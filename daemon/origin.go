package daemon

import (
	"net"
	"net/url"
	"strings"
)

// originSet is which pages may connect; empty: those of the address that is dialled.
type originSet struct {
	all  bool
	list map[string]bool // scheme://host[:port], lower case
}

// setOrigins takes fe.origins. In development the pages of the API's own port may connect, too.
func (p *Process) setOrigins() {
	set := &originSet{list: make(map[string]bool)}
	for _, o := range p.cfg.FE.Origins {
		if o == "*" {
			set.all = true
		}
		set.list[strings.TrimSuffix(strings.ToLower(o), "/")] = true
	}
	if p.dev != nil {
		for _, h := range p.demoHosts() {
			_, port, err := net.SplitHostPort(p.apiListener.Addr().String())
			if err == nil {
				set.list["http://"+net.JoinHostPort(h, port)] = true
			}
		}
	}
	p.origins.Store(set)
}

// origin decides about one page, on the loops.
func (p *Process) origin(origin, host string) bool {
	set := p.origins.Load()
	switch {
	case set.all || set.list[strings.ToLower(origin)]:
		return true
	case len(set.list) > 0 && p.dev == nil:
		return false
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}
