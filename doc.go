// Package klink holds the nouns and codes that every part of klink shares: identifiers,
// handles, pushes and their reports, disconnect and error codes, drop reasons.
//
// klink is a signaling service for persistent connections. Devices hold one long connection
// to a front end (FE) over TCP, TLS or WebSocket; back ends push to users, devices, tags, tag
// expressions or everyone through an HTTP API and ask who is online.
//
// The way of a message, and so the order in which to read the packages:
//
//	fe/netloop   epoll loops: accept, TLS record layer, WebSocket and stream framing
//	fe/link      the seam between transports and sessions: handle, shared frame, callbacks
//	connmgr      sessions of one FE: state machine, send queue, heartbeat wheel, limits
//	fe           one front-end node: login, subscribe, delivery, drain
//	tagindex     which session carries which tag (tier 2), which FE carries which tag (tier 1)
//	crux         user state: sessions, leases, versions, tags set by back ends, revocations
//	svc/push     plans a push: users through crux, tags through the index, and collects reports
//	svc/presence who is online
//	svc/api      the HTTP edge of all that
//
// A session belongs to one loop; only that loop touches it. Others post to the loop's mailbox.
// A push is encoded once and its bytes are shared by every connection it goes to.
//
// This package imports only the standard library and may be imported by every other one.
package klink
