package crux

import "sync/atomic"

type counters struct {
	superseded, tooMany, revoked, fenced          atomic.Uint64
	replaced, closesDropped                       atomic.Uint64
	reaped, forgottenOld, forgottenFull           atomic.Uint64
	tagLimit, revocationLimit, writes, writeFails atomic.Uint64
	snapshots, snapshotFails, torn                atomic.Uint64
}

// Counters says how often the embedded store refused, dropped or forgot something since it was opened, and why.
type Counters struct {
	Superseded      uint64 // registrations refused: a newer session holds the device, or the user by policy
	TooMany         uint64 // registrations refused by OldestWins
	Revoked         uint64 // registrations refused: token revoked
	Fenced          uint64 // registrations and renewals of incarnations that are not alive
	Replaced        uint64 // sessions told to be closed
	ClosesDropped   uint64 // of these, not kept for RenewFE because the incarnation's list was full
	Reaped          uint64 // sessions removed because their FE's lease ended
	ForgottenOld    uint64 // offline users forgotten after KeepLastSeen
	ForgottenFull   uint64 // offline users forgotten because of MaxKnown
	TagLimit        uint64 // tag changes refused by a bound
	RevocationLimit uint64 // revocations refused by a bound
	Writes          uint64 // changes on disk
	WriteFails      uint64 // changes refused because they could not be written
	Snapshots       uint64 // written
	SnapshotFails   uint64
	TornBytes       uint64 // of an unfinished write, cut off when the store was opened
}

// Counters reads all counters.
func (e *Embedded) Counters() Counters {
	c := &e.stats
	return Counters{
		Superseded: c.superseded.Load(), TooMany: c.tooMany.Load(), Revoked: c.revoked.Load(), Fenced: c.fenced.Load(),
		Replaced: c.replaced.Load(), ClosesDropped: c.closesDropped.Load(), Reaped: c.reaped.Load(),
		ForgottenOld: c.forgottenOld.Load(), ForgottenFull: c.forgottenFull.Load(),
		TagLimit: c.tagLimit.Load(), RevocationLimit: c.revocationLimit.Load(),
		Writes: c.writes.Load(), WriteFails: c.writeFails.Load(),
		Snapshots: c.snapshots.Load(), SnapshotFails: c.snapshotFails.Load(),
		TornBytes: c.torn.Load(),
	}
}
