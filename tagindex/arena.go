package tagindex

import (
	"slices"
	"unsafe"
)

// An arena hands out blocks of 32-bit words from pages of one block size each. It holds no pointer but those to
// its pages, so the garbage collector looks at one word for every 4 KiB. A page whose last block
// came back returns to the heap; one is kept for the next need.
//
// A list is a block that grows and shrinks: up to maxBlock words it moves between block sizes, above that it is
// a directory of whole pages and never copied again, so that one join never pays for a million members.
type arena struct {
	pages []pageInfo
	room  [numClasses]uint32 // by class: a page with a free block, the head of a chain; index + 1
	holes uint32             // chain of entries of pages that have no memory; index + 1
	spare *page
	live  int // pages with memory, without the spare

	dirs    [][]uint32 // of paged lists: the refs of their pages
	dirFree []uint32
}

const (
	pageBits  = 10
	pageWords = 1 << pageBits
	pageMask  = pageWords - 1
	pageBytes = pageWords * 4

	// maxPages keeps every ref within 32 bits: 16 GiB for one arena.
	maxPages = 1 << (32 - pageBits)
)

type page [pageWords]uint32

type pageInfo struct {
	words      *page
	next, prev uint32 // in the chain of its class; index + 1
	free       uint16 // first block that came back; offset + 1, the block's first word holds the next
	fresh      uint16 // words from here on were never handed out
	used       uint16 // blocks that are out
	class      uint8
}

// classWords are the block sizes. They are even from 6 on, because reverse lists hold pairs, and fill a page
// to at least 98 %. Class 0 is the empty block, the last one a whole page.
var classWords = [...]uint16{
	0, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 84, 102, 128, 170, 204, 256, 340, 512, pageWords,
}

const (
	numClasses = uint8(len(classWords))
	classPage  = numClasses - 1
	maxBlock   = 512 // words of the largest block below a page
	classPaged = 255 // ref is an index of dirs
)

// classFor is the smallest class for n words, n at most maxBlock.
func classFor(n uint32) uint8 {
	c := uint8(0)
	for uint32(classWords[c]) < n {
		c++
	}
	return c
}

func (a *arena) alloc(class uint8) uint32 {
	size := classWords[class]
	if a.room[class] == 0 {
		a.addPage(class)
	}
	p := a.room[class] - 1
	pi := &a.pages[p]
	off := pi.fresh
	if pi.free != 0 {
		off = pi.free - 1
		pi.free = uint16(pi.words[off])
	} else {
		pi.fresh += size
	}
	pi.used++
	if pi.full(size) {
		a.unlink(p)
	}
	return p<<pageBits | uint32(off)
}

func (a *arena) release(ref uint32, class uint8) {
	p := ref >> pageBits
	pi := &a.pages[p]
	wasFull := pi.full(classWords[class])
	off := uint16(ref & pageMask)
	pi.words[off] = uint32(pi.free)
	pi.free = off + 1
	pi.used--
	switch {
	case pi.used == 0:
		if !wasFull {
			a.unlink(p)
		}
		a.dropPage(p)
	case wasFull:
		a.link(p)
	}
}

func (pi *pageInfo) full(size uint16) bool {
	return pi.free == 0 && int(pi.fresh)+int(size) > pageWords
}

func (a *arena) addPage(class uint8) {
	words := a.spare
	a.spare = nil
	if words == nil {
		words = new(page)
	}
	a.live++
	p := a.holes
	if p != 0 {
		p--
		a.holes = a.pages[p].next
	} else {
		p = uint32(len(a.pages))
		a.pages = append(a.pages, pageInfo{})
	}
	a.pages[p] = pageInfo{words: words, class: class}
	a.link(p)
}

func (a *arena) dropPage(p uint32) {
	if a.spare == nil {
		a.spare = a.pages[p].words
	}
	a.pages[p] = pageInfo{next: a.holes}
	a.holes = p + 1
	a.live--
}

func (a *arena) link(p uint32) {
	pi := &a.pages[p]
	pi.prev, pi.next = 0, a.room[pi.class]
	if pi.next != 0 {
		a.pages[pi.next-1].prev = p + 1
	}
	a.room[pi.class] = p + 1
}

func (a *arena) unlink(p uint32) {
	pi := &a.pages[p]
	if pi.prev != 0 {
		a.pages[pi.prev-1].next = pi.next
	} else {
		a.room[pi.class] = pi.next
	}
	if pi.next != 0 {
		a.pages[pi.next-1].prev = pi.prev
	}
	pi.next, pi.prev = 0, 0
}

// block is the whole of a block.
func (a *arena) block(ref uint32, class uint8) []uint32 {
	off := ref & pageMask
	return a.pages[ref>>pageBits].words[off : off+uint32(classWords[class])]
}

// at is the i-th word of a list. The pointer is valid until the list is resized.
func (a *arena) at(ref uint32, class uint8, i uint32) *uint32 {
	if class == classPaged {
		return &a.pages[a.dirs[ref][i>>pageBits]>>pageBits].words[i&pageMask]
	}
	return &a.pages[ref>>pageBits].words[ref&pageMask+i]
}

// run is the list from word i on, as far as it lies in one piece.
func (a *arena) run(ref uint32, class uint8, i uint32) []uint32 {
	if class == classPaged {
		return a.pages[a.dirs[ref][i>>pageBits]>>pageBits].words[i&pageMask:]
	}
	return a.block(ref, class)[i:]
}

// resize makes room for need words in a list that holds used words, and gives memory back when it is clearly
// too large: the first min(used, need) words stay.
func (a *arena) resize(ref uint32, class uint8, used, need uint32) (uint32, uint8) {
	if class == classPaged {
		return a.resizePaged(ref, need)
	}
	size := uint32(classWords[class])
	switch {
	case need > maxBlock:
		return a.page(ref, class, used)
	case need > size:
	case need == 0 && class != 0:
	case class > 1 && size <= 8 && need <= uint32(classWords[class-1]):
	case class > 2 && need <= uint32(classWords[class-2]):
	default:
		return ref, class
	}
	to := classFor(need)
	var moved uint32
	if to != 0 {
		moved = a.alloc(to)
	}
	if class != 0 {
		if to != 0 {
			copy(a.block(moved, to), a.block(ref, class)[:min(used, need)])
		}
		a.release(ref, class)
	}
	return moved, to
}

// page turns a block into a paged list of one page.
func (a *arena) page(ref uint32, class uint8, used uint32) (uint32, uint8) {
	first := a.alloc(classPage)
	if class != 0 {
		copy(a.block(first, classPage), a.block(ref, class)[:used])
		a.release(ref, class)
	}
	dir := []uint32{first}
	if n := len(a.dirFree); n > 0 {
		d := a.dirFree[n-1]
		a.dirFree = a.dirFree[:n-1]
		a.dirs[d] = dir
		return d, classPaged
	}
	a.dirs = append(a.dirs, dir)
	return uint32(len(a.dirs) - 1), classPaged
}

func (a *arena) resizePaged(ref uint32, need uint32) (uint32, uint8) {
	dir := a.dirs[ref]
	if need > uint32(len(dir))*pageWords {
		a.dirs[ref] = append(dir, a.alloc(classPage))
		return ref, classPaged
	}
	for len(dir) > 1 && need+pageWords/2 <= uint32(len(dir)-1)*pageWords {
		a.release(dir[len(dir)-1], classPage)
		dir = dir[:len(dir)-1]
	}
	if cap(dir) > 4*len(dir) {
		dir = slices.Clone(dir)
	}
	a.dirs[ref] = dir
	if len(dir) > 1 || need > maxBlock/2 {
		return ref, classPaged
	}
	to := classFor(need)
	var moved uint32
	if to != 0 {
		moved = a.alloc(to)
		copy(a.block(moved, to), a.block(dir[0], classPage)[:need])
	}
	a.release(dir[0], classPage)
	a.dirs[ref] = nil
	a.dirFree = append(a.dirFree, ref)
	return moved, to
}

// bytes is what the arena holds of the heap.
func (a *arena) bytes() int {
	n := a.live * pageBytes
	if a.spare != nil {
		n += pageBytes
	}
	n += cap(a.pages)*int(unsafe.Sizeof(pageInfo{})) + cap(a.dirs)*24 + cap(a.dirFree)*4
	for _, d := range a.dirs {
		n += cap(d) * 4
	}
	return n
}
