package tagindex

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is the index as naive maps, and what each open walk still has to visit.
type model struct {
	t     testing.TB
	l     *Local
	tags  map[string]map[uint32]bool
	conns map[uint32]map[string]bool
	walks []*modelWalk
	buf   []uint32
}

type modelWalk struct {
	w    Walk
	key  string
	todo map[uint32]bool
}

func newModel(t testing.TB) *model {
	return &model{t: t, l: NewLocal(), tags: map[string]map[uint32]bool{}, conns: map[uint32]map[string]bool{}, buf: make([]uint32, 64)}
}

func (m *model) join(c uint32, key string) {
	m.t.Helper()
	had, members := m.tags[key][c], len(m.tags[key])
	var joined, first bool
	var id ID
	if c%2 == 0 {
		id, joined, first = m.l.Join(c, key)
	} else {
		buf := []byte(key)
		id, joined, first = m.l.JoinBytes(c, buf)
		clear(buf) // the key must have been copied
	}
	if id == 0 || joined == had || first != (members == 0) {
		m.t.Fatalf("Join(%d, %q) = %d, %v, %v; had %v, %d members", c, key, id, joined, first, had, members)
	}
	if m.tags[key] == nil {
		m.tags[key] = map[uint32]bool{}
	}
	if m.conns[c] == nil {
		m.conns[c] = map[string]bool{}
	}
	m.tags[key][c], m.conns[c][key] = true, true
}

func (m *model) drop(c uint32, key string) {
	delete(m.tags[key], c)
	delete(m.conns[c], key)
	if len(m.tags[key]) == 0 {
		delete(m.tags, key)
	}
	for _, w := range m.walks {
		if w.key == key {
			delete(w.todo, c)
		}
	}
}

func (m *model) leave(c uint32, key string) {
	m.t.Helper()
	had, members := m.tags[key][c], len(m.tags[key])
	left, last := m.l.Leave(c, key)
	if left != had || last != (had && members == 1) {
		m.t.Fatalf("Leave(%d, %q) = %v, %v; had %v, %d members", c, key, left, last, had, members)
	}
	m.drop(c, key)
}

func (m *model) leaveAll(c uint32) {
	m.t.Helper()
	want := map[string]bool{}
	for key := range m.conns[c] {
		if len(m.tags[key]) == 1 {
			want[key] = true
		}
		m.drop(c, key)
	}
	m.l.LeaveAll(c, func(key string) {
		if !want[key] {
			m.t.Fatalf("LeaveAll(%d) says that %q is gone", c, key)
		}
		delete(want, key)
	})
	if len(want) > 0 {
		m.t.Fatalf("LeaveAll(%d) did not say that %v are gone", c, want)
	}
}

func (m *model) start(key string) {
	m.t.Helper()
	id, ok := m.l.Lookup(key)
	if ok != (len(m.tags[key]) > 0) {
		m.t.Fatalf("Lookup(%q) = %v, %d members", key, ok, len(m.tags[key]))
	}
	if !ok {
		return
	}
	w := &modelWalk{w: m.l.Start(id), key: key, todo: map[uint32]bool{}}
	for c := range m.tags[key] {
		w.todo[c] = true
	}
	m.walks = append(m.walks, w)
}

// next advances walk i and reports whether it is over.
func (m *model) next(i, size int) bool {
	m.t.Helper()
	w := m.walks[i]
	n := m.l.Next(&w.w, m.buf[:size])
	for _, c := range m.buf[:n] {
		if !w.todo[c] {
			m.t.Fatalf("a walk over %q visits %d, which joined later or was visited", w.key, c)
		}
		delete(w.todo, c)
	}
	if w.w.Open() {
		if n != size {
			m.t.Fatalf("Next gave %d of %d and is not done", n, size)
		}
		return false
	}
	if len(w.todo) > 0 {
		m.t.Fatalf("a walk over %q ended without visiting %v", w.key, w.todo)
	}
	m.walks = slices.Delete(m.walks, i, i+1)
	return true
}

func (m *model) stop(i int) {
	m.l.Stop(&m.walks[i].w)
	m.walks = slices.Delete(m.walks, i, i+1)
}

// check compares the whole of both and the structure with itself.
func (m *model) check() {
	m.t.Helper()
	total := 0
	for key, set := range m.tags {
		id, ok := m.l.Lookup(key)
		if !ok || m.l.Len(id) != len(set) || m.l.Key(id) != key {
			m.t.Fatalf("%q: found %v, %d members of %d, key %q", key, ok, m.l.Len(id), len(set), m.l.Key(id))
		}
		total += len(set)
	}
	if m.l.Tags() != len(m.tags) || m.l.Memberships() != total {
		m.t.Fatalf("%d tags of %d, %d memberships of %d", m.l.Tags(), len(m.tags), m.l.Memberships(), total)
	}
	for c, set := range m.conns {
		keys := m.l.AppendKeys(nil, c)
		if len(keys) != len(set) || m.l.Count(c) != len(set) {
			m.t.Fatalf("connection %d has %d keys, counts %d, want %d", c, len(keys), m.l.Count(c), len(set))
		}
		for _, k := range keys {
			if !set[k] {
				m.t.Fatalf("connection %d has %q", c, k)
			}
		}
	}
	if err := checkLocal(m.l); err != nil {
		m.t.Fatal(err)
	}
}

// checkLocal verifies that both directions point at each other.
func checkLocal(l *Local) error {
	total, used := 0, 0
	for c := range uint32(len(l.conns) * chunkLen) {
		cn := l.conn(c)
		if cn == nil {
			continue
		}
		for i := range cn.n() {
			id, pos := *l.words.at(cn.ref, cn.class(), 2*i), *l.words.at(cn.ref, cn.class(), 2*i+1)
			t := l.tags.at(ID(id))
			if t == nil || pos >= t.n {
				return fmt.Errorf("connection %d, entry %d: tag %d, place %d is out of range", c, i, id, pos)
			}
			if got := *l.member(t, pos); got != entry(c, i) {
				return fmt.Errorf("connection %d, entry %d: member entry %#x, want %#x", c, i, got, entry(c, i))
			}
			total++
		}
	}
	for k := range l.tags.chunks {
		if l.tags.chunks[k].chunk == nil {
			continue
		}
		for i := range l.tags.chunks[k].chunk.tags {
			if t := &l.tags.chunks[k].chunk.tags[i]; t.keyLen > 0 && t.n > 0 {
				total -= int(t.n)
				used++
			}
		}
	}
	if total != 0 || used != l.used {
		return fmt.Errorf("%d more reverse entries than members, %d tags of %d", total, used, l.used)
	}
	return nil
}

// empty ends everything and verifies that all memory went back.
func (m *model) empty() {
	m.t.Helper()
	for c := range m.conns {
		m.leaveAll(c)
	}
	for len(m.walks) > 0 {
		if m.l.Next(&m.walks[0].w, m.buf); m.walks[0].w.Open() {
			m.t.Fatal("a walk over an empty tag goes on")
		}
		m.walks = m.walks[1:]
	}
	m.check()
	l := m.l
	if l.words.live != 0 || l.tags.count != 0 || l.tags.n != minBuckets || len(l.walks.chain) != 0 || len(l.words.dirs) != len(l.words.dirFree) {
		m.t.Fatalf("empty, but %d pages, %d tags, %d buckets, %d walked tags, %d paged lists",
			l.words.live, l.tags.count, l.tags.n, len(l.walks.chain), len(l.words.dirs)-len(l.words.dirFree))
	}
	for k := 1; k < len(l.conns); k++ {
		if l.conns[k].chunk != nil {
			m.t.Fatalf("empty, but chunk %d of the connections is there", k)
		}
	}
	for k := 1; k < len(l.tags.chunks); k++ {
		if l.tags.chunks[k].chunk != nil {
			m.t.Fatalf("empty, but chunk %d of the tags is there", k)
		}
	}
}

func TestLocalAgainstModel(t *testing.T) {
	for _, shape := range []struct {
		name              string
		conns, tags, ops  int
		joins, leaves     int // of 100
		walks, maxWalking int
	}{
		{"few", 6, 4, 20000, 40, 25, 20, 8},
		{"many tags a connection", 5, 900, 40000, 75, 15, 5, 4},
		{"many members a tag", 4000, 3, 60000, 60, 15, 10, 12},
		{"sparse", 5000, 5000, 60000, 60, 25, 5, 30},
	} {
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(2) {
				r := rand.New(rand.NewPCG(seed, 1))
				m := newModel(t)
				conn := func() uint32 { return uint32(r.IntN(shape.conns)) * 3 }
				key := func() string {
					n := r.IntN(shape.tags)
					return fmt.Sprintf("app\x00%0*d", 1+n%40, n)
				}
				for i := range shape.ops {
					switch p := r.IntN(100); {
					case p < shape.joins:
						m.join(conn(), key())
					case p < shape.joins+shape.leaves:
						m.leave(conn(), key())
					case p < shape.joins+shape.leaves+shape.walks:
						if len(m.walks) < shape.maxWalking {
							m.start(key())
						} else {
							m.stop(r.IntN(len(m.walks)))
						}
					case p == 99:
						m.leaveAll(conn())
					case len(m.walks) > 0:
						m.next(r.IntN(len(m.walks)), 1+r.IntN(len(m.buf)))
					}
					if i%(shape.ops/8) == 0 {
						m.check()
					}
				}
				m.check()
				m.empty()
			}
		})
	}
}

func FuzzLocal(f *testing.F) {
	f.Add([]byte{0, 1, 1, 0, 2, 1, 3, 0, 1, 1, 1, 1, 0, 1, 1, 4, 0, 3, 2, 1, 0})
	f.Add([]byte{0, 1, 1, 0, 2, 1, 0, 3, 1, 0, 4, 1, 3, 0, 1, 4, 0, 1, 3, 0, 1, 1, 4, 1, 4, 1, 0, 5, 0, 0})
	f.Add([]byte{0, 9, 9, 3, 0, 9, 2, 9, 0, 0, 9, 9, 4, 0, 0, 0, 8, 9})
	f.Fuzz(func(t *testing.T, ops []byte) {
		m := newModel(t)
		for ; len(ops) >= 3; ops = ops[3:] {
			c, key := uint32(ops[1]), fmt.Sprint("t", ops[2]%16)
			switch ops[0] % 6 {
			case 0:
				m.join(c, key)
			case 1:
				m.leave(c, key)
			case 2:
				m.leaveAll(c)
			case 3:
				m.start(key)
			case 4:
				if len(m.walks) > 0 {
					m.next(int(c)%len(m.walks), 1+int(ops[2]%8))
				}
			case 5:
				if len(m.walks) > 0 {
					m.stop(int(c) % len(m.walks))
				}
			}
		}
		m.check()
		m.empty()
	})
}
