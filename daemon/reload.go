package daemon

import (
	"errors"

	"github.com/klinkio/klink/config"
)

// Reload takes from a new configuration what can change while connections live: certificates and keys are read again from their files, too.
// It says which keys had changed and were taken, and which need a restart. On an error the part that it names stays as it was.
func (p *Process) Reload(l *config.Loaded) (taken, restart []string, err error) {
	p.reloadMu.Lock()
	defer p.reloadMu.Unlock()
	var errs []error
	next := &l.Config
	if p.level != nil {
		setLevel(p.level, next.Log.Level)
	}
	if p.servesTLS() {
		errs = append(errs, p.cert.load(&next.TLS, p.dev))
	}
	errs = append(errs, p.tokens.reload(&next.Auth, p.dev), p.apiKeys.load(&next.Auth, p.dev))
	for _, k := range config.Keys() {
		switch {
		case k.Equal(&p.cfg, next):
		case k.Reload:
			taken = append(taken, k.Path)
			k.Copy(&p.cfg, next)
		default:
			restart = append(restart, k.Path)
		}
	}
	p.setOrigins()
	return taken, restart, errors.Join(errs...)
}
