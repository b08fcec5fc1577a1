// Package auth decides who may do what: device tokens (JWT) with the permissions that they grant, and API keys of back ends.
//
// # Tokens
//
// A token is a JWS in compact form (RFC 7515) with the claims of RFC 7519. [Verifier] checks it with the key that its kid names; the algorithm
// belongs to the key and is never taken from the header, which must only agree. HS256 (secrets from 32 bytes), RS256 (2,048 to 8,192 bits), ES256 and
// EdDSA (Ed25519) are known. exp and sub are required; exp, nbf and iat are checked with a leeway, aud where one is
// configured. Claims and header members that are not known are passed over, as the RFCs say, but crit and b64, which must be understood, are
// refused. So is whatever could be read in two ways: members that stand twice, line ends, padding, bits beyond the last
// byte, text that is not UTF-8, half a surrogate pair; and what is longer than [MaxToken] or has more than 64 members.
//
// # Grants
//
// What a token allows is a [Grants]: patterns of tags to subscribe and publish to, and of services to call. A pattern is exact, or ends in *
// (any rest); {user} stands for the token's user. Write a separator behind it: {user}* lets al into what is alice's, {user}:* does not.
// Equal sets are one object, so that many sessions share it; an issuer that writes {user} and not the name makes the most of that.
//
// # JWK sets
//
// A set (RFC 7517) is read by [Verifier.UseJWKS] and then by [Verifier.Run]: at most 64 KiB, from a file, by https, or by http from this
// host. The last good set stays in force for as long as the source gives no better one. The keys of the configuration win over those of the set.
//
// # API keys
//
// Only hashes of API keys are configured. The hash is a fast one, without salt: that is enough for random keys, and for nothing else.
//
// # Goroutines
//
// A Verifier and APIKeys may be used from any goroutine. Keys of a JWK set are read by [Verifier.Run], which is the caller's goroutine. No
// argument is kept: claims and grants are copies of what the token says.
//
// No error or log of this package holds a token, a key or a part of one; see [TokenError] for what it does hold.
package auth
