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
	next := &l.Config
	if p.level != nil {
		setLevel(p.level, next.Log.Level)
	}
	var certErr error
	if p.servesTLS() {
		certErr = p.cert.load(&next.TLS, p.dev)
	}
	tokenErr := p.tokens.reload(&next.Auth, p.dev)
	keyErr := p.apiKeys.load(&next.Auth, p.dev)
	kept := map[string]bool{
		"tls.cert": certErr != nil, "tls.key": certErr != nil, "auth.keys": tokenErr != nil, "auth.api_keys": keyErr != nil,
	}
	for _, k := range config.Keys() {
		switch {
		case kept[k.Path] || k.Equal(&p.cfg, next):
		case k.Reload:
			taken = append(taken, k.Path)
			k.Copy(&p.cfg, next)
		default:
			restart = append(restart, k.Path)
		}
	}
	p.setOrigins()
	return taken, restart, errors.Join(certErr, tokenErr, keyErr)
}
