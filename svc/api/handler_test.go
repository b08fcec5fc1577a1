package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klinkio/klink/svc/presence"
	"github.com/klinkio/klink/svc/push"
)

// sink is a response that keeps only its status.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

// TestHandlerAllocates bounds what the two hot routes allocate behind net/http.
func TestHandlerAllocates(t *testing.T) {
	w := newWorld(t)
	w.login("ann", "a1")
	w.serve([]push.FrontEnd{quietFront{w.fe}}, []presence.FrontEnd{w.fe})
	for _, tc := range []struct {
		path, body string
		most       float64
	}{
		// 16 and 8; the race detector makes pools forget some of what they are given.
		{"/v1/push", `{"to":{"users":["ann"]},"data":{"hi":1}}`, 20},
		{"/v1/presence/query", `{"users":["ann"]}`, 12},
	} {
		body := strings.NewReader(tc.body)
		req, err := http.NewRequest("POST", tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer all"}, "Content-Type": {"application/json"}}
		req.Body, req.ContentLength = io.NopCloser(body), int64(len(tc.body))
		out := &sink{header: make(http.Header)}
		got := testing.AllocsPerRun(500, func() {
			body.Reset(tc.body)
			clear(out.header)
			w.server.ServeHTTP(out, req)
			if out.status != 200 {
				t.Fatal(out.status)
			}
		})
		if got > tc.most {
			t.Errorf("%s: %v allocations, want at most %v", tc.path, got, tc.most)
		}
	}
}
