// Package connmgr owns the sessions of one front end: their records, state machine, send queues, heartbeats, limits, the
// fan-out to them and their paced end.
//
// A [Manager] has one [Shard] for each event loop of the transport. A shard is the loop's [link.Handler]: it belongs to the loop's goroutine,
// holds the records of the loop's connections and the loop's part of the tag index, and nothing else touches them.
// Others post: a [Task], or the loop's part of a push. The [Authority] decides who may log in and is told who left; package fe implements it.
//
// The life of a session: open (the connection is there) -> login (Connect is with the authority) -> live -> closing. A connection
// that does not send Connect within LoginTimeout, is silent for two whole heartbeat intervals, or whose token ends is closed by the wheel. A loop
// that did not run itself for a while ends nobody for silence before it has read what waits in the sockets.
//
// When the transport's loops have ended, [Manager.Close] answers what is still posted; until then a push that is posted late waits.
//
// # Sending
//
// A frame goes to the connection at once. Only when the transport holds a remainder does the session get a queue, bounded by
// QueueBytes; beyond it collapsible frames keep only the newest, droppable ones go, and then the session ends as slow_consumer.
// Every drop is counted, told to the client by a Gap before the next frame, and kept in a ring of late outcomes for traces.
//
// # Fairness
//
// Pushes wait in a lane for each app; the loop serves the lanes in turn (lane.go, schedule.go), in slices of 2 ms between which it sees to its
// connections. An app may hold as much of a loop's mailbox as it leaves free. Within an app pushes are done one after the other: one to
// everybody holds up those behind it.
//
// # Limits
//
// [Config] names them; [Stats] counts what ran into each. A client's heartbeats cost a tenth of a frame of its budget each.
//
// # Memory
//
// Records are pointer-free and fixed in size; ids sit in a pointer-free arena; there is no goroutine, timer or buffer per session.
package connmgr
