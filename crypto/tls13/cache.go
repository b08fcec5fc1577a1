package tls13

import (
	"crypto/cipher"
	"math/bits"
)

// Cache holds the AEAD objects of at most n connections of one loop, 1,536 B each for AES-GCM. It also carries the
// scratch space of sealing and opening, so that neither allocates while the AEAD is cached. A connection is evicted by the CLOCK rule. One
// goroutine uses it.
type Cache struct {
	limit   int
	entries []entry
	table   []int32 // open addressing, linear probing: index into entries plus one, 0 is free
	shift   uint8   // 64 - log2(len(table))
	hand    int
	free    []int32 // indexes of dropped entries
	spare   entry   // the only entry when limit is 0: never keeps an AEAD

	nonce [ivLen]byte
	msg   [5]byte // KeyUpdate or alert being sealed

	hits, misses, evictions uint64
}

// entry is one connection.
type entry struct {
	key        uint64
	seal, open cipher.AEAD
	next       uint64 // lowest sequence number that seal may use
	sealEpoch  uint8
	openEpoch  uint8
	sealKnown  bool // sealEpoch and next are set
	live       bool
	used       bool // since the hand passed
}

// CacheStats counts since the cache was made.
type CacheStats struct {
	Hits      uint64 // an AEAD was there
	Misses    uint64 // an AEAD had to be made
	Evictions uint64 // a connection made room for another
	Entries   int    // connections cached now
}

// NewCache is a cache for n connections; 0 makes every AEAD anew at each use. Memory is taken as connections come.
func NewCache(n int) *Cache { return &Cache{limit: max(n, 0)} }

// Stats must be called on the goroutine of the cache.
func (c *Cache) Stats() CacheStats {
	return CacheStats{Hits: c.hits, Misses: c.misses, Evictions: c.evictions, Entries: len(c.entries) - len(c.free)}
}

// Drop forgets a connection. Unknown keys are fine.
func (c *Cache) Drop(key uint64) {
	if c.spare.key == key {
		c.spare = entry{}
	}
	if i, slot := c.find(key); i >= 0 {
		c.remove(slot)
		c.entries[i] = entry{}
		c.free = append(c.free, int32(i))
	}
}

// sealer is the entry of key with the AEAD of r's write key. ErrNonceReuse: another copy of r has used this sequence number.
func (c *Cache) sealer(r *Record, key uint64) (*entry, error) {
	e := c.entry(key)
	if e.sealKnown {
		if behind := int8(r.write.epoch - e.sealEpoch); behind < 0 || behind == 0 && r.write.seq < e.next {
			return nil, misuse(ErrNonceReuse)
		}
	}
	if e.seal != nil && e.sealEpoch == r.write.epoch {
		c.hits++
		return e, nil
	}
	c.misses++
	aead, err := r.write.suite.aead(&r.write.key)
	if err != nil {
		return nil, errAEAD
	}
	e.seal, e.sealEpoch, e.sealKnown, e.next = aead, r.write.epoch, true, r.write.seq
	return e, nil
}

// opener is the AEAD of r's read key.
func (c *Cache) opener(r *Record, key uint64) (cipher.AEAD, error) {
	e := c.entry(key)
	if e.open != nil && e.openEpoch == r.read.epoch {
		c.hits++
		return e.open, nil
	}
	c.misses++
	aead, err := r.read.suite.aead(&r.read.key)
	if err != nil {
		return nil, errAEAD
	}
	e.open, e.openEpoch = aead, r.read.epoch
	return aead, nil
}

// rotatedRead drops the AEAD of a read key that was replaced.
func (c *Cache) rotatedRead(key uint64) {
	if i, _ := c.find(key); i >= 0 {
		c.entries[i].open = nil
	}
}

// rotatedWrite drops the AEAD of a write key that was replaced and remembers the new epoch, so that an old copy is caught.
func (c *Cache) rotatedWrite(key uint64, epoch uint8) {
	e := &c.spare
	if i, _ := c.find(key); i >= 0 {
		e = &c.entries[i]
	} else if e.key != key {
		return
	}
	e.seal, e.sealEpoch, e.sealKnown, e.next = nil, epoch, true, 0
}

// entry finds or makes the entry of key. The pointer is valid until the next call.
func (c *Cache) entry(key uint64) *entry {
	if c.limit == 0 {
		if c.spare.key != key {
			c.spare = entry{key: key}
		}
		c.spare.seal, c.spare.open = nil, nil
		return &c.spare
	}
	if i, _ := c.find(key); i >= 0 {
		c.entries[i].used = true
		return &c.entries[i]
	}
	i := c.room()
	c.entries[i] = entry{key: key, live: true, used: true}
	c.insert(key, i)
	return &c.entries[i]
}

// room is the index of an entry that may be overwritten.
func (c *Cache) room() int {
	if n := len(c.free); n > 0 {
		i := c.free[n-1]
		c.free = c.free[:n-1]
		return int(i)
	}
	if len(c.entries) < c.limit {
		c.entries = append(c.entries, entry{})
		if len(c.entries)*2 > len(c.table) {
			c.rehash()
		}
		return len(c.entries) - 1
	}
	for {
		e := &c.entries[c.hand]
		i := c.hand
		c.hand = (c.hand + 1) % len(c.entries)
		if e.used {
			e.used = false
			continue
		}
		_, slot := c.find(e.key)
		c.remove(slot)
		c.evictions++
		return i
	}
}

// home is where the probing for key begins.
func (c *Cache) home(key uint64) int {
	return int((key * 0x9e3779b97f4a7c15) >> c.shift)
}

// find is the entry and table slot of key, -1 if it is not there.
func (c *Cache) find(key uint64) (index, slot int) {
	if len(c.table) == 0 {
		return -1, -1
	}
	for s := c.home(key); ; s = (s + 1) & (len(c.table) - 1) {
		i := int(c.table[s]) - 1
		if i < 0 {
			return -1, -1
		}
		if c.entries[i].key == key {
			return i, s
		}
	}
}

func (c *Cache) insert(key uint64, index int) {
	s := c.home(key)
	for c.table[s] != 0 {
		s = (s + 1) & (len(c.table) - 1)
	}
	c.table[s] = int32(index + 1)
}

// remove frees a slot and moves later ones of its run up, so that probing needs no tombstones.
func (c *Cache) remove(slot int) {
	mask := len(c.table) - 1
	hole := slot
	for s := (slot + 1) & mask; c.table[s] != 0; s = (s + 1) & mask {
		home := c.home(c.entries[c.table[s]-1].key)
		if (s-home)&mask >= (s-hole)&mask {
			c.table[hole] = c.table[s]
			hole = s
		}
	}
	c.table[hole] = 0
}

// rehash doubles the table and enters the live entries again.
func (c *Cache) rehash() {
	size := max(16, 2*len(c.table))
	c.table = make([]int32, size)
	c.shift = uint8(64 - bits.TrailingZeros(uint(size)))
	for i := range c.entries {
		if c.entries[i].live {
			c.insert(c.entries[i].key, i)
		}
	}
}
