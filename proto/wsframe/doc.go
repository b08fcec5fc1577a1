// Package wsframe is RFC 6455 for event loops: the opening handshake and the frames as byte functions of the server's side,
// without sockets, goroutines or allocations on the way of a message.
//
//	ParseUpgrade   the client's request, checked whole (section 4.2.1)
//	AppendAccept   the answer, or AppendRefusal
//	Reader.Next    one frame at a time out of a buffer, unmasked in place (section 5)
//	AppendHeader   the header before a payload to the client; AppendClose
//
// # Bytes
//
// What ParseUpgrade and Next return aliases the input. Next writes to it: the mask is taken off in place, once, when the frame is
// there in full; a frame must not be given to Next again after it was consumed. Append functions grow dst as append does.
//
// A [Reader] keeps no byte of a message. Whoever calls it puts the fragments of a message together: a [Fragment] is to be appended to what
// came before it, and with Final the message is complete. Control frames come between fragments and are no part of them.
//
// # Limits
//
// A request is at most [MaxRequest] bytes with 64 header lines; both are refused as soon as they are exceeded, and so is a line that ends
// without CR. A message, its fragments together, is at most as long as the caller says, never more than [MaxMessage]; the header of
// a frame alone tells that it is too long. Control frames carry at most 125 bytes. Errors of frames carry the close code to answer with.
//
// # Narrower than the RFCs
//
// The request target must be a path (no absolute form, which only proxies get) and is not percent-decoded. Folded header lines and bare
// line feeds are refused, as is a body. Extensions are not negotiated, so each reserved bit is an error. Lengths must be in their
// shortest form, as section 5.2 demands and many servers do not check.
//
// Sources: RFC 6455; RFC 9110 and 9112 for the request; RFC 9457 for the body of a refusal; the WebSocket close code registry at IANA.
package wsframe
