// Package h1 serves a few HTTP/1.1 routes on one epoll loop, for calls that come thousands of times a second, and gives every connection
// that wants anything else to net/http.
//
// What it understands is narrow on purpose: requests for exactly the given request lines, with a Content-Length and a small body,
// without Transfer-Encoding, Expect, Upgrade, an origin, or headers that are malformed or stand twice. Everything else, also everything that is
// wrong, is not answered here: the connection goes to [Server.Fallback] with the bytes that were read, and net/http sees it as if it had
// just been accepted. So there is one place for errors, and no second opinion about HTTP.
//
// The loop is one goroutine; it owns the connections. A [Handler] runs on it and must not block; it may answer later, from any goroutine.
package h1
