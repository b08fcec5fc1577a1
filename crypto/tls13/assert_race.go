//go:build race

package tls13

// assertions makes misuse that could repeat a nonce a panic. The race detector marks builds that test.
const assertions = true
