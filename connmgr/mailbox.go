package connmgr

import (
	"sync"

	"github.com/klinkio/klink"
)

// Task is work that another goroutine posts to a loop. Run is called on the loop's goroutine and must not block.
type Task interface{ Run(s *Shard) }

// TaskFunc makes a function a [Task].
type TaskFunc func(s *Shard)

// Run calls f.
func (f TaskFunc) Run(s *Shard) { f(s) }

// mailbox takes work for a loop from any goroutine. Posting never blocks. Tasks are bounded by their senders (one a login, one
// an API call in flight); parts of pushes are bounded in bytes here.
type mailbox struct {
	mu     sync.Mutex
	tasks  []Task
	parts  []*part
	bytes  int64             // of the pushes admitted and not finished
	apps   map[string]*int64 // of these, by app
	closed bool              // nobody will look any more
}

// maxSpare is the longest array that the mailbox keeps for its next use.
const maxSpare = 4096

// errOverloaded says that a loop's mailbox is full; nothing of the push was done.
func errOverloaded() error {
	return klink.Errorf(klink.CodeOverloaded, "the mailbox of a loop is full")
}

// errStopped says that the loops have ended.
func errStopped() error { return klink.Errorf(klink.CodeUnavailable, "the front end has stopped") }

// post adds a task. wake says that the box was empty, ok that somebody will run the task.
func (m *mailbox) post(t Task) (wake, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false, false
	}
	wake = len(m.tasks) == 0 && len(m.parts) == 0
	m.tasks = append(m.tasks, t)
	return wake, true
}

// reserve admits n bytes of a push. An app may hold as much as it leaves free: half of the limit when it is alone, and less the
// more the others hold, so that an app that floods never takes the last room from one that does not.
func (m *mailbox) reserve(app string, n, limit int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errStopped()
	}
	held := m.apps[app]
	if held == nil {
		if m.apps == nil {
			m.apps = make(map[string]*int64)
		}
		held = new(int64)
		m.apps[app] = held
	}
	if *held+n > limit-m.bytes-n {
		return errOverloaded()
	}
	*held += n
	m.bytes += n
	return nil
}

// release returns what was reserved.
func (m *mailbox) release(app string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes -= n
	*m.apps[app] -= n
}

// postPart adds a part whose bytes are reserved.
func (m *mailbox) postPart(p *part) (wake, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false, false
	}
	wake = len(m.tasks) == 0 && len(m.parts) == 0
	m.parts = append(m.parts, p)
	return wake, true
}

// take moves everything to the given slices, which are swapped in as the box's next arrays.
func (m *mailbox) take(tasks []Task, parts []*part) ([]Task, []*part) {
	if cap(tasks) > maxSpare {
		tasks = nil
	}
	if cap(parts) > maxSpare {
		parts = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	tasks, m.tasks = m.tasks, tasks[:0]
	parts, m.parts = m.parts, parts[:0]
	return tasks, parts
}

// close refuses everything from now on.
func (m *mailbox) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
}

// crowded reports whether the pushes admitted hold more than a quarter of the limit, which is half of what one app may hold.
func (m *mailbox) crowded(limit int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes > limit/4
}
