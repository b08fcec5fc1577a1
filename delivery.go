package klink

import "time"

// SessionRef names a session that was looked up: where it lives and whose it is.
type SessionRef struct {
	Incarnation Incarnation
	Handle      Handle
	User        string
	Device      string
}

// Delivery is the part of a push that one front end does: named sessions, and everyone there who fits.
// A session that several parts match gets one copy.
type Delivery struct {
	Push     *Push
	Sessions []SessionRef // on this front end
	Tags     []string
	Expr     string // tag expression, checked by the sender
	All      bool   // every session of the app; with Expr: every one that fits the expression
}

// Member is one live session as its front end knows it.
type Member struct {
	SessionRef
	Transport Transport
	Since     time.Time
	Version   Version // of its login
}
