package api

import (
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/klinkio/klink"
)

// MaxBody bounds the body of a request in bytes.
const MaxBody = 1 << 20

// maxPooled is up to which size buffers are kept for the next request.
const maxPooled = 128 << 10

// call is one request being served. It is pooled: nothing may keep it, or what lies in its buffers, beyond the handler.
type call struct {
	s    *Server
	w    http.ResponseWriter
	r    *http.Request
	key  Key
	id   string // request id
	in   []byte // body
	out  []byte // answer
	json reader
}

type callPool struct{ sync.Pool }

func (p *callPool) take(s *Server, w http.ResponseWriter, r *http.Request) *call {
	c, _ := p.Get().(*call)
	if c == nil {
		c = new(call)
	}
	c.s, c.w, c.r = s, w, r
	c.id = s.requestID(r)
	return c
}

func (p *callPool) put(c *call) {
	if cap(c.in) > maxPooled || cap(c.out) > maxPooled || cap(c.json.spare) > maxPooled {
		return
	}
	c.s, c.w, c.r, c.key, c.id = nil, nil, nil, nil, ""
	c.in, c.out = c.in[:0], c.out[:0]
	c.json.reset(nil)
	p.Put(c)
}

// Header values that are shared, so that setting them allocates nothing. net/http does not change them.
var (
	typeJSON    = []string{"application/json"}
	typeProblem = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
)

// typeCurl is what `curl -d` says of any body. It is read as JSON all the same: a form of another page can't send an API key.
const typeCurl = "application/x-www-form-urlencoded"

// read reads the body into c.in and points c.json at it.
func (c *call) read() error {
	if v := c.r.Header["Content-Type"]; len(v) > 0 && v[0] != "application/json" && v[0] != typeCurl {
		media, params, err := mime.ParseMediaType(v[0])
		if charset := params["charset"]; err != nil || media != "application/json" || charset != "" && charset != "utf-8" && charset != "UTF-8" {
			return &failure{kind: problemMediaType, detail: "the body has the media type " + strconv.Quote(v[0]) + ": send Content-Type: application/json"}
		}
	}
	if c.r.ContentLength > MaxBody {
		return tooLarge()
	}
	if n := int(c.r.ContentLength); n >= cap(c.in) {
		c.in = make([]byte, 0, n+1) // one more, so that the end is seen without growing
	} else if cap(c.in) == 0 {
		c.in = make([]byte, 0, 512)
	}
	c.in = c.in[:0]
	for {
		n, err := c.r.Body.Read(c.in[len(c.in):cap(c.in)])
		c.in = c.in[:len(c.in)+n]
		switch {
		case len(c.in) > MaxBody:
			return tooLarge()
		case err == io.EOF:
			c.json.reset(c.in)
			return nil
		case err != nil:
			return &failure{kind: problemInvalid, detail: "the body could not be read to its end", cause: err}
		}
		if len(c.in) == cap(c.in) {
			c.in = append(c.in, 0)[:len(c.in)]
		}
	}
}

func tooLarge() error {
	return &failure{kind: problemTooLarge, detail: "the body is larger than " + strconv.Itoa(MaxBody) + " bytes"}
}

// finish reads to the end of the JSON text and returns what was wrong with it.
func (c *call) finish() error { return c.json.finish() }

func (r *reader) finish() error {
	r.end()
	if r.err != nil {
		return r.err
	}
	return nil
}

// reply sends c.out as the answer.
func (c *call) reply(status int) {
	c.send(status, typeJSON)
}

func (c *call) send(status int, media []string) {
	h := c.w.Header()
	h["Content-Type"] = media
	h["Cache-Control"] = noStore
	h["X-Request-Id"] = []string{c.id}
	if len(c.out) > 2048 { // net/http counts shorter ones itself
		h["Content-Length"] = []string{strconv.Itoa(len(c.out))}
	}
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(c.out) // an error means that the client has left
	}
}

// refuse answers with a problem.
func (c *call) refuse(err error) problem {
	f := asFailure(err)
	if f.kind == problemInternal {
		c.s.log.Error("request failed", "request_id", c.id, "path", c.r.URL.Path, "err", f.cause)
	}
	h := c.w.Header()
	setRetry(h, f)
	if f.kind == problemUnauthorized {
		h.Set("WWW-Authenticate", challenge)
	}
	c.out = appendProblem(c.out[:0], f, c.id)
	c.send(problems[f.kind].Status, typeProblem)
	return f.kind
}

// maxAudited bounds each text of an audit record in bytes: no identifier is longer.
const maxAudited = 256

// audit records an administrative call, also a refused one. Users are named, keys by their name only.
func (c *call) audit(action string, err error, attrs ...slog.Attr) {
	result := "ok"
	if err != nil {
		result = problems[asFailure(err).kind].Code
	}
	all := []slog.Attr{
		slog.String("action", action), slog.String("result", result), slog.String("request_id", c.id),
		slog.String("remote", c.r.RemoteAddr),
	}
	if c.key != nil {
		all = append(all, slog.String("key", c.key.Name()), slog.String("app", c.key.App()))
	}
	for i := range attrs { // a refused call may name anything
		if v := attrs[i].Value; v.Kind() == slog.KindString && len(v.String()) > maxAudited {
			attrs[i].Value = slog.StringValue(v.String()[:maxAudited] + "...")
		}
	}
	c.s.log.LogAttrs(c.r.Context(), slog.LevelInfo, "audit", append(all, attrs...)...)
}

// maxRequestID bounds a request id that a client sends.
const maxRequestID = 64

// requestID is the client's id, if it is a decent one, or a fresh one.
func (s *Server) requestID(r *http.Request) string {
	if v := r.Header["X-Request-Id"]; len(v) == 1 && decent(v[0]) {
		return v[0]
	}
	var b [40]byte
	return string(strconv.AppendUint(append(b[:0], s.idPrefix...), s.requests.Add(1), 36))
}

func decent(id string) bool {
	for i := range len(id) {
		if c := id[i]; c != '-' && c != '_' && c != '.' && (c < '0' || '9' < c) && (c < 'A' || 'Z' < c) && (c < 'a' || 'z' < c) {
			return false
		}
	}
	return id != "" && len(id) <= maxRequestID
}

// newIDPrefix makes request ids of different servers and lives different.
func newIDPrefix() string { return klink.NewID(time.Now())[:18] + "-" }
