// Package netloop is the epoll transport of a front end: TCP, TLS 1.3, WS and WSS on event loops, behind the seam of fe/link.
//
// A [Server] runs one I/O loop for each core and a few handshake loops. Each I/O loop has its own epoll descriptor, its own listening
// socket (SO_REUSEPORT), one read buffer for all its connections, and a slab of pointer-free connection records. A connection belongs to the
// loop that accepted it until its end; an idle one costs its record (and a TLS record where there is one) and nothing else.
//
// # The way of a connection
//
//	accept -> first bytes: PROXY header, TLS, WebSocket upgrade or klink frames
//	TLS    -> the descriptor moves to a handshake loop, which runs crypto/tls as a coroutine, and comes back with keys
//	WS     -> the upgrade is parsed on the loop; the subprotocol chooses the form
//	open   -> OnOpen, then frames in OnMessage, until OnClose
//
// # Sending
//
// Send writes at once. What the kernel does not take of a frame is kept in a pooled buffer and the connection refuses frames until that is
// written; a plain connection of which the kernel takes nothing refuses the frame instead, so that shared bytes stay shared. TLS records are
// sealed once and sent to their end.
//
// # Bounds
//
// Connections, handshakes in flight (in all and per network), partial input (per connection and in all), time to the first frame, time to
// flush at the end, connections accepted a second: each has a limit in [Config] and a counter in [Stats].
package netloop
