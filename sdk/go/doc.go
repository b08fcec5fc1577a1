// Package sdk is the Go client of klink for devices: it dials a front end over TCP, TLS, WS or WSS, logs in, stays connected,
// and comes back by itself.
//
// # Nouns
//
// A [Client] stands for one install: a device id and a count of connect attempts, both kept by a [Store]. It has at most one
// connection at a time, and none while it waits to try again. A [Handler] hears what happens. Calls ([Client.Subscribe],
// [Client.Publish], [Client.Request]) wait for a connection as long as their context lets them, are matched with their answers by
// id, and fail with a [klink.Error] that carries a [klink.Code].
//
// # Coming back
//
// After a lost connection the client waits a random time below a bound that doubles with each try, from 500 ms to 60 s ("full
// jitter"), and at least 100 ms; a connection that lived for 60 s starts the doubling anew. A Disconnect of the server rules over
// that: its delay, its target, and by its code what to do first: get a token, take another endpoint, or stop.
// See [klink.Disconnect.Info]. Tags are subscribed again with the login; what was pushed while the client was away is
// not told, so [Status.Connects] above one means that pushes may be missing.
//
// # Heartbeats
//
// The server states the interval. The client sends an empty frame when it sent nothing, or heard nothing, for so long. If then nothing is
// heard for a quarter of the interval, bounded to 5 to 20 s, the connection counts as dead and is dialed anew.
//
// # Goroutines and bytes
//
// A Client runs four goroutines: one that dials and keeps time, a reader and a writer for each connection, and one that calls the
// Handler. Besides there is one while a token is fetched, and one while more tags than Connect holds are subscribed. All have ended when [Client.Done] is closed. Callbacks come one at a time and in order,
// never on the reader; they may call every method of the Client. What waits for a slow callback is bounded by count and
// bytes; a push beyond that is dropped, counted, and told by a [Gap] in its place. Of other events more than 256 are
// dropped and counted, but never the last status.
// Everything that is handed to a callback or returned by a call is a copy that belongs to the application.
//
// # Limits
//
// Frames from the server: [Config.MaxFrame]. Frames to it: what it stated at login; larger ones are refused here with
// CodeTooLarge, more requests in flight than it allows with CodeLimit, and the sustained frame rate is kept by sending later.
//
// The protocol is klink/1, proto/klink/v1/client.proto. On full jitter: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter.
package sdk
