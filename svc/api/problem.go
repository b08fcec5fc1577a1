package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/svc/push"
)

// ProblemInfo is one row of the table of errors.
type ProblemInfo struct {
	Code    string // stable
	Status  int    // of HTTP
	Title   string
	Meaning string // and what to do
	Retry   bool   // the same request may succeed later; the answer then has Retry-After
}

// problem is an index into problems, so that counters can be arrays.
type problem uint8

const (
	problemInvalid problem = iota
	problemUnauthorized
	problemForbidden
	problemCrossOrigin
	problemNotFound
	problemMethod
	problemConflict
	problemInProgress
	problemExpired
	problemTooLarge
	problemMediaType
	problemMisdirected
	problemLimit
	problemKeyReused
	problemRateLimited
	problemInternal
	problemUnsupported
	problemUnavailable
	problemOverloaded
	problemTimeout
	numProblems
)

var problems = [numProblems]ProblemInfo{
	problemInvalid:      {"invalid", 400, "The request is wrong", "The request itself is wrong; errors names the place. Repeating it is useless.", false},
	problemUnauthorized: {"unauthorized", 401, "No valid API key", "Send Authorization: Bearer KEY with a key that the server knows.", false},
	problemForbidden:    {"forbidden", 403, "Not allowed", "The API key does not have the scope that the route needs.", false},
	problemCrossOrigin:  {"cross_origin", 403, "Cross-origin request", "A browser sent this from a page of another origin. The API is for servers.", false},
	problemNotFound:     {"not_found", 404, "Not found", "There is no such route or thing.", false},
	problemMethod:       {"method_not_allowed", 405, "Method not allowed", "The route exists, for the methods that the Allow header lists.", false},
	problemConflict:     {"conflict", 409, "Conflict", "The present state does not allow it.", false},
	problemInProgress:   {"in_progress", 409, "In progress", "A push with this idempotency key is under way. Repeat the request for its answer.", true},
	problemExpired:      {"expired", 410, "Expired", "The time limit that the request sets has passed.", false},
	problemTooLarge:     {"too_large", 413, "Too large", "The body or a part of it is larger than its limit in bytes.", false},
	problemMediaType:    {"unsupported_media_type", 415, "Unsupported media type", "Send the body with Content-Type: application/json.", false},
	problemMisdirected:  {"misdirected", 421, "Misdirected request", "The Host header does not name this server.", false},
	problemLimit:        {"limit_exceeded", 422, "Limit exceeded", "More things than a limit of the service allows; detail names it.", false},
	problemKeyReused:    {"idempotency_key_reused", 422, "Idempotency key reused", "The idempotency key was used for a different push. Take a new one.", false},
	problemRateLimited:  {"rate_limited", 429, "Rate limited", "The API key's rate is used up. Repeat after the time in Retry-After.", true},
	problemInternal:     {"internal", 500, "Internal error", "A defect of klink. The log names the request id.", false},
	problemUnsupported:  {"unsupported", 501, "Unsupported", "Known, but not offered by this server.", false},
	problemUnavailable:  {"unavailable", 503, "Unavailable", "A part that is needed is away. Repeat after the time in Retry-After.", true},
	problemOverloaded:   {"overloaded", 503, "Overloaded", "Refused to protect others; nothing was done. Repeat after the time in Retry-After.", true},
	problemTimeout:      {"timeout", 504, "Timeout", "The time limit has passed. Whether it took effect is unknown; with an Idempotency-Key it is safe to repeat.", false},
}

// Problems is the table of errors.
func Problems() []ProblemInfo { return append([]ProblemInfo(nil), problems[:]...) }

// problemOf finds the row of a code; codes of client frames that have no own row are internal.
func problemOf(c klink.Code) problem {
	switch c {
	case klink.CodeInvalid:
		return problemInvalid
	case klink.CodeUnauthorized:
		return problemUnauthorized
	case klink.CodeForbidden:
		return problemForbidden
	case klink.CodeNotFound, klink.CodeUnknownSvc, klink.CodeUnknownMeth:
		return problemNotFound
	case klink.CodeTooLarge:
		return problemTooLarge
	case klink.CodeLimit:
		return problemLimit
	case klink.CodeRateLimited:
		return problemRateLimited
	case klink.CodeUnavailable:
		return problemUnavailable
	case klink.CodeOverloaded:
		return problemOverloaded
	case klink.CodeTimeout:
		return problemTimeout
	case klink.CodeConflict:
		return problemConflict
	case klink.CodeUnsupported:
		return problemUnsupported
	case klink.CodeExpired:
		return problemExpired
	default:
		return problemInternal
	}
}

// failure is an error on its way to the client.
type failure struct {
	kind   problem
	detail string
	path   string        // JSON path of what is wrong, if it is in the body
	retry  time.Duration // for Retry-After; 0: the default of the row
	cause  error         // for the log
}

func (f *failure) Error() string { return f.detail }

func (f *failure) Unwrap() error { return f.cause }

// asFailure gives any error its row. Texts of internal errors stay in the log.
func asFailure(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	switch {
	case errors.Is(err, push.ErrInProgress):
		return &failure{kind: problemInProgress, detail: push.ErrInProgress.Text, cause: err}
	case errors.Is(err, push.ErrKeyReused):
		return &failure{kind: problemKeyReused, detail: push.ErrKeyReused.Text, cause: err}
	}
	if f, ok := errors.AsType[*push.FieldError](err); ok {
		return &failure{kind: problemOf(f.Err.Code), detail: f.Field + ": " + f.Err.Text, path: "$." + f.Field, cause: err}
	}
	e, ok := errors.AsType[*klink.Error](err)
	if !ok || problemOf(e.Code) == problemInternal {
		return &failure{kind: problemInternal, detail: "see the log of the server for this request id", cause: err}
	}
	return &failure{kind: problemOf(e.Code), detail: e.Text, cause: err}
}

const retryDefault = time.Second

// appendProblem appends the problem details (RFC 9457).
func appendProblem(b []byte, f *failure, requestID string) []byte {
	row := &problems[f.kind]
	b = append(b, `{"type":"/v1/problems/`...)
	b = append(b, row.Code...)
	b = append(b, `","title":"`...)
	b = append(b, row.Title...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(row.Status), 10)
	b = append(b, `,"detail":`...)
	b = appendString(b, f.detail)
	b = append(b, `,"code":"`...)
	b = append(b, row.Code...)
	b = append(b, `","request_id":`...)
	b = appendString(b, requestID)
	if f.path != "" {
		b = append(b, `,"errors":[{"path":`...)
		b = appendString(b, f.path)
		b = append(b, `,"detail":`...)
		b = appendString(b, f.detail)
		b = append(b, `}]`...)
	}
	return append(b, '}')
}

// setRetry sets Retry-After where the row says that repeating may help.
func setRetry(h http.Header, f *failure) {
	if !problems[f.kind].Retry {
		return
	}
	d := f.retry
	if d <= 0 {
		d = retryDefault
	}
	h.Set("Retry-After", strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
}
