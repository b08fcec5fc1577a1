package push

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

// Config is what a service is made of. Store and Directory are needed.
type Config struct {
	Store     crux.Store
	Directory Directory
	Timeout   time.Duration // how long an answer is waited for: 10 s
	Traces    int           // pushes kept for Trace: 10,000; negative: none
}

// Service pushes. Its methods are safe for concurrent use.
type Service struct {
	store    crux.Store
	dir      Directory
	timeout  time.Duration
	exprs    exprCache
	once     onceTable
	tagLocks *tagLocks
	traces   traceRing
	stats    counters
	timers   sync.Pool
	wg       sync.WaitGroup // lookups that could not be made where they were needed
}

// New makes a service.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Directory == nil {
		return nil, errors.New("push: no user state or no directory of front ends")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Traces == 0 {
		cfg.Traces = DefaultTraces
	}
	s := &Service{store: cfg.Store, dir: cfg.Directory, timeout: cfg.Timeout, tagLocks: newTagLocks()}
	s.once.answers = make(map[onceKey]*onceAnswer)
	s.once.byAge.Init()
	s.once.finished.Init()
	s.traces.limit, s.traces.maxBytes = max(cfg.Traces, 0), maxTraceBytes
	return s, nil
}

// Timeout is how long an answer is waited for.
func (s *Service) Timeout() time.Duration { return s.timeout }

// Close waits for what the service does on its own. Front ends and the store must still be there.
func (s *Service) Close() { s.wg.Wait() }

// Result is the answer to a push.
type Result struct {
	Push      string // its id
	Report    klink.Report
	Unreached []Unreached // front ends that did not take the push
	Replayed  bool        // the answer to an earlier push with the same idempotency key
}

// Unreached is a front end that did not take a push, and why.
type Unreached struct {
	FE   string
	Code klink.Code
	Text string
}

// Push sends p and waits for what it reached. Payload.Data of kind JSON is one valid JSON value, of kind text UTF-8: the caller has
// checked that. That nobody was reached is not an error. When ctx or the time limit ends first, the answer is
// klink.CodeTimeout and the push goes on.
//
// With a key, an earlier push of the app with the same key answers for this one; see [Once].
func (s *Service) Push(ctx context.Context, p *klink.Push, once Once) (*Result, error) {
	if err := s.Check(p); err != nil {
		return nil, s.refused(err)
	}
	o := &op{s: s, p: p}
	if once.Key != "" {
		prior, err := s.begin(o, once)
		if err != nil || prior != nil {
			return prior, err
		}
	}
	o.own.ready = make(chan struct{}, 1)
	o.own.left.Store(1)
	o.waiter = &o.own
	o.names = o.appendNames(nil)
	s.run(ctx, o)
	if !s.wait(ctx, o.waiter) {
		return nil, s.refused(klink.Errorf(klink.CodeTimeout, "push %s: the front ends have not finished; it goes on", p.ID))
	}
	return o.answer()
}

// Item is one push of a batch.
type Item struct {
	Push *klink.Push
	Once Once
	Err  error // set by the caller: the item is refused for this reason
}

// Answer is what became of one item.
type Answer struct {
	Result *Result
	Err    error
}

// PushBatch sends many pushes of one app in their order, looking their users up in one read. Each has its own answer.
func (s *Service) PushBatch(ctx context.Context, items []Item) []Answer {
	answers := make([]Answer, len(items))
	ops := make([]op, len(items))
	w := waiter{ready: make(chan struct{}, 1)}
	w.left.Store(1)
	var names []string
	app := ""
	for i := range items {
		it, o := &items[i], &ops[i]
		err := it.Err
		if err == nil {
			err = s.Check(it.Push)
		}
		if err != nil {
			answers[i].Err = s.refused(err)
			continue
		}
		o.s, o.p = s, it.Push
		if it.Once.Key != "" {
			if answers[i].Result, answers[i].Err = s.begin(o, it.Once); answers[i] != (Answer{}) {
				o.p = nil
				continue
			}
		}
		app = it.Push.App
		from := len(names)
		names = o.appendNames(names)
		o.from, o.n = from, len(names)-from
		o.waiter = &w
		w.left.Add(1)
	}
	users, err := s.lookup(ctx, app, names)
	for i := range ops {
		o := &ops[i]
		if o.p == nil {
			continue
		}
		o.names = names[o.from : o.from+o.n]
		if err != nil && o.n > 0 {
			o.fail(err)
			continue
		}
		s.begun(o)
		if err != nil {
			o.send(nil)
		} else {
			o.send(users[o.from : o.from+o.n])
		}
	}
	w.done()
	inTime := s.wait(ctx, &w)
	for i := range ops {
		o := &ops[i]
		switch {
		case o.p == nil:
		case inTime || o.ended.Load():
			answers[i].Result, answers[i].Err = o.answer()
		default:
			answers[i].Err = s.refused(klink.Errorf(klink.CodeTimeout, "push %s: the front ends have not finished; it goes on", o.p.ID))
		}
	}
	return answers
}

// Publish sends what a client publishes. It does not block: done is called once, on any goroutine and possibly before Publish
// returns, and must not block either.
func (s *Service) Publish(p *klink.Push, done func(klink.Report, error)) {
	err := s.Check(p)
	if err == nil {
		err = checkPayload(&p.Payload)
	}
	if err != nil {
		done(klink.Report{}, s.refused(err))
		return
	}
	s.start(p, func(res *Result, err error) { done(res.Report, err) })
}

// Start is Push without an idempotency key for callers that must not block, under the conditions of Push. A push that is refused at once is an
// error and nothing was begun; else done is called once, on any goroutine and possibly before Start returns, and must not block.
func (s *Service) Start(p *klink.Push, done func(*Result, error)) error {
	if err := s.Check(p); err != nil {
		return s.refused(err)
	}
	s.start(p, done)
	return nil
}

func (s *Service) start(p *klink.Push, done func(*Result, error)) {
	o := &op{s: s, p: p, callback: done}
	o.names = o.appendNames(nil)
	if len(o.names) == 0 || s.store.NonBlocking() {
		s.run(context.Background(), o)
		return
	}
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
		defer cancel()
		s.run(ctx, o)
	})
}

// run looks up and sends.
func (s *Service) run(ctx context.Context, o *op) {
	users, err := s.lookup(ctx, o.p.App, o.names)
	if err != nil {
		o.fail(err)
		return
	}
	s.begun(o)
	o.send(users)
}

func (s *Service) begun(o *op) {
	s.stats.pushes.Add(1)
	o.trace = s.traces.begin(o.p)
}

func (s *Service) lookup(ctx context.Context, app string, names []string) ([]crux.User, error) {
	if len(names) == 0 {
		return nil, nil
	}
	s.stats.lookups.Add(1)
	users, err := s.store.Lookup(ctx, app, names)
	if err != nil {
		return nil, storeError(err, "look up %d users", len(names))
	}
	return users, nil
}

// wait reports whether everything that w waits for has ended before ctx and the time limit.
func (s *Service) wait(ctx context.Context, w *waiter) bool {
	select {
	case <-w.ready: // the usual case in a batch
		return true
	default:
	}
	t, _ := s.timers.Get().(*time.Timer)
	if t == nil {
		t = time.NewTimer(s.timeout)
	} else {
		t.Reset(s.timeout)
	}
	defer func() {
		t.Stop()
		s.timers.Put(t)
	}()
	select {
	case <-w.ready:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// refused counts the code of an error on its way to the caller.
func (s *Service) refused(err error) error {
	if e, ok := errors.AsType[*klink.Error](err); ok && int(e.Code) < len(s.stats.refused) {
		s.stats.refused[e.Code].Add(1)
	}
	return err
}

// storeError gives an error of the user state its code.
func storeError(err error, format string, args ...any) error {
	code := klink.CodeInternal
	var coded *klink.Error
	switch {
	case errors.As(err, &coded):
		code = coded.Code
	case errors.Is(err, crux.ErrUnavailable), errors.Is(err, crux.ErrClosed):
		code = klink.CodeUnavailable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		code = klink.CodeTimeout
	}
	return klink.Errorf(code, format+": %w", append(args, err)...)
}
