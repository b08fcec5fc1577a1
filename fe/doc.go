// Package fe is one front-end node: it listens, logs devices in, serves what they ask for, delivers pushes and drains.
//
// [Node] wires the transport (fe/netloop) to the sessions (connmgr) and is the sessions' authority. A login goes: Connect -> admission ->
// token -> user state (crux) -> session -> Connected. Tokens whose check is cheap (HS256) are checked on the loop, others
// by a small pool of workers; a store that answers from memory is asked on the loop, another through batches.
//
// The node holds a lease in the user state. When it was lost (a suspended machine, a store that was away), the node registers
// as a new incarnation and registers its sessions again, at a bounded rate and with their old attempts, so that it never replaces a newer login.
// No session ends because of that, unless its device has a newer one elsewhere. Sessions admitted while the user state was away are registered
// when it is back. Tags that back ends set meanwhile are joined then; of those that they took away in that time a session learns at its next login.
//
// All methods may be called from any goroutine.
package fe
