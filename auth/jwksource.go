package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	maxJWKS      = 64 << 10
	jwksRefresh  = 5 * time.Minute
	jwksRetry    = 10 * time.Second // after a failure, and at the earliest when unknown kids ask for it
	jwksTimeout  = 10 * time.Second
	maxRedirects = 3
)

// jwkSource is where a JWK set comes from.
type jwkSource struct {
	from   string // URL or file
	client *http.Client
	ask    chan struct{} // of size 1: one wish is as good as many
	last   atomic.Pointer[jwkSet]

	refreshed, failed atomic.Uint64
}

// jwkSet is the last good set.
type jwkSet struct {
	sum    [sha256.Size]byte // of its text
	at     time.Time
	keys   int
	passed []error // why keys were passed over
}

// JWKSStats says how it is about the JWK set.
type JWKSStats struct {
	Keys              int       // in force
	PassedOver        int       // keys of the set that can't be used here
	At                time.Time // when the set was last read with success; zero: never
	Refreshed, Failed uint64    // readings
}

// hint says that a token named a kid that nobody knows: perhaps the set has changed.
func (s *jwkSource) hint() {
	if s == nil {
		return
	}
	select {
	case s.ask <- struct{}{}:
	default:
	}
}

// UseJWKS makes the verifier take keys from a JWK set (RFC 7517) too: a file, an https URL, or an http URL of this host. It reads the
// set once and reports how that went. An address that is not to be trusted changes nothing; after any other error the verifier works with the
// keys that it has until [Verifier.Run] reads the set. It is called once, before the verifier is used.
func (v *Verifier) UseJWKS(ctx context.Context, from string) error {
	s := &jwkSource{from: from, ask: make(chan struct{}, 1)}
	if s.remote() {
		u, err := url.Parse(from)
		if err != nil {
			return errors.New("read JWK set: the address is no URL")
		}
		if err := trusted(u); err != nil {
			return fmt.Errorf("read JWK set: %w", err)
		}
		s.client = newJWKSClient()
	}
	v.source = s
	return v.refresh(ctx)
}

// JWKS says how it is about the JWK set; zero if there is none.
func (v *Verifier) JWKS() JWKSStats {
	s := v.source
	if s == nil {
		return JWKSStats{}
	}
	st := JWKSStats{Refreshed: s.refreshed.Load(), Failed: s.failed.Load()}
	if l := s.last.Load(); l != nil {
		st.Keys, st.PassedOver, st.At = l.keys, len(l.passed), l.at
	}
	return st
}

// Run reads the set again about every five minutes, every ten seconds while that fails, and soon when a token names an unknown kid, but
// never more often than every ten seconds. The last good set stays in force while the source is away. It returns when ctx ends.
func (v *Verifier) Run(ctx context.Context, log *slog.Logger) {
	s := v.source
	if s == nil {
		return
	}
	known := s.last.Load()
	s.report(log, known)
	last := time.Now()
	for wait := s.pause(known != nil); ; {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-s.ask:
			timer.Reset(time.Until(last.Add(jwksRetry)))
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
		last = time.Now()
		err := v.refresh(ctx)
		if err != nil && ctx.Err() == nil {
			log.Warn("the JWK set was not refreshed, the last one stays in force", "err", err)
		}
		if l := s.last.Load(); l != nil && (known == nil || l.sum != known.sum) {
			s.report(log, l)
			known = l
		}
		wait = s.pause(err == nil)
	}
}

// pause is how long to wait for the next reading. Front ends that started together do not all come at once.
func (s *jwkSource) pause(good bool) time.Duration {
	if !good {
		return jwksRetry
	}
	return jwksRefresh - rand.N(jwksRefresh/10)
}

func (s *jwkSource) report(log *slog.Logger, l *jwkSet) {
	if l == nil {
		return
	}
	for _, err := range l.passed {
		log.Warn("a key of the JWK set can't be used", "err", err)
	}
}

// refresh reads the set once. A set without any key that can be used is an error: more likely it is not the set than that all
// users are to be locked out.
func (v *Verifier) refresh(ctx context.Context) error {
	s := v.source
	next, keys, err := s.read(ctx)
	if err != nil {
		s.failed.Add(1)
		return fmt.Errorf("read JWK set: %w", err)
	}
	s.refreshed.Add(1)
	if last := s.last.Swap(next); last != nil && last.sum == next.sum {
		return nil
	}
	m := make(map[string]*Key, len(keys))
	for _, k := range keys {
		m[k.KID] = k
	}
	v.set.Store(&m)
	return nil
}

func (s *jwkSource) read(ctx context.Context) (*jwkSet, []*Key, error) {
	var text []byte
	var err error
	if s.remote() {
		text, err = s.fetch(ctx)
	} else {
		text, err = readFile(s.from)
	}
	if err != nil {
		return nil, nil, err
	}
	keys, passed, err := ParseJWKS(text)
	if err != nil {
		return nil, nil, err
	}
	if s.remote() {
		keys = slices.DeleteFunc(keys, func(k *Key) bool {
			if k.Alg == HS256 {
				passed = append(passed, fmt.Errorf("key %q: a secret that is published", k.KID))
			}
			return k.Alg == HS256
		})
	}
	if len(keys) == 0 {
		return nil, nil, errors.Join(append([]error{errors.New("it holds no key that can be used")}, passed...)...)
	}
	return &jwkSet{sum: sha256.Sum256(text), at: time.Now(), keys: len(keys), passed: passed}, keys, nil
}

func (s *jwkSource) remote() bool {
	return strings.HasPrefix(s.from, "http://") || strings.HasPrefix(s.from, "https://")
}

// trusted refuses addresses where somebody on the way could put in a key of their own.
func trusted(u *url.URL) error {
	host := u.Hostname()
	ip := net.ParseIP(host)
	if u.Scheme == "https" || (u.Scheme == "http" && (host == "localhost" || (ip != nil && ip.IsLoopback()))) {
		return nil
	}
	return fmt.Errorf("%s://%s is not to be trusted with keys: use https", u.Scheme, u.Host)
}

func newJWKSClient() *http.Client {
	return &http.Client{
		Timeout: jwksTimeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableKeepAlives: true, MaxResponseHeaderBytes: maxJWKS,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return errors.New("it redirects too often")
			}
			return trusted(req.URL)
		},
	}
}

func (s *jwkSource) fetch(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.from, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the source answers %s", res.Status)
	}
	return readBounded(res.Body)
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f)
}

func readBounded(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxJWKS+1))
	if err == nil && len(b) > maxJWKS {
		err = errors.New("larger than 64 KiB")
	}
	return b, err
}
