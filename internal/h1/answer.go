package h1

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// States of an answer, in which order they come tells who writes it.
const (
	serving  = iota // the handler runs
	answered        // Send was called before the handler returned
	returned        // the handler has returned without an answer
)

// Answer is the answer to one request. The handler sets RequestID, if it does, before it returns; it fills the rest and calls Send once, on
// any goroutine.
type Answer struct {
	Status    int
	Type      string // Content-Type
	RequestID string
	Retry     string // Retry-After, empty: none
	Challenge string // WWW-Authenticate, empty: none
	Body      []byte // used again for the next request: append to Body[:0]

	s     *Server
	c     *conn
	state atomic.Int32
}

// Send hands the answer over; nothing of it may be changed afterwards.
func (a *Answer) Send() {
	if a.state.Swap(answered) != returned {
		return // the loop writes it when the handler returns
	}
	s := a.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wakeFD < 0 {
		return // the server has ended
	}
	s.answers = append(s.answers, a)
	s.wakeLocked()
}

// appendHead appends status line and headers.
func (s *Server) appendHead(b []byte, a *Answer) []byte {
	if now := time.Now(); now.Unix() != s.dated {
		s.dated = now.Unix()
		s.date = now.UTC().AppendFormat(s.date[:0], http.TimeFormat)
	}
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(a.Status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(a.Status)...)
	b = append(b, "\r\nContent-Type: "...)
	b = append(b, a.Type...)
	b = append(b, "\r\nCache-Control: no-store\r\nX-Request-Id: "...)
	b = append(b, a.RequestID...)
	if a.Retry != "" {
		b = append(b, "\r\nRetry-After: "...)
		b = append(b, a.Retry...)
	}
	if a.Challenge != "" {
		b = append(b, "\r\nWWW-Authenticate: "...)
		b = append(b, a.Challenge...)
	}
	b = append(b, "\r\nDate: "...)
	b = append(b, s.date...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(a.Body)), 10)
	return append(b, "\r\n\r\n"...)
}
