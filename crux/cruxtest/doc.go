// Package cruxtest is the conformance suite of user state: every engine behind [crux.Store] passes [TestStore].
//
// The suite plays the sequences that break promises (a front end that hangs and returns, transports that race, the late
// goodbye of an old connection) and checks what a store has to show after them. It never looks at the clock of the
// machine: time passes by [Harness].Advance, so an engine in the process runs inside a synctest bubble and an engine
// behind a socket in real time.
package cruxtest
