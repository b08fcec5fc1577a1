package presence

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

// Limits of one question.
const (
	MaxUsers = 1000 // users of one query
	MaxPage  = 1000 // members of one page
)

// Service answers who is online. Its methods are safe for concurrent use.
type Service struct {
	store   crux.Store
	dir     Directory
	timeout time.Duration
	stats   counters
}

type counters struct{ queries, users, stale, errors atomic.Uint64 }

// Stats are counts since the start.
type Stats struct {
	Queries uint64 // calls of Query
	Users   uint64 // users asked for in them
	Stale   uint64 // users of which the answer was stale
	Errors  uint64 // questions of any kind that could not be answered
}

// Config is what a service is made of. Store and Directory are needed.
type Config struct {
	Store     crux.Store
	Directory Directory
	Timeout   time.Duration // for questions to front ends: 10 s
}

// New makes a service.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Directory == nil {
		return nil, errors.New("presence: no user state or no directory of front ends")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	return &Service{store: cfg.Store, dir: cfg.Directory, timeout: cfg.Timeout}, nil
}

// NonBlocking says that Query answers from memory.
func (s *Service) NonBlocking() bool { return s.store.NonBlocking() }

// Stats reads the counters.
func (s *Service) Stats() Stats {
	return Stats{Queries: s.stats.queries.Load(), Users: s.stats.users.Load(), Stale: s.stats.stale.Load(), Errors: s.stats.errors.Load()}
}

// Query reads up to [MaxUsers] users of an app in one read; the answer at index i belongs to users[i].
func (s *Service) Query(ctx context.Context, app string, users []string) ([]crux.User, error) {
	s.stats.queries.Add(1)
	if len(users) > MaxUsers {
		return nil, s.failed(klink.Errorf(klink.CodeLimit, "%d users, limit %d", len(users), MaxUsers))
	}
	s.stats.users.Add(uint64(len(users)))
	list, err := s.store.Lookup(ctx, app, users)
	if err != nil {
		return nil, s.failed(storeError(err, len(users)))
	}
	for i := range list {
		if list[i].Stale {
			s.stats.stale.Add(1)
		}
	}
	return list, nil
}

func storeError(err error, n int) error {
	code := klink.CodeInternal
	switch {
	case errors.Is(err, crux.ErrUnavailable), errors.Is(err, crux.ErrClosed):
		code = klink.CodeUnavailable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		code = klink.CodeTimeout
	}
	return klink.Errorf(code, "look up %d users: %w", n, err)
}

func (s *Service) failed(err error) error {
	s.stats.errors.Add(1)
	return err
}
