// Package crux is the user state of klink: which sessions a user has and on which front end (FE), which FEs are
// alive, the tags that back ends set, revocations.
//
// [Store] is the interface; [Embedded] the engine inside one process; crux/cruxtest the suite that every engine passes.
//
// # Liveness
//
// A session names the incarnation of its FE and is valid while that FE holds its lease, judged by the store's clock. A
// heartbeat of a session writes nothing here. When a lease ends, all sessions of that incarnation are offline at once.
// That is for ever: whoever comes late is fenced and registers anew, as a new incarnation with a higher number.
//
// # Versions
//
// Every change of a user (login, logout, replaced, tags, deleted) gets a version: max(stored + 1, floor told by the FE,
// store time in ms x 1024), below 2^53. It never goes back, also when the store lost its last writes. The end of a lease
// raises it too where the engine can tell the moment; it never lowers it.
//
// # Attempts
//
// Connect.attempt grows per install. Register compares it with the holder of the same device: higher takes over;
// equal (transports that race): the first holder stays; lower is refused. Without an attempt (0) on either side the later
// login wins: a login now is later than any before, a re-registration is as late as the login time that it carries, and
// with equal times the holder stays. So a re-registration never replaces a newer session.
//
// # Closing what was replaced
//
// The caller of Register is told which sessions it replaced. The FE that holds one is told by its renewals, too, until it
// confirms by Unregister that the session is closed, so a call lost between two FEs leaves no session behind.
//
// # Ownership
//
// Stores are safe for concurrent use. Strings and slices given are kept (strings) or copied (slices); results are the caller's.
// An engine has no goroutine that outlives its Close.
//
// # The embedded engine
//
// Users are spread over 64 shards by a keyed hash of app and user; each shard has a lock, a hash table (table.go) and
// packed records without pointers (record.go, slab.go), about 60 bytes for an online user with one device and ids of 16
// bytes. Dead sessions are dropped by whoever reads their user, and by a bounded sweep in each RenewFE.
//
// Leases go by the monotonic clock, so setting the machine's clock ends none. Sessions are in memory only: they end with
// the process, like the FE in it. With a directory ([EmbeddedConfig]) tags and revocations survive: a change is on disk
// (frame.go, journal.go: checksums, one sync for all changes that wait together) before it is applied and answered, so a
// full disk refuses it with [ErrUnavailable] and changes nothing, while sessions go on. A mark kept ahead of the clock
// makes versions and incarnation numbers grow over restarts, also if the machine's clock went back.
//
// Limits: [MaxDevicesLimit] sessions and [MaxUserTags] tags of one user; 65,536 apps; 65,536 incarnations with sessions;
// about a million users with tags and a million revocations (more are refused: neither is forgotten silently);
// [EmbeddedConfig] bounds the offline users of whom only the time is known. [Counters] says what was refused, dropped or
// forgotten, and why.
package crux
