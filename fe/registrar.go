package fe

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/klinkio/klink/crux"
)

const (
	maxRegistering = 65536 // logins that wait for the store
	registerBatch  = 512   // in one call
	storeTimeout   = 5 * time.Second
	unregisterWait = time.Second // between tries while the store is away
)

// registrar talks to a store that has to be waited for. What comes while a call is under way goes with the next one, so a
// login storm costs few calls.
type registrar struct {
	store crux.Store
	log   *slog.Logger

	mu     sync.Mutex
	logins []*login
	outs   []crux.Unregistration
	wake   chan struct{} // size 1: one signal stands for any number of entries
}

func newRegistrar(s crux.Store, log *slog.Logger) *registrar {
	return &registrar{store: s, log: log, wake: make(chan struct{}, 1)}
}

func (r *registrar) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
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
		r.signal()
	}
	return !full
}

// unregister queues a logout. Logouts are bounded by the sessions there were; they are kept while the store is away.
func (r *registrar) unregister(u crux.Unregistration) {
	r.mu.Lock()
	r.outs = append(r.outs, u)
	r.mu.Unlock()
	r.signal()
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

// round does one batch of each kind and reports whether more waits.
func (r *registrar) round(ctx context.Context) (more bool) {
	r.mu.Lock()
	logins := take(&r.logins)
	outs := take(&r.outs)
	more = len(r.logins)+len(r.outs) > 0
	r.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if len(outs) > 0 {
		if _, err := r.store.Unregister(call, outs); err != nil {
			r.log.Warn("logouts not recorded, trying again", "count", len(outs), "err", err)
			r.mu.Lock()
			r.outs = append(outs, r.outs...)
			r.mu.Unlock()
			time.AfterFunc(unregisterWait, r.signal)
			more = false
		}
	}
	if len(logins) == 0 {
		return more
	}
	regs := make([]crux.Registration, len(logins))
	for i, lg := range logins {
		regs[i] = lg.reg
	}
	res, err := r.store.Register(call, regs)
	for i, lg := range logins {
		if lg.regErr = err; err == nil {
			lg.res = res[i]
		}
		lg.shard.Post(lg)
	}
	return more
}

// take cuts at most a batch off the front.
func take[T any](list *[]T) []T {
	n := min(len(*list), registerBatch)
	out := append([]T(nil), (*list)[:n]...)
	*list = (*list)[:copy(*list, (*list)[n:])]
	return out
}
