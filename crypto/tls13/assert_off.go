//go:build !race

package tls13

// assertions makes misuse that could repeat a nonce a panic; without it the same misuse is an error and the connection must be closed.
const assertions = false
