// Package frame reads and writes the frames of klink/1 by hand, without allocating. The authority on what the bytes
// mean is proto/klink/v1/client.proto; the tests hold this package against the code generated from it.
//
// # Nouns
//
// A body is one encoded ClientFrame or ServerFrame. On a byte stream each body follows its length ([Length], [Reader], [AppendStream]); on
// WebSocket a message is a body, or in the JSON binding its text ([Client.DecodeJSON], [ServerJSON]). The empty body is a heartbeat.
//
//	server:  Client.Decode, Client.DecodeJSON   what clients send
//	         AppendConnected ... AppendPush     what it answers; ServerJSON for the JSON binding
//	client:  AppendConnect ... AppendBye        what it sends
//	         Reader, Server.Decode              what servers answer
//
// # Meaning
//
// As in protobuf: a later value of a field replaces an earlier one, of a repeated field it is added, of a message it is merged; of the
// kinds of frames and of bodies the last one wins. Unknown fields, fields of another wire type, and unknown kinds are skipped. Strings must
// be UTF-8. Two things are narrower than in protobuf, both far from what any encoder of klink/1 makes: groups (which proto3 does not
// have) are skipped to a depth of 32 only, and repeated fields are bounded by [Bounds].
//
// # Bytes
//
// A decoded struct is a view: its byte slices alias the body and are valid as long as the body is, and its slices are used again by the next
// Decode. Strings in decoded structs are copies. Encoders append to what they are given and keep nothing. They trust their input to
// be UTF-8 where the protocol says string; [Body.Check] and klink.CheckID see to that where data enters.
//
// Nothing here starts a goroutine, locks, or keeps state between calls. A [Client], [Server] or [Reader] belongs to one goroutine.
//
// Sources: https://protobuf.dev/programming-guides/encoding, https://protobuf.dev/programming-guides/json.
package frame
