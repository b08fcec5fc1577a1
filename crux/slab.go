package crux

import "encoding/binary"

// Sizes of a slab. A ref has 21 bits for the chunk and 11 for the offset in units, so one slab holds at most 16 GiB
// of small records.
const (
	chunkBytes = 8 << 10
	unitBytes  = 4
	unitBits   = 11
	maxSlot    = 1024 // larger records get a chunk of their own
	maxChunks  = 1 << (32 - unitBits)

	classLarge = 0 // one record a chunk
	classCount = 53
)

// ref names a record of a slab; 0 names none.
type ref uint32

func (r ref) chunk() uint32 { return uint32(r) >> unitBits }
func (r ref) offset() int   { return int(r&(1<<unitBits-1)) * unitBytes }

// slab holds records of any length in chunks of equal slots. It has no pointers into its records, so the garbage
// collector does not look at them. A chunk without records is given back. The owner's lock guards it.
type slab struct {
	chunks  []chunk            // index 0 is not used, so that ref 0 names none
	unused  []uint32           // indices into chunks that hold no memory
	spare   []byte             // memory of the last chunk that became empty: one that fills and empties costs nothing
	partial [classCount]uint32 // first chunk of the class that has a free slot, 0: none
}

type chunk struct {
	data       []byte
	prev, next uint32 // in the list of partial chunks of the class
	slot       uint16 // bytes of one slot, 0: the chunk is one large record
	class      uint8
	live       uint16
	fresh      uint16 // first unit that was never used
	freed      uint16 // first freed slot, in units + 1; each freed slot names the next one
}

// classOf is the class of a record of n bytes and the bytes of its slot.
func classOf(n int) (class uint8, slot int) {
	switch {
	case n <= 128:
		c := max(1, (n+3)/4)
		return uint8(c), c * 4
	case n <= 256:
		c := (n - 128 + 15) / 16
		return uint8(32 + c), 128 + c*16
	case n <= maxSlot:
		c := (n - 256 + 63) / 64
		return uint8(40 + c), 256 + c*64
	default:
		return classLarge, (n + 255) &^ 255
	}
}

// fits reports whether a record of n bytes belongs in the slot of r.
func (s *slab) fits(r ref, n int) bool {
	c := &s.chunks[r.chunk()]
	class, slot := classOf(n)
	return class == c.class && (class != classLarge || slot == len(c.data))
}

// bytes is the whole slot of r. It is valid until r is freed.
func (s *slab) bytes(r ref) []byte {
	c := &s.chunks[r.chunk()]
	if c.class == classLarge {
		return c.data
	}
	o := r.offset()
	return c.data[o : o+int(c.slot) : o+int(c.slot)]
}

// alloc gives a slot for n bytes.
func (s *slab) alloc(n int) ref {
	class, slot := classOf(n)
	if class == classLarge {
		return s.newChunk(classLarge, slot)
	}
	i := s.partial[class]
	if i == 0 {
		i = s.newChunk(class, slot).chunk()
		s.list(i)
	}
	c := &s.chunks[i]
	var off uint16
	if c.freed != 0 {
		off = c.freed - 1
		c.freed = binary.LittleEndian.Uint16(c.data[int(off)*unitBytes:])
	} else {
		off = c.fresh
		c.fresh += c.slot / unitBytes
	}
	c.live++
	if c.full() {
		s.unlist(i)
	}
	return ref(i<<unitBits | uint32(off))
}

// free gives the slot of r back.
func (s *slab) free(r ref) {
	i := r.chunk()
	c := &s.chunks[i]
	if c.class == classLarge {
		s.drop(i)
		return
	}
	wasFull := c.full()
	off := uint16(r & (1<<unitBits - 1))
	binary.LittleEndian.PutUint16(c.data[int(off)*unitBytes:], c.freed)
	c.freed = off + 1
	c.live--
	switch {
	case c.live == 0:
		if !wasFull {
			s.unlist(i)
		}
		s.drop(i)
	case wasFull:
		s.list(i)
	}
}

func (c *chunk) full() bool {
	return c.freed == 0 && (int(c.fresh)*unitBytes+int(c.slot)) > len(c.data)
}

func (s *slab) newChunk(class uint8, slot int) ref {
	if len(s.chunks) == 0 {
		s.chunks = append(s.chunks, chunk{})
	}
	var i uint32
	if n := len(s.unused); n > 0 {
		i = s.unused[n-1]
		s.unused = s.unused[:n-1]
	} else {
		if len(s.chunks) == maxChunks {
			// 16 GiB in one of 64 shards: the machine's memory ends long before.
			panic("crux: a shard holds more than 2 million chunks")
		}
		s.chunks = append(s.chunks, chunk{})
		i = uint32(len(s.chunks) - 1)
	}
	c := &s.chunks[i]
	if class == classLarge {
		*c = chunk{data: make([]byte, slot), live: 1}
	} else {
		data := s.spare
		if s.spare = nil; data == nil {
			data = make([]byte, chunkBytes)
		}
		*c = chunk{data: data, class: class, slot: uint16(slot)}
	}
	return ref(i << unitBits)
}

func (s *slab) drop(i uint32) {
	if s.chunks[i].class != classLarge {
		s.spare = s.chunks[i].data
	}
	s.chunks[i] = chunk{}
	s.unused = append(s.unused, i)
}

func (s *slab) list(i uint32) {
	c := &s.chunks[i]
	head := s.partial[c.class]
	c.prev, c.next = 0, head
	if head != 0 {
		s.chunks[head].prev = i
	}
	s.partial[c.class] = i
}

func (s *slab) unlist(i uint32) {
	c := &s.chunks[i]
	if c.prev != 0 {
		s.chunks[c.prev].next = c.next
	} else {
		s.partial[c.class] = c.next
	}
	if c.next != 0 {
		s.chunks[c.next].prev = c.prev
	}
	c.prev, c.next = 0, 0
}
