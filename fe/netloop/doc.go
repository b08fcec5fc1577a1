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
// Send writes at once. What the kernel does not take of a frame waits here, and the connection refuses frames until that is written. A plain
// connection keeps the shared bytes of the frame themselves; sealed bytes, and what was corked, are kept in a pooled buffer. TLS records
// are sealed once and sent to their end.
//
// # Ownership
//
// A loop's goroutine owns its connections, buffers and records; other goroutines reach it through its mailbox. While it sleeps the caller of a
// WakeHere may borrow the loop for one round of deferred work, under a lock that the goroutine gives up only to sleep. While a handshake
// runs, the descriptor is lent to a handshake loop, which reads and writes it; to close it stays with the I/O loop. Bodies given to the
// handler alias the read buffer, a record in it, or a pooled buffer that is given back after the call.
//
// # Bounds
//
// Connections, handshakes in flight (in all and per network), partial input (per connection and in all), time to the first frame, time to
// flush at the end, connections accepted a second: each has a limit in [Config] and a counter in [Stats]. What one connection may say in a
// round is bounded by the read buffer, before it has said what it speaks by 4 KiB.
//
// Sources: RFC 6455 (WebSocket), RFC 8446 (TLS 1.3), RFC 7301 (ALPN), the PROXY protocol by HAProxy (proxy-protocol.txt, version 2),
// epoll(7).
package netloop
