// Package tagindex is the index of tags, as plain data structures without I/O.
//
//	Local   tier 2: which connection of one loop carries which tag
//	Walk    a fan-out round over the members of a tag, in as many pieces as the loop likes
//	Expr    a tag expression such as `room:1 && !vip`; Bound is one prepared for a Local
//	Tier1   which front end (FE) has members of a tag, on the push node that owns the tag
//	Hasher  makes the keys of Tier1, equal on all nodes of a cluster
//
// # Local
//
// A key is app and tag in whatever form the caller joins them; a connection is its slot number on the loop. A member list
// holds a word an entry, a connection's own list two, so either end of a membership finds the other:
// joining, leaving and leaving everything at a disconnect do not depend on how many members a tag has. All lists
// and keys live in pages without pointers, which the garbage collector does not look into, in blocks of the size
// that they need; memory goes back when members leave. 12 bytes a membership, 8 a connection and 24 a tag with the
// bytes of its key are the content; the tests hold what that comes to.
//
// # Walks
//
// A walk meets every connection that is a member from its start until it is met, once, and no other: not one that joined
// after the start, be it for the second time or in a slot that somebody else had. Members leave and join while walks
// are open, and no tombstone is needed for that: a list knows how far each walk is, and a removal moves
// members only within the part that the same walks have still ahead (closeGap). So a list is never longer than its
// members, however many rounds of a hot tag overlap. The price is a move for each open walk with the
// member still ahead; whoever starts walks bounds how many are open.
//
// # Tier 1
//
// A slot of 8 bytes says that one FE has members of one tag. Slots are kept in the order of their keys by linear
// probing with an order-preserving home place, so a table grows in place by 1/16 and is never copied; the
// resident size follows the content, whatever the garbage collector's settings. A tag of many FEs has one slot and a
// sorted list or bitmap. See [Key] for what a collision does.
//
// # Ownership
//
// A Local, its Walks and Bounds belong to one loop. Expr and Hasher are immutable. Tier1 is safe for concurrent use. No
// function keeps a slice or string that it was given; what is returned is the caller's. The package starts no goroutine.
//
// # Limits
//
// Keys of 255 bytes, 2^24 connections, 65,535 tags of a connection, 16 GiB of lists; beyond, Join refuses and counts.
// Expressions: 1,024 bytes, 32 tags, 32 parentheses within each other; beyond, Parse says so. Tier 1: FE numbers up to
// 32,766; beyond, Add refuses and counts.
//
// Sources: linear hashing, W. Litwin, Linear Hashing: A New Tool for File and Table Addressing, 1980 (the keys of
// Local); ordered linear probing, O. Amble and D. Knuth, Ordered Hash Tables, 1974 (Tier1); SipHash,
// J.-P. Aumasson and D. Bernstein, 2012.
package tagindex
