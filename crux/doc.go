// Package crux is the user state of klink: which sessions a user has and on which front end (FE), which FEs are
// alive, the tags that back ends set, revocations.
//
// [Store] is the interface; [Embedded] the engine inside one process; crux/cruxtest the suite that every engine passes.
//
// # Liveness
//
// A session names the incarnation of its FE and is valid while that FE holds its lease. A heartbeat of a session
// writes nothing here. When a lease ends, all sessions of that incarnation are offline at once.
//
// # Versions
//
// Every change of a user (login, logout, replaced, tags) gets a version: max(stored + 1, floor told by the FE,
// store time in ms x 1024), below 2^53. It never goes back, also when the store lost its last writes.
//
// # Attempts
//
// Connect.attempt grows per install. Register compares it with the holder of the same device: higher takes over;
// equal (transports that race): the first holder stays; lower is refused. Without an attempt (0) the later login wins.
// A re-registration carries its old attempt and login time, so it never replaces a newer session.
//
// # Ownership
//
// Stores are safe for concurrent use. Strings and slices given are kept (strings) or copied (slices); results are the caller's.
package crux
