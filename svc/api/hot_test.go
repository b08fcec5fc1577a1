package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klinkio/klink/svc/presence"
	"github.com/klinkio/klink/svc/push"
)

// The hot calls are served by the loop when they are right, and by net/http otherwise; a client sees no difference.
func TestHotCallsAreServedByTheLoop(t *testing.T) {
	w := newWorld(t)
	w.login("bob", "phone", "room:1")
	for _, tc := range []struct {
		name, path, body, auth string
		hot                    bool
		status                 int
		want                   string
	}{
		{"push to a user", "/v1/push", `{"to":{"users":["bob"]},"data":{"a":1}}`, "Bearer all", true, 200, `"matched":1`},
		{"push to a tag", "/v1/push", `{"to":{"tags":["room:1"]},"text":"x"}`, "Bearer all", true, 200, `"enqueued":1`},
		{"nobody", "/v1/push", `{"to":{"users":["eve"]},"text":"x"}`, "Bearer all", true, 200, `"offline":1`},
		{"presence", "/v1/presence/query", `{"users":["bob","eve"]}`, "Bearer all", true, 200, `"online":true`},
		{"unknown field", "/v1/push", `{"to":{"users":["bob"]},"text":"x","ttd":1}`, "Bearer all", false, 400, "ttd"},
		{"bad expression", "/v1/push", `{"to":{"expr":"a &&"},"text":"x"}`, "Bearer all", false, 400, "expr"},
		{"no key", "/v1/push", `{"to":{"users":["bob"]},"text":"x"}`, "", true, 401, "unauthorized"},
		{"no scope", "/v1/push", `{"to":{"users":["bob"]},"text":"x"}`, "Bearer none", true, 403, "forbidden"},
		{"rate", "/v1/push", `{"to":{"users":["bob"]},"text":"x"}`, "Bearer slow", true, 429, "rate_limited"},
		{"bad user", "/v1/presence/query", `{"users":[""]}`, "Bearer all", false, 400, "users[0]"},
		{"batch", "/v1/push/batch", `{"pushes":[]}`, "Bearer all", false, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, charged := w.hot.Stats(), 0
			if k := w.keys[tc.auth]; k != nil {
				charged = k.charged()
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if tc.auth != "" {
				req.Header.Set("Authorization", tc.auth)
			}
			req.Header.Set("X-Request-Id", "my-id")
			client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
			defer client.CloseIdleConnections()
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			after := w.hot.Stats()
			if hot := after.Served == before.Served+1 && after.Handed == before.Handed; hot != tc.hot {
				t.Errorf("served by the loop: %v, want %v", hot, tc.hot)
			}
			if tc.status != 0 && (res.StatusCode != tc.status || !strings.Contains(string(b), tc.want)) {
				t.Errorf("%d %s, want %d with %q", res.StatusCode, b, tc.status, tc.want)
			}
			if challenged := res.Header.Get("WWW-Authenticate") != ""; challenged != (tc.status == 401) {
				t.Errorf("WWW-Authenticate %q", res.Header.Get("WWW-Authenticate"))
			}
			if retry := res.Header.Get("Retry-After") != ""; retry != (tc.status == 429) {
				t.Errorf("Retry-After %q", res.Header.Get("Retry-After"))
			}
			if k := w.keys[tc.auth]; k != nil && k.charged() > charged+1 {
				t.Errorf("the key was charged %d times", k.charged()-charged)
			}
			if res.Header.Get("X-Request-Id") != "my-id" || res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("Date") == "" {
				t.Errorf("headers %v", res.Header)
			}
		})
	}
}

// A front end that does not answer costs the caller the time limit of pushes, not the connection without a word.
func TestHotPushTimesOut(t *testing.T) {
	w := newWorld(t)
	w.timeout = time.Nanosecond
	w.serve([]push.FrontEnd{w.fe}, []presence.FrontEnd{w.fe})
	w.login("bob", "phone")
	w.fe.mu.Lock()
	w.fe.hold = true
	w.fe.mu.Unlock()
	before := w.hot.Stats().Served
	a := w.do("POST", "/v1/push", `{"to":{"users":["bob"]},"data":1}`, "X-Request-Id", "my-id")
	if a.status != 504 || !strings.Contains(string(a.body), `"code":"timeout"`) || a.header.Get("X-Request-Id") != "my-id" || w.hot.Stats().Served != before+1 {
		t.Errorf("got %v", a)
	}
	w.fe.release() // the late answer goes nowhere
	if a := w.do("POST", "/v1/presence/query", `{"users":["bob"]}`); a.status != 200 {
		t.Errorf("afterwards: %v", a)
	}
}
