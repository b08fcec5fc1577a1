// Package link is the seam between transports (fe/netloop, later fe/quicfront) and sessions (connmgr).
//
// A transport presents its connections to a [Handler] as handles and callbacks, never as objects with a
// blocking Read. One handler belongs to one loop; every callback runs on that loop's goroutine, and every
// method of [Loop] except Wake must be called there. So neither side needs a lock on the way of a message.
//
// # Sending
//
// Send never blocks. Accepted means that the kernel has all bytes. Queued means that the transport took the frame
// but holds a remainder; from then on it refuses frames of this connection until OnWritable. Refused means
// that it took nothing: the caller keeps the frame in its own bounded queue, where the policy of slow
// readers applies. While OnMessage of a connection runs, its sends are corked and leave in one write when the
// input that was read is consumed.
//
// # Bytes
//
// Bodies given to OnMessage alias the loop's read buffer and are valid until the callback returns. Bytes in a [Frame] are
// immutable and shared by all connections that it goes to, on all loops; the garbage collector frees them.
package link
