package klink

import (
	"errors"
	"fmt"
)

// Code says why one request failed; the session goes on. The numbers travel in Error and Response
// frames, the names in HTTP problems and logs. Both are stable.
type Code uint16

// The codes of failed requests.
const (
	OK               Code = 0
	CodeInvalid      Code = 1  // the request itself is wrong; repeating it is useless
	CodeUnauthorized Code = 2  // no or no valid token or API key
	CodeForbidden    Code = 3  // authenticated, but not allowed to do this
	CodeNotFound     Code = 4  // the thing named does not exist
	CodeTooLarge     Code = 5  // a size limit was exceeded
	CodeLimit        Code = 6  // a count limit was exceeded (tags, requests in flight)
	CodeRateLimited  Code = 7  // too many in too short a time; retry later
	CodeUnavailable  Code = 8  // a part that is needed is away; retry later
	CodeOverloaded   Code = 9  // refused to protect others; retry later
	CodeTimeout      Code = 10 // the deadline passed; whether it took effect is unknown
	CodeInternal     Code = 11 // a defect of klink
	CodeConflict     Code = 12 // the state does not allow it (in progress, version mismatch)
	CodeUnknownSvc   Code = 13 // no service of that name
	CodeUnknownMeth  Code = 14 // the service has no such method
	CodeUnsupported  Code = 15 // known, but not offered by this server
	CodeExpired      Code = 16 // the time limit that the sender set has passed
)

var codeNames = [...]string{
	"ok", "invalid", "unauthorized", "forbidden", "not_found", "too_large", "limit_exceeded", "rate_limited",
	"unavailable", "overloaded", "timeout", "internal", "conflict", "unknown_service", "unknown_method",
	"unsupported", "expired",
}

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code_%d", uint16(c))
}

// Temporary reports whether the same request may succeed later.
func (c Code) Temporary() bool {
	switch c {
	case CodeRateLimited, CodeUnavailable, CodeOverloaded, CodeTimeout, CodeInternal:
		return true
	default:
		return false
	}
}

// Error is a failed request: a stable code and a text for people.
type Error struct {
	Code Code
	Text string // includes the text of Err
	Err  error  // the cause, may be nil
}

func (e *Error) Error() string { return e.Code.String() + ": " + e.Text }

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an [Error]; a %w operand becomes its cause.
func Errorf(c Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: c, Text: err.Error(), Err: errors.Unwrap(err)}
}
