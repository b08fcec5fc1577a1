package link

import (
	"net/netip"

	"github.com/klinkio/klink"
)

// Form is how a frame body is put on the wire of one connection.
type Form uint8

// The wire forms.
const (
	FormStream   Form = iota // unsigned varint length, then the body: TCP, TLS, QUIC
	FormWSBinary             // one unmasked binary WebSocket message
	FormWSJSON               // one unmasked text WebSocket message, protojson
	NumForms
)

// Info describes a connection that is ready for frames.
type Info struct {
	Transport klink.Transport
	Form      Form
	Remote    netip.AddrPort // of the client: from the socket, or from the PROXY header of a trusted balancer
	Resumed   bool           // TLS session resumption
}

// Result says what Send did with a frame.
type Result uint8

// The results of Send.
const (
	Accepted Result = iota // the kernel has all of it
	Queued                 // taken, a remainder waits; do not send before OnWritable
	Refused                // not taken: the connection is blocked, closing or gone
)

// Loop is what a transport offers to the handler of one loop.
type Loop interface {
	// Index is the loop's number, the one in its handles.
	Index() int

	// NowMs is the loop's clock: milliseconds of monotonic time since the transport was made, refreshed
	// once per round of the loop.
	NowMs() int64

	// Send gives f to the connection. See the package documentation for the meaning of the result.
	Send(h klink.Handle, f *Frame) Result

	// PendingBytes is what the transport holds for the connection after Queued; 0 when nothing waits or it is gone.
	PendingBytes(h klink.Handle) int

	// Close ends the connection after what the transport holds for it is written or a short grace (at most
	// 2 s) is over: the WebSocket close frame with the code and the reason (cut to 123 bytes of
	// UTF-8), close_notify, FIN. Nothing is delivered after Close but OnClose, exactly once, never from inside Close.
	// Code 0 closes without a WebSocket code of ours (1000, the answer to the client's own close).
	Close(h klink.Handle, code klink.Disconnect, reason string)

	// Wake makes OnRound run soon. It may be called from any goroutine, never blocks, and wakes once for any
	// number of calls before the round.
	Wake()

	// WakeHere is Wake for a caller that waits for the result of a little work: where the loop sleeps, the calling goroutine runs
	// OnRound itself, which saves two switches of threads. It must not be called on a loop's goroutine.
	WakeHere()
}

// Handler receives the connections of one loop. All callbacks run on the loop's goroutine, or on that of a WakeHere while the loop sleeps,
// never two at once, and must not block.
type Handler interface {
	// OnOpen announces a connection that is ready for frames: after TLS and the WebSocket upgrade.
	OnOpen(h klink.Handle, in Info)

	// OnMessage gives one frame body, possibly empty (a heartbeat). In FormWSJSON it is JSON text, checked to be
	// UTF-8. body is valid until the return.
	OnMessage(h klink.Handle, body []byte)

	// OnAlive says that the client was heard without a frame: a WebSocket ping or pong, which the transport answers itself.
	OnAlive(h klink.Handle)

	// OnWritable says that all that was Queued is written and Send may accept again.
	OnWritable(h klink.Handle)

	// OnClose is the last callback of a handle, once for each OnOpen.
	OnClose(h klink.Handle, why CloseReason)

	// OnRound runs once in each round of the loop, after the events of that round, and at the latest waitMs after
	// the previous one returned: deferred work, timers, the mailbox. It returns how many milliseconds the loop may sleep
	// before the next round: 0 to poll without sleeping, negative to sleep until an event or Wake.
	OnRound(nowMs int64) (waitMs int)
}

// CloseReason is why a transport ended a connection.
type CloseReason uint8

// The reasons. Each is a counter.
const (
	CloseLocal    CloseReason = iota // Loop.Close was called
	ClosePeer                        // orderly: FIN, close_notify or WebSocket close from the client
	CloseReset                       // reset by the client or the network
	CloseProtocol                    // the client broke a rule of TLS, WebSocket or framing
	CloseTooLarge                    // a frame over the limit
	CloseTimeout                     // handshake or flush grace over
	CloseShutdown                    // the server closes
	CloseError                       // an error of this host
	NumCloseReasons
)

var closeNames = [NumCloseReasons]string{"local", "peer", "reset", "protocol", "too_large", "timeout", "shutdown", "error"}

func (c CloseReason) String() string { return closeNames[c] }
