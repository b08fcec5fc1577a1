// Package api is the HTTP edge of klink for back ends: push, presence, tags, administration, traces, health and metrics. openapi.yaml
// in this directory is the contract, served at /v1/openapi.yaml; a test checks every answer of the handlers against it.
//
// # Requests
//
// Every /v1 route but the contract and the problem pages needs "Authorization: Bearer KEY" with the scope that the route names, and spends
// from the key's rate. A key acts for one app. Bodies are strict JSON (RFC 8259): at most [MaxBody] bytes, no unknown field, no field twice,
// nothing after the value; what is wrong is named with its JSON path. Numbers that exceed 2^53 travel as strings.
//
// # Answers
//
// Errors are problem details (RFC 9457) with a stable code, see [Problems]. Answers of operations and all problems carry X-Request-Id, the
// caller's if it sent one. A refusal that may pass has Retry-After. What is no HTTP at all gets the plain answer of net/http.
//
// # Browsers
//
// The API is for servers. There is no CORS answer, so a page of another origin can't read from it nor send a key; requests that a browser
// says come from another origin are refused (net/http.CrossOriginProtection). With [Config.Hosts] only those names may be in the Host header,
// which keeps pages out that rebind their own name to a loopback address. The demo page is of the same origin.
//
// # Hot paths
//
// Push and presence bodies are read by hand from a pooled buffer; what is kept of a push is copied once. Answers are appended to a pooled
// buffer. Metrics handles are resolved when the server is made. [Hot] serves them without net/http where the store answers from memory.
package api
