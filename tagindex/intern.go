package tagindex

import (
	"hash/maphash"
	"unsafe"
)

// ID is an interned tag of one [Local]. It is given to another tag once its own has no member and no walk;
// 0 is no tag.
type ID uint32

// tag is one interned key and its member list. A single member needs no block: its entry is ref itself.
type tag struct {
	ref    uint32 // member list, or the entry of the only member when class is 0
	n      uint32 // members
	key    uint32 // block of the key's bytes, four to a word, little endian
	next   uint32 // ID of the next tag in its bucket; of a free tag, of the next free one in its chunk
	keyLen uint8  // 0: free
	class  uint8  // of the member list
	walked bool   // a walk is open on it
}

const (
	chunkBits = 10
	chunkLen  = 1 << chunkBits
	chunkMask = chunkLen - 1
)

// tagChunk is a part of the table of tags; it goes back to the heap when its last tag is gone.
type tagChunk struct {
	tags [chunkLen]tag
}

type tagChunkInfo struct {
	chunk *tagChunk
	live  uint32
	free  uint32 // chain through tag.next; ID, 0: none
}

// interner maps keys to IDs by linear hashing: the number of buckets follows the number of tags one by one, so no
// insertion ever pays for a rehash of the whole table, and memory per tag is constant.
type interner struct {
	seed    maphash.Seed
	buckets []*[chunkLen]uint32 // heads of chains of tags
	n       uint32              // buckets in use
	level   uint32              // the power of two with level <= n < 2*level
	count   uint32              // tags in the table

	chunks []tagChunkInfo
	lowest int       // no chunk below has a free tag
	spare  *tagChunk // an empty chunk for the next need, or nil
}

const minBuckets = 16

func (in *interner) init() {
	in.seed = maphash.MakeSeed()
	in.n, in.level = minBuckets, minBuckets
	in.buckets = []*[chunkLen]uint32{new([chunkLen]uint32)}
}

// at is the record of an ID, nil if there never was or is no such tag.
func (in *interner) at(id ID) *tag {
	c := int(id >> chunkBits)
	if c >= len(in.chunks) || in.chunks[c].chunk == nil {
		return nil
	}
	t := &in.chunks[c].chunk.tags[id&chunkMask]
	if t.keyLen == 0 {
		return nil
	}
	return t
}

func (in *interner) get(id ID) *tag { return &in.chunks[id>>chunkBits].chunk.tags[id&chunkMask] }

func (in *interner) bucket(h uint64) *uint32 {
	b := uint32(h) & (2*in.level - 1)
	if b >= in.n {
		b &= in.level - 1
	}
	return &in.buckets[b>>chunkBits][b&chunkMask]
}

func (in *interner) find(a *arena, h uint64, key string) ID {
	for id := *in.bucket(h); id != 0; {
		t := in.get(ID(id))
		if int(t.keyLen) == len(key) && sameKey(a.run(t.key, keyClass(t.keyLen), 0), key) {
			return ID(id)
		}
		id = t.next
	}
	return 0
}

// add interns a key that is not in the table.
func (in *interner) add(a *arena, h uint64, key string) ID {
	id := in.take()
	t := in.get(id)
	class := keyClass(uint8(len(key)))
	*t = tag{key: a.alloc(class), keyLen: uint8(len(key))}
	putKey(a.block(t.key, class), key)
	b := in.bucket(h)
	t.next = *b
	*b = uint32(id)
	in.count++
	if uint64(in.count)*2 > uint64(in.n)*3 {
		in.split(a)
	}
	return id
}

func (in *interner) remove(a *arena, id ID) {
	t := in.get(id)
	b := in.bucket(in.hash(a, t))
	for *b != uint32(id) {
		b = &in.get(ID(*b)).next
	}
	*b = t.next
	a.release(t.key, keyClass(t.keyLen))
	in.give(id)
	in.count--
	for range 2 { // one is not enough to follow: each tag stands for 1.33 buckets here
		if in.n > minBuckets && uint64(in.count)*4 < uint64(in.n)*3 {
			in.merge()
		}
	}
}

// split adds one bucket and moves into it what belongs there.
func (in *interner) split(a *arena) {
	from := in.n - in.level
	to := in.n
	if int(to>>chunkBits) == len(in.buckets) {
		in.buckets = append(in.buckets, new([chunkLen]uint32))
	}
	in.n++
	if in.n == 2*in.level {
		in.level *= 2
	}
	keep := &in.buckets[from>>chunkBits][from&chunkMask]
	move := &in.buckets[to>>chunkBits][to&chunkMask]
	*move = 0
	for id := *keep; id != 0; {
		t := in.get(ID(id))
		next := t.next
		if in.bucket(in.hash(a, t)) == move {
			*keep = next
			t.next, *move = *move, id
		} else {
			keep = &t.next
		}
		id = next
	}
}

// merge takes the last bucket away.
func (in *interner) merge() {
	if in.n == in.level {
		in.level /= 2
	}
	in.n--
	last := &in.buckets[in.n>>chunkBits][in.n&chunkMask]
	to := in.n - in.level
	end := &in.buckets[to>>chunkBits][to&chunkMask]
	for *end != 0 {
		end = &in.get(ID(*end)).next
	}
	*end, *last = *last, 0
	if spare := int(in.n>>chunkBits) + 2; spare < len(in.buckets) {
		in.buckets[spare] = nil
		in.buckets = in.buckets[:spare]
	}
}

// take is a free ID. Low chunks are filled first, so that high ones can empty.
func (in *interner) take() ID {
	for in.lowest < len(in.chunks) && in.chunks[in.lowest].chunk != nil && in.chunks[in.lowest].free == 0 {
		in.lowest++
	}
	if in.lowest == len(in.chunks) {
		in.chunks = append(in.chunks, tagChunkInfo{})
	}
	ci := &in.chunks[in.lowest]
	if ci.chunk == nil {
		if in.spare == nil {
			in.spare = new(tagChunk)
		}
		ci.chunk, in.spare = in.spare, nil
		base := uint32(in.lowest) << chunkBits
		for i := uint32(chunkLen); i > 0; i-- {
			if base+i-1 != 0 { // ID 0 is no tag
				ci.chunk.tags[i-1].next, ci.free = ci.free, base+i-1
			}
		}
	}
	id := ID(ci.free)
	ci.free = in.get(id).next
	ci.live++
	return id
}

func (in *interner) give(id ID) {
	c := int(id >> chunkBits)
	ci := &in.chunks[c]
	*in.get(id) = tag{next: ci.free}
	ci.free = uint32(id)
	ci.live--
	in.lowest = min(in.lowest, c)
	if ci.live == 0 && c > 0 {
		in.spare = ci.chunk
		*ci = tagChunkInfo{}
	}
}

func (in *interner) hash(a *arena, t *tag) uint64 {
	var buf [MaxKeyLen + 1]byte
	return maphash.Bytes(in.seed, appendKey(buf[:0], a, t))
}

func keyClass(n uint8) uint8 { return classFor((uint32(n) + 3) / 4) }

func putKey(words []uint32, key string) {
	i := 0
	for ; len(key) >= 4; key = key[4:] {
		words[i] = word(key)
		i++
	}
	if key != "" {
		words[i] = tail(key)
	}
}

// sameKey compares from the end, where keys with a common prefix differ. The lengths are equal.
func sameKey(words []uint32, key string) bool {
	n := len(key) / 4
	if rest := key[4*n:]; rest != "" && words[n] != tail(rest) {
		return false
	}
	for i := n - 1; i >= 0; i-- {
		if words[i] != word(key[4*i:]) {
			return false
		}
	}
	return true
}

func word(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func tail(s string) uint32 {
	var w uint32
	for i := len(s) - 1; i >= 0; i-- {
		w = w<<8 | uint32(s[i])
	}
	return w
}

func appendKey(dst []byte, a *arena, t *tag) []byte {
	words := a.block(t.key, keyClass(t.keyLen))
	n := int(t.keyLen)
	for i := 0; i < n; i += 4 {
		w := words[i/4]
		dst = append(dst, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return dst[:len(dst)-(n+3)/4*4+n]
}

func (in *interner) bytes() int {
	n := len(in.buckets)*chunkLen*4 + cap(in.buckets)*8 + cap(in.chunks)*int(unsafe.Sizeof(tagChunkInfo{}))
	if in.spare != nil {
		n += int(unsafe.Sizeof(tagChunk{}))
	}
	for i := range in.chunks {
		if in.chunks[i].chunk != nil {
			n += int(unsafe.Sizeof(tagChunk{}))
		}
	}
	return n
}
