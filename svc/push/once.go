package push

import (
	"container/list"
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
	key      onceKey
	digest   [sha256.Size]byte
	begun    time.Time
	age      *list.Element // in byAge; nil: not in the table any more
	finished *list.Element // in finished; nil: under way
	result   Result        // without outcomes
}

// onceTable holds answers and pushes that will give one.
type onceTable struct {
	mu       sync.Mutex
	answers  map[onceKey]*onceAnswer
	byAge    list.List // in the order in which the pushes began
	finished list.List // in the order in which they ended
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
		case a.finished == nil:
			return nil, false, ErrInProgress
		}
		return a, false, nil
	}
	if len(t.answers) >= MaxOnce {
		oldest := t.finished.Front()
		if oldest == nil {
			return nil, false, errOnceFull
		}
		t.remove(oldest.Value.(*onceAnswer))
	}
	a = &onceAnswer{key: k, digest: digest, begun: now}
	t.answers[k], a.age = a, t.byAge.PushBack(a)
	return a, true, nil
}

// expire removes what is older than OnceTTL, also pushes whose front end has never answered.
func (t *onceTable) expire(now time.Time) {
	for e := t.byAge.Front(); e != nil; e = t.byAge.Front() {
		a := e.Value.(*onceAnswer)
		if now.Sub(a.begun) < OnceTTL {
			return
		}
		t.remove(a)
	}
}

func (t *onceTable) remove(a *onceAnswer) {
	if a.age == nil {
		return
	}
	delete(t.answers, a.key)
	t.byAge.Remove(a.age)
	if a.finished != nil {
		t.finished.Remove(a.finished)
	}
	a.age, a.finished = nil, nil
}

// end stores the answer. Nothing was done if err is set: then the key is free again.
func (t *onceTable) end(a *onceAnswer, r *Result, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.remove(a)
		return
	}
	a.result = *r
	a.result.Report.Outcomes, a.result.Report.SentTo = nil, nil
	if a.age != nil {
		a.finished = t.finished.PushBack(a)
	}
}
