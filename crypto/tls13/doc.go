// Package tls13 is the server side of TLS 1.3 for event loops: no socket, no goroutine, no timer of its own.
//
// crypto/tls does the handshake and nothing else. A [Handshake] runs it as a coroutine (iter.Pull) that parks while bytes
// or a remote signature are missing. Its traffic secrets come out through Config.KeyLogWriter into memory, and move by
// [Handshake.Export] into a [Record]: 208 pointer-free bytes that can live in a slab and protect every later record (RFC
// 8446 section 5). A [Cache] per loop holds the AEAD objects of the records that are busy.
//
// # Nouns
//
//   - [Server]: configuration, certificates and ticket keys of one handshake loop.
//   - [Handshake]: one handshake; Feed it what arrived, send its Output, Export when Done.
//   - [Record]: keys, sequence numbers and the few bits of state of one connection after that.
//   - [Cache]: bounded cache of AEAD objects, one per loop.
//   - [Retained]: the other engine, [EngineStdlib]: a crypto/tls connection kept behind the same shape of calls.
//   - [AsyncSigner]: a private key that lives elsewhere; a handshake waits for its signature without a stack of its own.
//   - [SelfTest]: proves at start-up that this Go release still logs secrets the way the package reads them.
//
// # Goroutines
//
// A Server and its Handshakes belong to one goroutine, a Cache with the Records and Retained connections that it serves
// to one goroutine, not necessarily the same. [Server.SetTicketKeys], [Server.SetCertificates] and [Server.Stats] may be called
// from anywhere, and so may the done function that an AsyncSigner gets. A coroutine must be resumed by the goroutine that made
// it, and that goroutine must not be locked to its thread in between. Each started Handshake must end in Export, Conn, an
// error, or Abort: an abandoned one keeps its coroutine (about 20 KB) for ever.
//
// # Bytes
//
// Handshake.Feed copies what it needs. Record.Open decrypts in place: plaintext aliases the record. AppendSeal copies
// plaintext into dst; what it returned must be sent whole, in order, and never be sealed again. A Record is moved, not
// copied: two copies that both seal would use a nonce twice. Export empties the Handshake, whose further use answers
// [ErrMisuse]; a copy that falls behind in the same Cache is caught and answers [ErrNonceReuse]. Builds with the race
// detector, so the tests, panic on both.
//
// # Secrets
//
// Our copies of secrets (key-log lines, the Handshake's, the Record's) are zeroed when they are no longer needed. The copies
// inside crypto/tls, crypto/hkdf and the AEAD objects can't be; the garbage collector frees them. No secret is written
// anywhere: a Config that has a KeyLogWriter is refused.
//
// # Limits
//
// A record holds at most 16,384 bytes of content, a Handshake at most [MaxPending] bytes of input, one record while it waits for a
// signature. 16 records in a row without application data end a connection. The write key is replaced before
// 2^24 records (RFC 8446 section 5.5 allows 2^24.5 for AES-GCM). There is no early data: crypto/tls refuses it outside QUIC, and the
// tickets made here do not offer it. AES-GCM through crypto/cipher is not available with GODEBUG=fips140=only; there SelfTest
// fails and EngineStdlib is the engine to use.
//
// Sources: RFC 8446, the NSS key log format (RFC 9850), RFC 8448 for the traces in the tests.
package tls13
