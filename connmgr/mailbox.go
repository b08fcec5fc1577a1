package connmgr

import "sync"

// Task is work that another goroutine posts to a loop. Run is called on the loop's goroutine and must not block.
type Task interface{ Run(s *Shard) }

// TaskFunc makes a function a [Task].
type TaskFunc func(s *Shard)

// Run calls f.
func (f TaskFunc) Run(s *Shard) { f(s) }

// mailbox takes work for a loop from any goroutine. Posting never blocks. Tasks are bounded by their senders (one a login, one
// an API call in flight); parts of pushes are bounded in bytes here.
type mailbox struct {
	mu    sync.Mutex
	tasks []Task
	parts []*part
	bytes int64 // of the pushes posted and not finished
}

// post adds a task and reports whether the box was empty.
func (m *mailbox) post(t Task) bool {
	m.mu.Lock()
	empty := len(m.tasks) == 0 && len(m.parts) == 0
	m.tasks = append(m.tasks, t)
	m.mu.Unlock()
	return empty
}

// room reports whether size more bytes of pushes fit.
func (m *mailbox) room(size, limit int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes+size <= limit
}

func (m *mailbox) postPart(p *part) bool {
	m.mu.Lock()
	empty := len(m.tasks) == 0 && len(m.parts) == 0
	m.parts = append(m.parts, p)
	m.bytes += int64(p.d.size)
	m.mu.Unlock()
	return empty
}

// take moves everything to the given slices, which are swapped in as the box's next arrays.
func (m *mailbox) take(tasks []Task, parts []*part) ([]Task, []*part) {
	m.mu.Lock()
	tasks, m.tasks = m.tasks, tasks[:0]
	parts, m.parts = m.parts, parts[:0]
	m.mu.Unlock()
	return tasks, parts
}

// done returns the bytes of a finished part.
func (m *mailbox) done(size int) {
	m.mu.Lock()
	m.bytes -= int64(size)
	m.mu.Unlock()
}

// crowded reports whether the pushes posted hold more than half of the limit.
func (m *mailbox) crowded(limit int64) bool { return !m.room(limit/2, limit) }
