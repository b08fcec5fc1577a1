// Package floor holds the programs that klink is measured against: servers that do the same exchange with the least that one can do.
//
//   - [Server] is the floor: one thread, one epoll descriptor, one system call a delivery. It answers a Connect and heartbeats with bytes that were
//     made before, checks nothing, and pushes by walking a list of descriptors. With a certificate it adds TLS: crypto/tls for the handshake, then one AEAD
//     seal a delivery.
//   - [Goroutines] is the usual design in Go: two goroutines, a buffered reader and a channel for each connection.
//   - [Hub] is what one writes with gorilla/websocket and net/http: a map of users, a push handler, an acknowledged delivery.
//
// They speak enough of klink/1 that the same client can be connected to all of them, and they are correct: they take input in any
// pieces, finish partial writes, and lose nothing. They have no limits, no authentication and no clean end: they live for one measurement, on loopback, and end with
// their process.
//
// [Stream], [Record] and [RecordConn] are shared with the client side of the measurements.
//
// A Server belongs to one goroutine; only its TLS handshakes run on others. Bytes given to Push are not kept after it returns.
//
// Sources: epoll(7), RFC 8446 sections 5 and 7.1 (records, traffic keys).
package floor
