package push

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/klinkio/klink"
)

// Limits of idempotency keys.
const (
	// MaxOnceKey bounds an idempotency key in bytes.
	MaxOnceKey = 128
	// OnceTTL is how long the answer to a key is kept.
	OnceTTL = 10 * time.Minute
	// MaxOnce bounds the answers kept; when full, the oldest one goes.
	MaxOnce = 10_000
)

// Once makes a push take effect once: a later push of the same app with the same key gets the answer of the first one for [OnceTTL].
// While the first one is under way the answer is [ErrInProgress]; a different digest is [ErrKeyReused]. A push of which nothing was
// done does not use its key up.
type Once struct {
	Key    string // empty: none
	Digest [sha256.Size]byte
}

// Errors of idempotency keys.
var (
	ErrInProgress = klink.Errorf(klink.CodeConflict, "a push with this idempotency key is under way")
	ErrKeyReused  = klink.Errorf(klink.CodeConflict, "this idempotency key was used for a different push")
	errOnceFull   = klink.Errorf(klink.CodeOverloaded, "too many pushes with idempotency keys are under way")
)

type onceKey struct{ app, key string }

// onceAnswer is the place of an answer. The table's lock guards it.
type onceAnswer struct {
	key    onceKey
	digest [sha256.Size]byte
	begun  time.Time
	done   bool
	result Result // without outcomes
}

// onceTable keeps answers in the order in which their pushes began.
type onceTable struct {
	mu      sync.Mutex
	answers map[onceKey]*onceAnswer
	order   []*onceAnswer // from head on; entries that are not in answers any more are skipped
	head    int
}

// begin finds the answer for o, or makes o the push that will give it.
func (s *Service) begin(o *op, once Once) (*Result, error) {
	if err := klink.CheckID("idempotency key", once.Key, MaxOnceKey); err != nil {
		return nil, s.refused(badField(klink.CodeInvalid, "Idempotency-Key", "%w", err))
	}
	a, fresh, err := s.once.begin(onceKey{o.p.App, once.Key}, once.Digest, time.Now())
	switch {
	case err != nil:
		return nil, s.refused(err)
	case fresh:
		o.once = a
		return nil, nil
	}
	s.stats.replayed.Add(1)
	r := a.result
	r.Replayed = true
	return &r, nil
}

func (t *onceTable) begin(k onceKey, digest [sha256.Size]byte, now time.Time) (a *onceAnswer, fresh bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	if a := t.answers[k]; a != nil {
		switch {
		case a.digest != digest:
			return nil, false, ErrKeyReused
		case !a.done:
			return nil, false, ErrInProgress
		}
		return a, false, nil
	}
	if len(t.answers) >= MaxOnce && !t.evict() {
		return nil, false, errOnceFull
	}
	a = &onceAnswer{key: k, digest: digest, begun: now}
	t.answers[k] = a
	t.push(a)
	return a, true, nil
}

func (t *onceTable) push(a *onceAnswer) {
	if t.head > len(t.order)/2 || len(t.order)-t.head >= 2*MaxOnce {
		kept := t.order[:0]
		for _, o := range t.order[t.head:] {
			if t.answers[o.key] == o {
				kept = append(kept, o)
			}
		}
		clear(t.order[len(kept):])
		t.order, t.head = kept, 0
	}
	t.order = append(t.order, a)
}

// expire removes what is older than OnceTTL, also pushes whose front end has never answered.
func (t *onceTable) expire(now time.Time) {
	for t.head < len(t.order) {
		a := t.order[t.head]
		live := t.answers[a.key] == a
		if live && now.Sub(a.begun) < OnceTTL {
			return
		}
		if live {
			delete(t.answers, a.key)
		}
		t.order[t.head] = nil
		t.head++
	}
}

// evict makes room by removing the oldest finished answer.
func (t *onceTable) evict() bool {
	for i := t.head; i < len(t.order); i++ {
		if a := t.order[i]; a.done && t.answers[a.key] == a {
			delete(t.answers, a.key)
			return true
		}
	}
	return false
}

// end stores the answer. Nothing was done if err is set: then the key is free again.
func (t *onceTable) end(a *onceAnswer, r *Result, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if t.answers[a.key] == a {
			delete(t.answers, a.key)
		}
		return
	}
	a.done, a.result = true, *r
	a.result.Report.Outcomes, a.result.Report.SentTo = nil, nil
}
