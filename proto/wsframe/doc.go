// Package wsframe is RFC 6455 for event loops: the upgrade and the frames as byte functions, without sockets, goroutines or
// allocations on the way of a message.
package wsframe
