package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
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

// APIKeys is the set of keys. It is immutable.
type APIKeys struct{ keys []*APIKey }

// HashKey is how a key is configured: SHA-256 in hexadecimal digits. Keys must be long and random: a fast hash does not protect a word.
func HashKey(key string) string {
	h := sha256.Sum256([]byte(key))
	return hex.EncodeToString(h[:])
}

// NewAPIKeys reads the configured keys.
func NewAPIKeys(list []APIKeyConfig) (*APIKeys, error) {
	s := new(APIKeys)
	for _, c := range list {
		k := &APIKey{name: c.Name, app: c.App, scopes: slices.Clone(c.Scopes), limited: c.Rate > 0}
		if k.app == "" {
			k.app = klink.DefaultApp
		}
		b, err := hex.DecodeString(c.Hash)
		if err != nil || len(b) != len(k.hash) {
			return nil, fmt.Errorf("API key %q: the hash is not 64 hexadecimal digits", c.Name)
		}
		copy(k.hash[:], b)
		if k.limited {
			burst := c.Burst
			if burst < 1 {
				burst = max(1, c.Rate)
			}
			k.bucket = limit.NewBucket(c.Rate, burst)
		}
		s.keys = append(s.keys, k)
	}
	return s, nil
}

// Keys lists the keys, for metrics.
func (s *APIKeys) Keys() []*APIKey { return s.keys }

// Check finds the key that an Authorization header shows. The time that it takes does not depend on which key is near.
func (s *APIKeys) Check(header string) (*APIKey, error) {
	scheme, key, _ := strings.Cut(header, " ")
	if key = strings.TrimSpace(key); !strings.EqualFold(scheme, "Bearer") || key == "" {
		return nil, ErrNoKey
	}
	h := sha256.Sum256([]byte(key))
	var found *APIKey
	for _, k := range s.keys {
		if subtle.ConstantTimeCompare(h[:], k.hash[:]) == 1 {
			found = k
		}
	}
	if found == nil {
		return nil, ErrBadKey
	}
	return found, nil
}
