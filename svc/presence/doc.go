// Package presence answers who is online: users in bulk from the user state, with devices, transports, versions and last
// seen; and the sessions that carry a tag, counted and in pages, from the front ends.
//
// A query of users asks no front end. An answer that the user state could not check (its store is away) says that it is stale.
package presence
