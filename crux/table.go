package crux

import "math/bits"

// table finds records by the hash of their key: open addressing with linear probing, 5 bytes a place. It keeps one
// byte of each hash; who grows it or removes from it computes the others again from the records, which is
// cheaper than 8 bytes a user. The owner's lock guards it.
type table struct {
	refs  []ref
	bytes []uint8 // low byte of the hash of the record at the same place
	n     int
}

// hasher computes the hash of a stored record's key.
type hasher interface{ hashOf(ref) uint64 }

const tableMin = 16

// home is the first place to look for hash h. The top bits of the hash chose the shard, so they are shifted out.
func (t *table) home(h uint64) int {
	hi, _ := bits.Mul64(h<<shardBits, uint64(len(t.refs)))
	return int(hi)
}

func (t *table) next(i int) int {
	if i++; i < len(t.refs) {
		return i
	}
	return 0
}

// crowded reports whether one more record needs a larger table.
func (t *table) crowded() bool { return t.n+1 > len(t.refs)/16*13 }

// insert puts r, which is not there yet, into a table that is not crowded and says where.
func (t *table) insert(h uint64, r ref) int {
	i := t.home(h)
	for t.refs[i] != 0 {
		i = t.next(i)
	}
	t.refs[i], t.bytes[i] = r, uint8(h)
	t.n++
	return i
}

// resize moves all records to a table of size places.
func (t *table) resize(size int, hs hasher) {
	old := t.refs
	t.refs, t.bytes, t.n = make([]ref, size), make([]uint8, size), 0
	for _, r := range old {
		if r != 0 {
			t.insert(hs.hashOf(r), r)
		}
	}
}

// grown is the next size: a quarter more once the table is large, so that few places stay empty.
func (t *table) grown() int {
	n := len(t.refs)
	if n < 1024 {
		return max(tableMin, n*2)
	}
	return (n + n/4) &^ 15
}

// remove empties place i and closes the hole, so that no search ends early.
func (t *table) remove(i int, hs hasher) {
	t.n--
	for j := t.next(i); t.refs[j] != 0; j = t.next(j) {
		home := t.home(hs.hashOf(t.refs[j]))
		// The record at j may fill the hole at i unless its home lies between them (cyclically in (i, j]).
		if i <= j && (i < home && home <= j) || i > j && (i < home || home <= j) {
			continue
		}
		t.refs[i], t.bytes[i] = t.refs[j], t.bytes[j]
		i = j
	}
	t.refs[i] = 0
}
