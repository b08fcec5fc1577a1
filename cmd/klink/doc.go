// Command klink is an open signaling service for persistent connections: the server in all its roles, and the tools of its users.
//
//	klink dev                                   everything in one process, for trying out
//	klink serve --config klink.yaml             the same for production
//	klink connect --user bob --tag room:1       a device on the command line
//	klink push --tag room:1 '{"hi":1}'          a back end on the command line
//	klink presence bob                          who is online
//
// One file a subcommand: flags and output. What the server does is in package daemon and below.
//
// Data goes to standard output, logs and errors to standard error. The exit status is 0 for success, 1 for failure, 2 for wrong use.
package main
