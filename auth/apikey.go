package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/limit"
)

// The scopes of API keys.
const (
	ScopePush     = "push"
	ScopePresence = "presence"
	ScopeTags     = "tags"
	ScopeAdmin    = "admin"
	ScopeProbe    = "probe"
)

var scopes = [...]string{ScopePush, ScopePresence, ScopeTags, ScopeAdmin, ScopeProbe}

// MaxAPIKey bounds the bytes of an API key.
const MaxAPIKey = 512

// APIKeyConfig is one key as it is configured: the key itself is not kept, only its hash.
type APIKeyConfig struct {
	Name   string
	App    string // empty: klink.DefaultApp
	Hash   string // of HashKey
	Scopes []string
	Rate   float64 // requests a second; 0: no limit
	Burst  float64 // at once; 0: a second's worth
}

// APIKey is a back end that has shown its key.
type APIKey struct {
	name, app string
	hash      [sha256.Size]byte
	scopes    []string

	limited bool
	mu      sync.Mutex // guards bucket
	bucket  limit.Bucket
	uses    atomic.Uint64
	limits  atomic.Uint64
}

// Name is the configured name, for logs and the audit.
func (k *APIKey) Name() string { return k.name }

// App is the app that the key may act for.
func (k *APIKey) App() string { return k.app }

// Has reports whether the key has a scope.
func (k *APIKey) Has(scope string) bool { return slices.Contains(k.scopes, scope) }

// Allow takes n requests from the key's budget, or says when they will be there.
func (k *APIKey) Allow(n int, now time.Time) (ok bool, retryAfter time.Duration) {
	k.uses.Add(uint64(n))
	if !k.limited {
		return true, 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bucket.Take(now.UnixNano(), float64(n)) {
		return true, 0
	}
	k.limits.Add(1)
	return false, k.bucket.Wait(now.UnixNano(), float64(n))
}

// Uses counts requests, and refusals by the rate limit.
func (k *APIKey) Uses() (requests, limited uint64) { return k.uses.Load(), k.limits.Load() }

// ErrNoKey says that no API key was sent, ErrBadKey that it is not known.
var (
	ErrNoKey  = errors.New("no API key: send Authorization: Bearer KEY")
	ErrBadKey = errors.New("the API key is not known")
)

// APIKeys is the set of keys. It is immutable but for its counters.
type APIKeys struct {
	keys         []*APIKey
	missing, bad atomic.Uint64
}

// HashKey is how a key is configured: SHA-256 in hexadecimal digits. Keys must be long and random (32 bytes of `openssl rand -base64 32`): a fast
// hash does not protect a word that can be guessed.
func HashKey(key string) string {
	h := sha256.Sum256([]byte(key))
	return hex.EncodeToString(h[:])
}

// NewAPIKeys reads the configured keys. Names and keys are different from each other: names are labels of metrics, and a key says who acts.
func NewAPIKeys(list []APIKeyConfig) (*APIKeys, error) {
	s := new(APIKeys)
	names, hashes := make(map[string]bool), make(map[[sha256.Size]byte]string)
	for i := range list {
		k, err := newAPIKey(&list[i])
		if err != nil {
			return nil, fmt.Errorf("API key %q: %w", list[i].Name, err)
		}
		if names[k.name] {
			return nil, fmt.Errorf("two API keys have the name %q", k.name)
		}
		if other, ok := hashes[k.hash]; ok {
			return nil, fmt.Errorf("the API keys %q and %q are the same", other, k.name)
		}
		names[k.name], hashes[k.hash] = true, k.name
		s.keys = append(s.keys, k)
	}
	return s, nil
}

func newAPIKey(c *APIKeyConfig) (*APIKey, error) {
	k := &APIKey{name: c.Name, app: c.App, scopes: slices.Clone(c.Scopes), limited: c.Rate > 0}
	if k.app == "" {
		k.app = klink.DefaultApp
	}
	if c.Name == "" {
		return nil, errors.New("it has no name")
	}
	if err := klink.CheckID("app", k.app, klink.MaxAppLen); err != nil {
		return nil, err
	}
	for _, scope := range k.scopes {
		if !slices.Contains(scopes[:], scope) {
			return nil, fmt.Errorf("the scope %q is not one of %s", scope, strings.Join(scopes[:], ", "))
		}
	}
	if !(c.Rate >= 0 && c.Rate <= math.MaxFloat64 && c.Burst >= 0 && c.Burst <= math.MaxFloat64) {
		return nil, fmt.Errorf("rate %v and burst %v are not both numbers from zero on", c.Rate, c.Burst)
	}
	b, err := hex.DecodeString(c.Hash)
	if err != nil || len(b) != len(k.hash) {
		return nil, errors.New("the hash is not 64 hexadecimal digits")
	}
	copy(k.hash[:], b)
	if k.limited {
		burst := c.Burst
		if burst < 1 {
			burst = max(1, c.Rate)
		}
		k.bucket = limit.NewBucket(c.Rate, burst)
	}
	return k, nil
}

// Keys lists the keys, for metrics.
func (s *APIKeys) Keys() []*APIKey { return s.keys }

// Refused counts the headers that showed no key, and those with a key that is not known.
func (s *APIKeys) Refused() (missing, bad uint64) { return s.missing.Load(), s.bad.Load() }

// Check finds the key that an Authorization header shows. The time that it takes does not depend on which key is near.
func (s *APIKeys) Check(header string) (*APIKey, error) {
	scheme, key, _ := strings.Cut(header, " ")
	if key = strings.TrimSpace(key); !strings.EqualFold(scheme, "Bearer") || key == "" {
		s.missing.Add(1)
		return nil, ErrNoKey
	}
	var found *APIKey
	if len(key) <= MaxAPIKey {
		h := sha256.Sum256([]byte(key))
		for _, k := range s.keys {
			if subtle.ConstantTimeCompare(h[:], k.hash[:]) == 1 {
				found = k
			}
		}
	}
	if found == nil {
		s.bad.Add(1)
		return nil, ErrBadKey
	}
	return found, nil
}
