package netloop

import "github.com/klinkio/klink/crypto/tls13"

const recordChunk = 256

// recordSlab holds the TLS records of the connections that have one. The records have no pointers and never move.
type recordSlab struct {
	chunks []*[recordChunk]tls13.Record
	free   []uint32
	used   uint32
}

// take returns the index+1 of a zeroed record.
func (s *recordSlab) take() uint32 {
	if n := len(s.free); n > 0 {
		ref := s.free[n-1]
		s.free = s.free[:n-1]
		return ref
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
func (s *recordSlab) put(ref uint32) { s.free = append(s.free, ref) }

// retainedTable holds the connections of the other engine.
type retainedTable struct {
	all  []*tls13.Retained
	free []uint32
}

func (t *retainedTable) take(r *tls13.Retained) uint32 {
	if n := len(t.free); n > 0 {
		ref := t.free[n-1]
		t.free = t.free[:n-1]
		t.all[ref-1] = r
		return ref
	}
	t.all = append(t.all, r)
	return uint32(len(t.all))
}

func (t *retainedTable) at(ref uint32) *tls13.Retained { return t.all[ref-1] }

func (t *retainedTable) put(ref uint32) {
	t.all[ref-1] = nil
	t.free = append(t.free, ref)
}
