package tagindex

import (
	"hash/maphash"
	"unsafe"
)

// Limits of a [Local]. What exceeds them is refused and counted, see [Local.Refused].
const (
	MaxKeyLen   = 255       // bytes of a key
	MaxConn     = 1<<24 - 1 // the largest connection number
	MaxConnTags = 1<<16 - 1 // tags of one connection
)

// Local is tier 2: which connection of one loop carries which tag. Keys are opaque, the caller puts the app in
// front; connections are slot numbers. It is not safe for concurrent use: its loop owns it. Use [NewLocal].
type Local struct {
	words       arena
	tags        interner
	conns       []connChunkInfo
	spare       *[chunkLen]conn // an empty chunk for the next need, or nil
	walks       walks
	used        int // tags with a member
	memberships int
	changes     uint64 // grows whenever an ID gets another meaning
	refused     uint64
	maxPages    int
}

// NewLocal makes an empty index.
func NewLocal() *Local {
	l := &Local{maxPages: maxPages - 64}
	l.tags.init()
	return l
}

// Join adds connection c to the tag. joined is false if it was there already; first is true if it is the tag's only
// member. The key is not kept. If a limit refuses it, id is 0.
func (l *Local) Join(c uint32, key string) (id ID, joined, first bool) {
	if c > MaxConn || key == "" || len(key) > MaxKeyLen || l.Count(c) == MaxConnTags || l.words.live >= l.maxPages {
		l.refused++
		return 0, false, false
	}
	h := maphash.String(l.tags.seed, key)
	if id = l.tags.find(&l.words, h, key); id == 0 {
		id = l.tags.add(&l.words, h, key)
		l.changes++
	} else if l.Has(c, id) {
		return id, false, false
	}
	t := l.tags.get(id)
	if first = t.n == 0; first {
		l.used++
	}
	l.addMember(t, entry(c, l.addReverse(c, id, t.n)))
	l.memberships++
	return id, true, first
}

// JoinBytes is [Local.Join] for a key in a buffer, which may be reused at once.
func (l *Local) JoinBytes(c uint32, key []byte) (id ID, joined, first bool) {
	// Sound: no key is kept, Join copies its bytes.
	return l.Join(c, unsafe.String(unsafe.SliceData(key), len(key)))
}

// Leave takes connection c out of the tag. left is false if it was not there; last is true if the tag has no member now.
func (l *Local) Leave(c uint32, key string) (left, last bool) {
	id := l.find(key)
	cn := l.conn(c)
	if id == 0 || cn == nil {
		return false, false
	}
	t := l.tags.get(id)
	i, ok := l.reverseIndex(c, cn, id, t)
	if !ok {
		return false, false
	}
	l.dropMember(id, t, *l.words.at(cn.ref, cn.class(), 2*i+1))
	l.dropReverse(c, cn, i)
	l.memberships--
	last = t.n == 0
	if last {
		l.emptied(id, t)
	}
	return true, last
}

// LeaveAll takes connection c out of all its tags. gone, which may be nil and must not use l, is called with the key
// of each tag whose last member c was.
func (l *Local) LeaveAll(c uint32, gone func(key string)) {
	cn := l.conn(c)
	if cn == nil || cn.meta == 0 {
		return
	}
	n := cn.n()
	for i := n; i > 0; i-- {
		id, pos := ID(*l.words.at(cn.ref, cn.class(), 2*i-2)), *l.words.at(cn.ref, cn.class(), 2*i-1)
		t := l.tags.get(id)
		l.dropMember(id, t, pos)
		if t.n > 0 {
			continue
		}
		if gone != nil {
			key := string(appendKey(nil, &l.words, t))
			l.emptied(id, t)
			gone(key)
		} else {
			l.emptied(id, t)
		}
	}
	l.memberships -= int(n)
	l.words.resize(cn.ref, cn.class(), 0, 0)
	*cn = conn{}
	l.forget(c)
}

// emptied accounts for a tag that lost its last member.
func (l *Local) emptied(id ID, t *tag) {
	l.used--
	if !t.walked {
		l.tags.remove(&l.words, id)
		l.changes++
	}
}

// Lookup finds a tag that has members.
func (l *Local) Lookup(key string) (ID, bool) {
	id := l.find(key)
	if id == 0 || l.tags.get(id).n == 0 {
		return 0, false
	}
	return id, true
}

func (l *Local) find(key string) ID {
	if key == "" || len(key) > MaxKeyLen {
		return 0
	}
	return l.tags.find(&l.words, maphash.String(l.tags.seed, key), key)
}

// Key is a copy of the tag's key, "" if there is no such tag.
func (l *Local) Key(id ID) string {
	t := l.tags.at(id)
	if t == nil {
		return ""
	}
	return string(appendKey(nil, &l.words, t))
}

// Len is the number of members of a tag.
func (l *Local) Len(id ID) int {
	t := l.tags.at(id)
	if t == nil {
		return 0
	}
	return int(t.n)
}

// Has reports whether connection c carries the tag. It looks through the shorter of both lists.
func (l *Local) Has(c uint32, id ID) bool {
	cn, t := l.conn(c), l.tags.at(id)
	if cn == nil || t == nil {
		return false
	}
	_, ok := l.reverseIndex(c, cn, id, t)
	return ok
}

// Count is the number of tags that connection c carries.
func (l *Local) Count(c uint32) int {
	if cn := l.conn(c); cn != nil {
		return int(cn.n())
	}
	return 0
}

// AppendKeys appends copies of the keys of connection c's tags to dst, in no order.
func (l *Local) AppendKeys(dst []string, c uint32) []string {
	cn := l.conn(c)
	if cn == nil {
		return dst
	}
	for i := range cn.n() {
		dst = append(dst, l.Key(ID(*l.words.at(cn.ref, cn.class(), 2*i))))
	}
	return dst
}

// Tags is the number of tags that have members.
func (l *Local) Tags() int { return l.used }

// Memberships is the number of (connection, tag) pairs.
func (l *Local) Memberships() int { return l.memberships }

// Refused is how often a limit refused a Join.
func (l *Local) Refused() uint64 { return l.refused }

// Bytes is what the index holds of the heap.
func (l *Local) Bytes() int {
	n := l.words.bytes() + l.tags.bytes() + cap(l.conns)*int(unsafe.Sizeof(connChunkInfo{})) + l.walks.bytes()
	if l.spare != nil {
		n += chunkLen * int(unsafe.Sizeof(conn{}))
	}
	for i := range l.conns {
		if l.conns[i].chunk != nil {
			n += chunkLen * int(unsafe.Sizeof(conn{}))
		}
	}
	return n
}
