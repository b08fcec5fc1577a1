// Package daemon is one process of klink: the roles wired together from the configuration, their listeners, metrics, signals and
// the order in which all of it ends.
//
// [Start] opens the user state, reads keys and certificates, and binds every listener, so that whatever is wrong shows before anything is
// served. [Process.Run] serves until its context ends and then drains: readiness goes off, after drain.ready_delay the front end tells its sessions to go, paced;
// then the API finishes its requests, and the store closes last. [Process.Kill] cuts the drain short. [Signals] map SIGTERM, SIGINT and SIGHUP
// to these.
//
// The service manager is told of the start, of each reload and of the drain (sd_notify).
//
// [Process.Reload] takes certificates, keys, origins and the log level while connections live on, and names the keys whose change needs a restart.
//
// [DevFolder] is what `klink dev` keeps for one user of a machine: a certificate for this machine's loopback, and a secret for tokens, so that the
// other commands work without any configuration.
//
// Goroutines: Run owns all that it starts and returns when they have ended. Environment variables of the service manager (NOTIFY_SOCKET) are read here
// and nowhere else.
package daemon
