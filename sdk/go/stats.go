package sdk

import "sync/atomic"

// Stats counts what a client did since it was made.
type Stats struct {
	Attempts      uint64 // connections dialed
	Connects      uint64 // logins that succeeded
	DialFailures  uint64 // no connection, or none with TLS and upgrade
	LoginFailures uint64 // a connection, but no Connected
	Lost          uint64 // sessions that ended without a Disconnect and without Close
	Disconnects   uint64 // Disconnects of the server, also refused logins
	HeartbeatLost uint64 // sessions that ended since nothing was heard in time

	FramesIn, FramesOut uint64 // heartbeats included
	BytesIn, BytesOut   uint64 // of frame bodies
	Unknown             uint64 // frames of a kind that this version does not know, skipped
	Stray               uint64 // answers that no call waited for any more

	Pings, Pongs uint64 // heartbeats sent, and answers to Pings of the server
	Pushes       uint64
	Gaps         uint64 // told by the server
	Dropped      uint64 // events that did not reach the handler, pushes included
	Refreshes    uint64 // tokens exchanged on a connection
	Refused      uint64 // calls refused by this client: too large, too many, not valid
}

// counters is the live form of Stats.
type counters struct {
	attempts, connects, dialFailures, loginFailures, lost, disconnects, heartbeatLost atomic.Uint64
	framesIn, framesOut, bytesIn, bytesOut, unknown, stray                            atomic.Uint64
	pings, pongs, pushes, gaps, dropped, refreshes, refused                           atomic.Uint64
}

// Stats reads the counters, each by itself.
func (c *Client) Stats() Stats {
	n := &c.stats
	return Stats{
		Attempts: n.attempts.Load(), Connects: n.connects.Load(), DialFailures: n.dialFailures.Load(), LoginFailures: n.loginFailures.Load(),
		Lost: n.lost.Load(), Disconnects: n.disconnects.Load(), HeartbeatLost: n.heartbeatLost.Load(),
		FramesIn: n.framesIn.Load(), FramesOut: n.framesOut.Load(), BytesIn: n.bytesIn.Load(), BytesOut: n.bytesOut.Load(),
		Unknown: n.unknown.Load(), Stray: n.stray.Load(),
		Pings: n.pings.Load(), Pongs: n.pongs.Load(), Pushes: n.pushes.Load(), Gaps: n.gaps.Load(), Dropped: n.dropped.Load(),
		Refreshes: n.refreshes.Load(), Refused: n.refused.Load(),
	}
}
