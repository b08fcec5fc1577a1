// Package loadtest measures klink against the programs of package floor, over real sockets, each server in a process of its own.
//
// Nouns: a bench is one subject (sessions' memory, fan-out, ...) and gives figures; a figure is one number with its unit and, where the budget has them, the
// bar to reach and the aim; a worker is a child process: the klink server, a control server, or a swarm, which is up to 18,000 client
// sessions on one event loop that really read; an order is what the coordinator asks of a worker.
//
// # How it is measured
//
// CPU is that of the whole server process, user and system, by its CPU clock. Figures of klink and of its control come from the same run, round by round in turn,
// at the same number of connections; a ratio is the median of the ratios of the rounds. Times depend on the machine and its neighbours: bars are on ratios,
// bytes and counts only. On loopback about half of what a send costs is the receiver's TCP work; it is in the figures of both sides alike.
//
// # Workers
//
// A worker is the same binary, started again with [WorkerArg]; it reads orders as JSON lines from its standard input, answers on its standard output, and
// ends when its input ends, or after the time that its specification names. [Worker] is its whole life.
//
// # Limits
//
// One process holds at most MaxSessions connections (20,000 descriptors are common); a swarm dials at most 3,000 times from one source address of
// 127.0.0.0/8, since finding a free port becomes dear long before they run out. All traffic is loopback.
package loadtest
