// Package h1 serves a few HTTP/1.1 routes on one epoll loop, for calls that come thousands of times a second, and gives every connection
// that wants anything else to net/http.
//
// What it understands is narrow on purpose: requests for exactly the given request lines, with a Content-Length and a small body,
// without Transfer-Encoding, Expect, Upgrade, an origin, or headers that are malformed or stand twice. Everything else, and what the
// [Handler] does not take, is not answered here: the connection goes to [Server.Fallback] with the bytes that were read, and net/http sees it as if it
// had just been accepted. So there is one place for what is wrong with a request, and no second opinion about HTTP (RFC 9112).
//
// # Ownership
//
// The loop is one goroutine; it owns the connections. A Handler runs on it and must not block; it may answer later, from any goroutine. An
// [Answer] is the handler's until Send. When [Config].BusyTimeout has passed before that, the connection turns to another Answer, so a handler that is
// late writes to memory that nobody reads.
//
// # Limits
//
// A head has 8 KiB, a body 64 KiB; larger ones are net/http's. No request is looked at while an answer is due or not taken by the client, so a
// connection holds one answer, and nothing is read beyond 72 KiB of input behind it, plus one read. All partial input together is bounded by 32 MiB;
// beyond it incomplete requests go to net/http. Each time limit, refusal to accept and lost connection is counted in [Stats].
package h1
