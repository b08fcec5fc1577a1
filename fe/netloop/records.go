package netloop

import "github.com/klinkio/klink/crypto/tls13"

const recordChunk = 256

// recordSlab holds the TLS records of the connections that have one. The records have no pointers and never move.
type recordSlab struct {
	chunks []*[recordChunk]tls13.Record
	free   []uint32
	used   uint32
}

// take returns a zeroed record's index+1.
func (s *recordSlab) take() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i + 1
	}
	if int(s.used/recordChunk) >= len(s.chunks) {
		s.chunks = append(s.chunks, new([recordChunk]tls13.Record))
	}
	s.used++
	return s.used
}

func (s *recordSlab) at(ref uint32) *tls13.Record {
	return &s.chunks[(ref-1)/recordChunk][(ref-1)%recordChunk]
}

// put frees a record that was wiped.
func (s *recordSlab) put(ref uint32) { s.free = append(s.free, ref-1) }
