package h1

import "sync/atomic"

// counters are the server's counts. Any goroutine may read them.
type counters struct {
	open             atomic.Int64
	served, handed   atomic.Uint64
	lost, crowded    atomic.Uint64
	idle, late, slow atomic.Uint64
	acceptErrors     atomic.Uint64
}

// Stats are counts since the start.
type Stats struct {
	Open         int64  // connections now, without those that net/http has
	Served       uint64 // requests that the handler took
	Handed       uint64 // connections given to net/http
	Crowded      uint64 // of these, because too much partial input was held
	Lost         uint64 // of the handed: closed because there was no descriptor for net/http
	Idle         uint64 // closed by Config.IdleTimeout
	Late         uint64 // closed by Config.ReadTimeout
	Slow         uint64 // closed by Config.BusyTimeout
	AcceptErrors uint64 // accepting was put off each time
}

// Stats reads the counters.
func (s *Server) Stats() Stats {
	c := &s.stats
	return Stats{
		Open: c.open.Load(), Served: c.served.Load(), Handed: c.handed.Load(), Crowded: c.crowded.Load(), Lost: c.lost.Load(),
		Idle: c.idle.Load(), Late: c.late.Load(), Slow: c.slow.Load(), AcceptErrors: c.acceptErrors.Load(),
	}
}
