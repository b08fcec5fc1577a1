package api

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/internal/h1"
	"github.com/klinkio/klink/svc/push"
)

// Hot serves the two calls that come thousands of times a second, a push and a presence query that are right, on an event loop of its own; it also
// refuses those without a good key, scope or rate, so that a key's checks are counted once. Every other request, also every one that is wrong in
// another way, goes to net/http with its connection: serve the Fallback of Hot with [Server.HTTP].
type Hot struct {
	*h1.Server
	s      *Server
	routes [2]*routeMetrics
	json   reader // of the loop
}

// Request lines by index of Hot.routes.
var hotLines = []string{"POST /v1/push HTTP/1.1\r\n", "POST /v1/presence/query HTTP/1.1\r\n"}

// Hot makes it over a listener. It is for stores that answer from memory: elsewhere there is nothing to gain, and it answers nil.
func (s *Server) Hot(l net.Listener) (*Hot, error) {
	tcp, ok := l.(*net.TCPListener)
	if !ok || !s.presence.NonBlocking() {
		return nil, nil
	}
	h := &Hot{s: s}
	h.routes[0] = s.metrics.route("POST", "/v1/push")
	h.routes[1] = s.metrics.route("POST", "/v1/presence/query")
	var err error
	h.Server, err = h1.New(tcp, h1.Config{
		Lines: hotLines, Handler: h.serve, IdleTimeout: idleTimeout, ReadTimeout: readTimeout, BusyTimeout: s.push.Timeout(), Late: h.late,
	})
	return h, err
}

// hotScopes are what Hot.routes need.
var hotScopes = [...]string{ScopePush, ScopePresence}

// serve answers a request that is right, on the loop.
func (h *Hot) serve(r *h1.Request, a *h1.Answer) bool {
	s := h.s
	if t := string(r.ContentType); t != "" && t != "application/json" && t != typeCurl || !s.hostAllowed(string(r.Host)) {
		return false
	}
	a.RequestID = string(r.RequestID)
	if !decent(a.RequestID) {
		var b [40]byte
		a.RequestID = string(strconv.AppendUint(append(b[:0], s.idPrefix...), s.requests.Add(1), 36))
	}
	a.Status, a.Type, a.Retry, a.Challenge, a.Body = http.StatusOK, typeJSON[0], "", "", a.Body[:0]
	key, err := authorized(s.keys, string(r.Authorization), hotScopes[r.Route])
	if err != nil {
		return h.refuse(h.routes[r.Route], a, err)
	}
	h.json.reset(r.Body)
	if r.Route == 0 {
		return h.push(key, a)
	}
	return h.query(key, a)
}

// refuse answers a request that has not begun.
func (h *Hot) refuse(m *routeMetrics, a *h1.Answer, err error) bool {
	began := m.begin()
	h.fail(m, a, err)
	m.end(began)
	a.Send()
	return true
}

func (h *Hot) push(key Key, a *h1.Answer) bool {
	now := time.Now()
	p := &klink.Push{ID: klink.NewID(now), App: key.App(), Accepted: now}
	h.json.push(p)
	if h.json.finish() != nil || h.s.push.Check(p) != nil {
		return false
	}
	if err := spent(key, 1, now); err != nil {
		return h.refuse(h.routes[0], a, err)
	}
	m := h.routes[0]
	m.begin()
	err := h.s.push.Start(p, func(res *push.Result, err error) {
		if err != nil {
			h.fail(m, a, err)
		} else {
			a.Body = appendPushed(a.Body, res)
		}
		m.end(now)
		a.Send()
	})
	if err != nil { // Check has said yes, so this does not come; if it does it must be answered
		h.fail(m, a, err)
		m.end(now)
		a.Send()
	}
	return true
}

func (h *Hot) query(key Key, a *h1.Answer) bool {
	users, err := h.json.users()
	if err != nil {
		return false
	}
	now := time.Now()
	if err := spent(key, 1, now); err != nil {
		return h.refuse(h.routes[1], a, err)
	}
	m := h.routes[1]
	m.begin()
	list, err := h.s.presence.Query(context.Background(), key.App(), users)
	if err != nil {
		h.fail(m, a, err)
	} else {
		a.Body = appendUsers(a.Body, list)
	}
	m.end(now)
	a.Send()
	return true
}

// late is the answer to a push whose front ends have not finished; it goes on.
func (h *Hot) late(route int, requestID string, a *h1.Answer) {
	a.RequestID = requestID
	h.fail(h.routes[route], a, &failure{kind: problemTimeout, detail: "the front ends have not finished; the push goes on"})
}

// fail makes the answer a problem.
func (h *Hot) fail(m *routeMetrics, a *h1.Answer, err error) {
	f := asFailure(err)
	m.failed(f.kind)
	if f.kind == problemInternal {
		h.s.log.Error("request failed", "request_id", a.RequestID, "err", f.cause)
	}
	if f.kind == problemUnauthorized {
		a.Challenge = challenge
	}
	head := http.Header{}
	setRetry(head, f)
	a.Status, a.Type, a.Retry = problems[f.kind].Status, typeProblem[0], head.Get("Retry-After")
	a.Body = appendProblem(a.Body[:0], f, a.RequestID)
}
