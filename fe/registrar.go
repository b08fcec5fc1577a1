package fe

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

const (
	maxRegistering = 65536 // logins that wait for the store
	maxLogouts     = 1 << 18
	registerBatch  = 512         // in one call
	unregisterWait = time.Second // between tries while the store is away

	// storeTimeout bounds a call that somebody waits for. A login may wait for two calls before its own, within its LoginTimeout.
	storeTimeout    = 1500 * time.Millisecond
	registerTimeout = 5 * time.Second // of a front end
)

// registrar talks to a store that has to be waited for. What comes while a call is under way goes with the next one, so a
// login storm costs few calls.
type registrar struct {
	store  crux.Store
	log    *slog.Logger
	forgot atomic.Bool // more logouts than maxLogouts could not be recorded: only a new life makes those sessions offline

	mu      sync.Mutex
	logins  []*login
	outs    []crux.Unregistration
	retryAt time.Time     // no logouts before
	wake    chan struct{} // size 1: one signal stands for any number of entries
}

func newRegistrar(s crux.Store, log *slog.Logger) *registrar {
	return &registrar{store: s, log: log, wake: make(chan struct{}, 1)}
}

// register queues a login; its task is posted when the store has answered. False: too many wait.
func (r *registrar) register(lg *login) bool {
	r.mu.Lock()
	full := len(r.logins) >= maxRegistering
	if !full {
		r.logins = append(r.logins, lg)
	}
	r.mu.Unlock()
	if !full {
		signal(r.wake)
	}
	return !full
}

// unregister queues a logout. Logouts are kept while the store is away, up to maxLogouts.
func (r *registrar) unregister(u crux.Unregistration) {
	r.mu.Lock()
	if len(r.outs) >= maxLogouts {
		r.forgot.Store(true)
		r.outs = nil
	}
	if !r.forgot.Load() {
		r.outs = append(r.outs, u)
	}
	r.mu.Unlock()
	signal(r.wake)
}

// newLife forgets the logouts of lives before: those sessions are offline.
func (r *registrar) newLife(inc klink.Incarnation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outs = slices.DeleteFunc(r.outs, func(u crux.Unregistration) bool { return u.Incarnation != inc })
	r.forgot.Store(false)
}

func (r *registrar) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		for r.round(ctx) {
		}
	}
}

// round does one batch of each kind, logouts first, and reports whether more waits.
func (r *registrar) round(ctx context.Context) (more bool) {
	r.mu.Lock()
	logins := take(&r.logins)
	var outs []crux.Unregistration
	if !time.Now().Before(r.retryAt) {
		outs = take(&r.outs)
		more = len(r.outs) > 0
	}
	more = more || len(r.logins) > 0
	r.mu.Unlock()
	if len(outs) > 0 {
		r.logout(ctx, outs)
	}
	if len(logins) > 0 {
		r.login(ctx, logins)
	}
	return more && ctx.Err() == nil
}

func (r *registrar) logout(ctx context.Context, outs []crux.Unregistration) {
	call, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if _, err := r.store.Unregister(call, outs); err != nil {
		r.log.Warn("logouts not recorded, trying again", "count", len(outs), "err", err)
		r.mu.Lock()
		r.outs = append(outs, r.outs...)
		r.retryAt = time.Now().Add(unregisterWait)
		r.mu.Unlock()
		time.AfterFunc(unregisterWait, func() { signal(r.wake) })
	}
}

// login registers a batch. A store that does not answer it has nothing for those that came meanwhile either: they get the same answer, as
// their devices would not wait for their turn.
func (r *registrar) login(ctx context.Context, logins []*login) {
	regs := make([]crux.Registration, len(logins))
	for i, lg := range logins {
		regs[i] = lg.reg
	}
	call, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	res, err := r.store.Register(call, regs)
	for i, lg := range logins {
		if lg.regErr = err; err == nil {
			lg.res = res[i]
		}
		lg.shard.Post(lg)
	}
	if err == nil {
		return
	}
	r.mu.Lock()
	rest := r.logins
	r.logins = nil
	r.mu.Unlock()
	for _, lg := range rest {
		lg.regErr, lg.unsent = err, true
		lg.shard.Post(lg)
	}
}

// take cuts at most a batch off the front. What it returns has no room to grow into the rest.
func take[T any](list *[]T) []T {
	n := min(len(*list), registerBatch)
	out := (*list)[:n:n]
	if *list = (*list)[n:]; len(*list) == 0 {
		*list = nil
	}
	return out
}
