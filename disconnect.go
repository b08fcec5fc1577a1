package klink

import "fmt"

// Disconnect is a code that ends a session. The same number travels in the Disconnect frame, as the WebSocket
// close code and as the QUIC application error. 4000 to 4499: the client may come back; 4500 to 4999: it must
// not do so by itself.
type Disconnect uint16

// The disconnect codes. See [Disconnect.Info] for what a client does on each.
const (
	DisconnectShutdown     Disconnect = 4000
	DisconnectSlow         Disconnect = 4001
	DisconnectHeartbeat    Disconnect = 4002
	DisconnectTokenExpired Disconnect = 4003
	DisconnectOverloaded   Disconnect = 4004
	DisconnectInternal     Disconnect = 4005
	DisconnectLoginTimeout Disconnect = 4006
	DisconnectRateLimited  Disconnect = 4007
	DisconnectUnavailable  Disconnect = 4008
	DisconnectMoved        Disconnect = 4009

	DisconnectProtocol     Disconnect = 4500
	DisconnectUnauthorized Disconnect = 4501
	DisconnectForbidden    Disconnect = 4502
	DisconnectReplaced     Disconnect = 4503
	DisconnectSuperseded   Disconnect = 4504
	DisconnectKicked       Disconnect = 4505
	DisconnectRevoked      Disconnect = 4506
	DisconnectTooLarge     Disconnect = 4507
	DisconnectTooMany      Disconnect = 4508
	DisconnectDeleted      Disconnect = 4509
	DisconnectBadConnect   Disconnect = 4510
)

// First is what a client does before it comes back.
type First uint8

// What to do first.
const (
	FirstNothing  First = iota // reconnect with resume
	FirstRefresh               // get a new token
	FirstEndpoint              // use another endpoint, the target if one was given
	FirstStop                  // do not reconnect; tell the application
)

var firstNames = [...]string{"resume", "refresh_token", "other_endpoint", "stop"}

func (f First) String() string { return firstNames[f] }

// DisconnectInfo is one row of the close-code table.
type DisconnectInfo struct {
	Code    Disconnect
	Name    string // stable, for metrics, logs and the HTTP API
	Meaning string
	Retry   bool
	First   First
	DelayMs uint32 // advised mean delay before the first retry, spread by the client's jitter; a frame may say another
}

var disconnects = [...]DisconnectInfo{
	{DisconnectShutdown, "shutdown", "the front end drains or restarts", true, FirstEndpoint, 1000},
	{DisconnectSlow, "slow_consumer", "the client read too slowly and its outbound budget was used up", true, FirstNothing, 1000},
	{DisconnectHeartbeat, "heartbeat_timeout", "nothing was heard from the client for two heartbeat intervals", true, FirstNothing, 0},
	{DisconnectTokenExpired, "token_expired", "the token's time is over and it was not refreshed", true, FirstRefresh, 0},
	{DisconnectOverloaded, "overloaded", "admission refused the login to protect others", true, FirstEndpoint, 5000},
	{DisconnectInternal, "internal", "a defect of the server", true, FirstEndpoint, 2000},
	{DisconnectLoginTimeout, "login_timeout", "no Connect frame came in time", true, FirstNothing, 1000},
	{DisconnectRateLimited, "rate_limited", "the client sent more frames or bytes than its budget allows", true, FirstNothing, 10000},
	{DisconnectUnavailable, "unavailable", "the user state is away and the app does not allow degraded sessions", true, FirstEndpoint, 5000},
	{DisconnectMoved, "moved", "the operator moves this client to another front end", true, FirstEndpoint, 0},
	{DisconnectProtocol, "protocol_error", "a frame broke the protocol", false, FirstStop, 0},
	{DisconnectUnauthorized, "unauthorized", "the token is missing, malformed, expired or not signed by a known key", false, FirstRefresh, 0},
	{DisconnectForbidden, "forbidden", "the token is valid but does not allow this connection (app, origin)", false, FirstStop, 0},
	{DisconnectReplaced, "replaced", "a newer login of this device, or of this user by policy, took over", false, FirstStop, 0},
	{DisconnectSuperseded, "superseded", "a newer attempt of the same install holds the session already", false, FirstStop, 0},
	{DisconnectKicked, "kicked", "a back end ended the session", false, FirstStop, 0},
	{DisconnectRevoked, "revoked", "the token was revoked", false, FirstRefresh, 0},
	{DisconnectTooLarge, "frame_too_large", "a frame was larger than the limit told in Connected", false, FirstStop, 0},
	{DisconnectTooMany, "too_many_devices", "the app's device policy does not admit another session of this user", false, FirstStop, 0},
	{DisconnectDeleted, "user_deleted", "the user was deleted", false, FirstStop, 0},
	{DisconnectBadConnect, "bad_connect", "the Connect frame is not acceptable; the reason says why", false, FirstStop, 0},
}

// Disconnects lists the whole table, in the order of the numbers.
func Disconnects() []DisconnectInfo { return append([]DisconnectInfo(nil), disconnects[:]...) }

// Info is the code's row; an unknown code reads as internal or, from 4500 on, as protocol_error with its own number.
func (d Disconnect) Info() DisconnectInfo {
	for i := range disconnects {
		if disconnects[i].Code == d {
			return disconnects[i]
		}
	}
	in := DisconnectInfo{Code: d, Name: fmt.Sprintf("disconnect_%d", uint16(d)), Meaning: "unknown to this version", First: FirstStop}
	if d < 4500 {
		in.Retry, in.First, in.DelayMs = true, FirstNothing, 1000
	}
	return in
}

func (d Disconnect) String() string { return d.Info().Name }
