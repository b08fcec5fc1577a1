package tagindex

import (
	"math/bits"
	"slices"
)

// feSet is the front ends of a tag that more than a few carry: a sorted list, or a bitmap where that is smaller.
type feSet struct {
	words  []uint16
	n      uint16
	bitmap bool
}

func (s *feSet) has(fe uint16) bool {
	if s.bitmap {
		return int(fe/16) < len(s.words) && s.words[fe/16]&(1<<(fe%16)) != 0
	}
	_, ok := slices.BinarySearch(s.words, fe)
	return ok
}

func (s *feSet) add(fe uint16) bool {
	if s.has(fe) {
		return false
	}
	s.n++
	if !s.bitmap {
		i, _ := slices.BinarySearch(s.words, fe)
		s.words = slices.Insert(s.words, i, fe)
		if int(s.n) > int(s.words[len(s.words)-1])/16+1 {
			s.toBitmap()
		}
		return true
	}
	if need := int(fe/16) + 1; need > len(s.words) {
		if need > 2*int(s.n) {
			s.toList()
			s.words = append(s.words, fe) // it is the largest
			return true
		}
		s.words = append(s.words, make([]uint16, need-len(s.words))...)
	}
	s.words[fe/16] |= 1 << (fe % 16)
	return true
}

func (s *feSet) remove(fe uint16) bool {
	if !s.has(fe) {
		return false
	}
	s.n--
	if !s.bitmap {
		i, _ := slices.BinarySearch(s.words, fe)
		s.words = slices.Delete(s.words, i, i+1)
		if cap(s.words) > 4*len(s.words) {
			s.words = slices.Clone(s.words)
		}
		return true
	}
	s.words[fe/16] &^= 1 << (fe % 16)
	if int(s.n)*2 < len(s.words) {
		s.toList()
	}
	return true
}

func (s *feSet) append(dst []uint16) []uint16 {
	if !s.bitmap {
		return append(dst, s.words...)
	}
	for i, w := range s.words {
		for ; w != 0; w &= w - 1 {
			dst = append(dst, uint16(i*16+bits.TrailingZeros16(w)))
		}
	}
	return dst
}

func (s *feSet) toBitmap() {
	list := s.words
	s.words, s.bitmap = make([]uint16, list[len(list)-1]/16+1), true
	for _, fe := range list {
		s.words[fe/16] |= 1 << (fe % 16)
	}
}

func (s *feSet) toList() {
	s.words, s.bitmap = s.append(make([]uint16, 0, s.n+1)), false
}
