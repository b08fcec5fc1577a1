package api

import (
	"net/http"
	"time"
)

// The scopes that routes ask for.
const (
	ScopePush     = "push"
	ScopePresence = "presence"
	ScopeTags     = "tags"
	ScopeAdmin    = "admin"
)

// Key is a back end that has shown its API key.
type Key interface {
	Name() string // for the audit
	App() string  // the app that it acts for
	Has(scope string) bool
	// Allow takes n requests from the key's rate, or says when they will be there.
	Allow(n int, now time.Time) (ok bool, retryAfter time.Duration)
}

// Keys knows the API keys.
type Keys interface {
	// Check finds the key that an Authorization header shows. The text of the error is told to the client.
	Check(header string) (Key, error)
}

// KeyFunc makes Keys of a function that returns a concrete type of key.
type KeyFunc[K Key] func(header string) (K, error)

// Check implements [Keys].
func (f KeyFunc[K]) Check(header string) (Key, error) {
	k, err := f(header)
	if err != nil {
		return nil, err
	}
	return k, nil
}

// authorize finds the key of a request and checks its scope; an empty scope: any key will do.
func (c *call) authorize(keys Keys, scope string) error {
	header := ""
	if v := c.r.Header["Authorization"]; len(v) > 0 {
		header = v[0]
	}
	key, err := authorized(keys, header, scope)
	c.key = key // also of a refused call, for the audit
	return err
}

// authorized finds the key that a header shows; besides the error of a scope that it lacks.
func authorized(keys Keys, header, scope string) (Key, error) {
	key, err := keys.Check(header)
	if err != nil {
		return nil, &failure{kind: problemUnauthorized, detail: err.Error()}
	}
	if scope != "" && !key.Has(scope) {
		return key, &failure{kind: problemForbidden, detail: "the API key " + key.Name() + " lacks the scope " + scope}
	}
	return key, nil
}

// challenge is the WWW-Authenticate header of a request without a good key.
const challenge = `Bearer realm="klink"`

// neverRetry is from where on waiting for the rate is pointless: the request costs more than the key ever has at once.
const neverRetry = time.Hour

// spend takes n requests from the key's rate.
func (c *call) spend(n int) error { return spent(c.key, n, time.Now()) }

func spent(key Key, n int, now time.Time) error {
	ok, retry := key.Allow(n, now)
	switch {
	case ok:
		return nil
	case retry >= neverRetry && n > 1: // only batches take more than one
		return &failure{kind: problemLimit, detail: "the batch is larger than the burst of the API key: send smaller ones"}
	}
	return &failure{kind: problemRateLimited, detail: "the rate of the API key " + key.Name() + " is used up", retry: min(retry, neverRetry)}
}

// crossOrigin refuses what a browser sends from a page of another origin.
func crossOrigin(h http.Handler, deny http.Handler) http.Handler {
	p := http.NewCrossOriginProtection()
	p.SetDenyHandler(deny)
	return p.Handler(h)
}
