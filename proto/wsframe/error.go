package wsframe

import "errors"

// ErrShort says that the request is not complete.
var ErrShort = errors.New("wsframe: the request is not complete")

// RequestError is a request that can't be upgraded, with the HTTP status that answers it.
type RequestError struct {
	Status int
	Text   string // for the client's developer; says nothing about the server
}

func (e *RequestError) Error() string { return e.Text }

var (
	errStart     = &RequestError{400, "not an HTTP/1.1 request"}
	errLine      = &RequestError{400, "a line does not end with CR LF"}
	errMethod    = &RequestError{405, "the method must be GET"}
	errVersion   = &RequestError{505, "the HTTP version must be 1.1"}
	errTarget    = &RequestError{400, "the request target must be a path"}
	errTooLarge  = &RequestError{431, "the request is larger than 8 KiB or has more than 64 header lines"}
	errHeader    = &RequestError{400, "a header line is malformed"}
	errTwice     = &RequestError{400, "a header that may stand once stands twice"}
	errHost      = &RequestError{400, "the Host header is missing or malformed"}
	errBody      = &RequestError{400, "an upgrade request has no body"}
	errUpgrade   = &RequestError{426, "this address speaks WebSocket: send Upgrade: websocket and Connection: Upgrade"}
	errWSVersion = &RequestError{426, "the Sec-WebSocket-Version must be 13"}
	errKey       = &RequestError{400, "the Sec-WebSocket-Key must be 16 bytes in base64"}
)

// FrameError is a frame that breaks the protocol, with the close code that answers it.
type FrameError struct {
	Code uint16
	Text string // fits into a close frame
}

func (e *FrameError) Error() string { return e.Text }

var (
	errReserved  = &FrameError{CodeProtocol, "a reserved bit is set and no extension was agreed on"}
	errOpcode    = &FrameError{CodeProtocol, "a reserved opcode"}
	errUnmasked  = &FrameError{CodeProtocol, "a frame from the client is not masked"}
	errControl   = &FrameError{CodeProtocol, "a control frame is fragmented or longer than 125 bytes"}
	errNoStart   = &FrameError{CodeProtocol, "a continuation without a message"}
	errInside    = &FrameError{CodeProtocol, "a new message inside a fragmented one"}
	errLength    = &FrameError{CodeProtocol, "a length that is not in its shortest form"}
	errCloseBody = &FrameError{CodeProtocol, "a close frame with a malformed code"}
	errAfter     = &FrameError{CodeProtocol, "a frame after the close frame or after an error"}
	errText      = &FrameError{CodeBadText, "text that is not UTF-8"}
	errBig       = &FrameError{CodeTooBig, "the message is larger than the limit"}
)
