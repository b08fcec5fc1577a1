// Package auth decides who may do what: device tokens (JWT) with the permissions that they grant, and API keys of back ends.
//
// # Tokens
//
// A token is a JWS in compact form (RFC 7515) with the claims of RFC 7519. [Verifier] checks it with the key that its kid names; the algorithm
// belongs to the key and is never taken from the header. HS256, RS256 (2,048 bits and more), ES256 and EdDSA (Ed25519) are known. exp and sub
// are required; exp, nbf and iat are checked with a leeway, aud where one is configured. Members that appear twice, crit, and
// anything longer than [MaxToken] are refused.
//
// # Grants
//
// What a token allows is a [Grants]: patterns of tags to subscribe and publish to, and of services to call. A pattern is exact, or ends in *
// (any rest); {user} stands for the token's user. Equal sets are one object, so that many sessions share it.
//
// # Goroutines
//
// A Verifier and APIKeys may be used from any goroutine. Keys of a JWK set are read by [Verifier.Run], which is the caller's goroutine.
//
// No error or log of this package holds a token, a key or a part of one.
package auth
