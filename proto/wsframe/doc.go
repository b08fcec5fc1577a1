// Package wsframe is RFC 6455 for event loops: the opening handshake and the frames as byte functions of the server's side,
// without sockets, goroutines or allocations on the way of a message.
//
//	ParseUpgrade   the client's request, checked whole (section 4.2.1)
//	AppendAccept   the answer, or AppendRefusal
//	Reader.Next    one frame at a time out of a buffer, unmasked in place (section 5)
//	AppendHeader   the header before a payload to the client; AppendClose, AppendPong
//
// # Bytes
//
// What ParseUpgrade and Next return aliases the input. Next writes to it: the mask is taken off in place, once, so a frame must be
// given to Next in full and not again after it was consumed. Append functions grow dst as append does.
//
// # Limits
//
// A request is at most [MaxRequest] bytes with [maxHeaders] header lines. Extensions are not negotiated, so reserved bits are an error. A
// message may be at most as long as the caller says; the header alone tells that it is too long. Errors of frames carry the close code
// to answer with.
package wsframe
