package netloop

import (
	"sync/atomic"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crypto/tls13"
	"github.com/klinkio/klink/fe/link"
)

// Refusal is why a connection was not let in, or ended before it could speak klink.
type Refusal uint8

// The refusals; each has a counter.
const (
	RefusedConns       Refusal = iota // MaxConns
	RefusedRate                       // AcceptRate
	RefusedHandshakes                 // MaxHandshakes: this one, or the oldest in flight in its favour; or so many wait to begin
	RefusedNet                        // MaxHandshakesPerNet
	RefusedPlain                      // plaintext where TLS is demanded
	RefusedTLS                        // TLS where there is none
	RefusedProxy                      // a PROXY header from a network that is not trusted
	RefusedProxyHeader                // a PROXY header that is malformed, or missing
	RefusedHandshake                  // TLS failed
	RefusedUpgrade                    // the WebSocket upgrade was refused
	RefusedOrigin                     // the browser's origin
	RefusedTimeout                    // too slow to become ready for frames
	RefusedGone                       // the client left before
	RefusedMemory                     // MaxInputBytes; also of open connections
	RefusedOutput                     // MaxOutputBytes; of open connections
	RefusedRecord                     // a TLS record that breaks the protocol, before the connection was open
	RefusedDescriptors                // the process or the host has no descriptor left
	RefusedShutdown                   // the server stops
	NumRefusals
)

var refusalNames = [NumRefusals]string{
	"max_conns", "accept_rate", "max_handshakes", "handshakes_per_net", "plaintext", "tls_not_offered", "proxy_untrusted",
	"proxy_header", "handshake", "upgrade", "origin", "timeout", "gone", "input_memory", "output_memory", "record", "descriptors", "shutdown",
}

func (r Refusal) String() string { return refusalNames[r] }

// NumTransports sizes counters by transport.
const NumTransports = int(klink.TransportQUIC) + 1

// Stats is a reading of the server's counters. Those that are gauges say so.
type Stats struct {
	Conns        int64                // gauge: descriptors of clients
	Open         [NumTransports]int64 // gauge: ready for frames
	Handshaking  int64                // gauge
	InputBytes   int64                // gauge: partial input kept
	OutputBytes  int64                // gauge: unsent output kept
	Accepted     uint64
	AcceptErrors uint64 // accept failed; it is tried again after a pause
	Opened       [NumTransports]uint64
	Resumed      uint64 // TLS sessions by ticket
	Refused      [NumRefusals]uint64
	Closed       [link.NumCloseReasons]uint64
	BytesIn      uint64 // from sockets, as they came
	BytesOut     uint64
	Reads        uint64
	Writes       uint64
	Blocked      uint64 // writes that the kernel did not take whole
	Wakeups      uint64 // returns of epoll_wait
	Wakes        uint64 // writes to an eventfd
	Stale        uint64 // events and calls for a connection that was gone
	TLS          tls13.Stats
	Cache        tls13.CacheStats
}

// counters are one loop's; the loop writes them, anyone reads.
type counters struct {
	conns, inputBytes, outputBytes                     atomic.Int64
	open                                               [NumTransports]atomic.Int64
	opened                                             [NumTransports]atomic.Uint64
	accepted, acceptErrors, resumed, stale             atomic.Uint64
	refused                                            [NumRefusals]atomic.Uint64
	closed                                             [link.NumCloseReasons]atomic.Uint64
	bytesIn, bytesOut, reads, writes, blocked, wakeups atomic.Uint64
	cacheHits, cacheMisses, cacheEvictions             atomic.Uint64
	cacheEntries                                       atomic.Int64
}

// hotCounters are those that change with every message. The loop adds to plain fields and publishes them before it sleeps, and
// every 64 rounds.
type hotCounters struct {
	bytesIn, bytesOut, reads, writes, blocked, wakeups uint64
}

func (h *hotCounters) publish(c *counters) {
	c.bytesIn.Store(h.bytesIn)
	c.bytesOut.Store(h.bytesOut)
	c.reads.Store(h.reads)
	c.writes.Store(h.writes)
	c.blocked.Store(h.blocked)
	c.wakeups.Store(h.wakeups)
}

func (c *counters) addTo(s *Stats) {
	s.Conns += c.conns.Load()
	s.InputBytes += c.inputBytes.Load()
	s.OutputBytes += c.outputBytes.Load()
	s.Accepted += c.accepted.Load()
	s.AcceptErrors += c.acceptErrors.Load()
	s.Resumed += c.resumed.Load()
	s.BytesIn += c.bytesIn.Load()
	s.BytesOut += c.bytesOut.Load()
	s.Reads += c.reads.Load()
	s.Writes += c.writes.Load()
	s.Blocked += c.blocked.Load()
	s.Wakeups += c.wakeups.Load()
	s.Stale += c.stale.Load()
	s.Cache.Hits += c.cacheHits.Load()
	s.Cache.Misses += c.cacheMisses.Load()
	s.Cache.Evictions += c.cacheEvictions.Load()
	s.Cache.Entries += int(c.cacheEntries.Load())
	for i := range s.Refused {
		s.Refused[i] += c.refused[i].Load()
	}
	for i := range s.Closed {
		s.Closed[i] += c.closed[i].Load()
	}
	for i := range s.Open {
		s.Open[i] += c.open[i].Load()
		s.Opened[i] += c.opened[i].Load()
	}
}
