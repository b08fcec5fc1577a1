package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/svc/api"
	"github.com/klinkio/klink/svc/push"
)

// TestBadInput: each kind of wrong request gets its documented answer and has no effect.
func TestBadInput(t *testing.T) {
	long := strings.Repeat("x", 129)
	deep := strings.Repeat("[", 200)
	tests := []struct {
		path, body         string
		status             int
		code, detail, json string
	}{
		// Not JSON.
		{"/v1/push", ``, 400, "invalid", "not JSON at byte 0: expected an object, but the text ends", "$"},
		{"/v1/push", `nonsense`, 400, "invalid", "not JSON at byte 0: expected an object, not 'n'", "$"},
		{"/v1/push", `null`, 400, "invalid", "expected an object, not null", "$"},
		{"/v1/push", `hello`, 400, "invalid", "not JSON at byte 0: expected an object, not 'h'", "$"},
		{"/v1/push", `{"to"`, 400, "invalid", "expected a colon, but the text ends", "$"},
		{"/v1/push", `{"to":{"users":["ann"`, 400, "invalid", "expected a comma or ], but the text ends", "$.to.users"},
		{"/v1/push", `{"to":{"users":["ann",]},"data":1}`, 400, "invalid", "expected a value, not ']'", "$.to.users"},
		{"/v1/push", `{"to":{"users":["ann"]},}`, 400, "invalid", "expected the name of a field in quotes, not '}'", "$"},
		{"/v1/push", `{"to":{"users":["ann"]};"data":1}`, 400, "invalid", "expected a comma or }, not ';'", "$"},
		{"/v1/push", `{"to":{"users":["ann"]},"data":1} {}`, 400, "invalid", "expected nothing after the value, not '{'", "$"},
		{"/v1/push", `{"to":{"users":["ann"]},"data":1}` + "\x00", 400, "invalid", "expected nothing after the value", "$"},
		{"/v1/push", `{"to":{"users":["ann"]},"data":01}`, 400, "invalid", "expected a comma or }, not '1'", "$"},
		{"/v1/push", `{"to":{"users":["ann"]},"data":1.}`, 400, "invalid", "expected a digit", "$.data"},
		{"/v1/push", `{"to":{"users":["ann"]},"data":nul}`, 400, "invalid", "expected null", "$.data"},
		{"/v1/push", `{"to":{"users":["ann"]},"data":{"a":[1,{"b" 2}]}}`, 400, "invalid", "expected a colon, not '2'", "$.data"},
		{"/v1/push", `{"to":{"users":["ann"]},"data":"` + "\xff" + `"}`, 400, "invalid", "data: the value is not valid UTF-8", "$.data"},
		{"/v1/push", `{"to":{"users":["ann"]},"text":"` + "\xff" + `"}`, 400, "invalid", "text: the string is not valid UTF-8", "$.text"},
		{"/v1/push", `{"to":{"users":["ann"]},"text":"` + "\n" + `"}`, 400, "invalid", "expected no control character in a string", "$.text"},
		{"/v1/push", `{"to":{"users":["ann"]},"text":"\q"}`, 400, "invalid", "expected an escape sequence, not 'q'", "$.text"},
		{"/v1/push", `{"to":{"users":["ann"]},"text":"\ud800"}`, 400, "invalid", "text: half of a surrogate pair", "$.text"},
		{"/v1/push", `{"to":{"users":["ann"]},"data":` + deep, 400, "invalid", "data: nested deeper than 128", "$.data"},
		// Of the wrong shape.
		{"/v1/push", `[]`, 400, "invalid", "expected an object, not an array", "$"},
		{"/v1/push", `{}`, 400, "invalid", "the field to is missing", "$"},
		{"/v1/push", `{"to":{"users":["ann"]}}`, 400, "invalid", "the payload is missing: give data, text or data_base64", "$"},
		{"/v1/push", `{"to":{"users":["ann"]},"data":1,"text":""}`, 400, "invalid", "more than one payload", "$"},
		{"/v1/push", `{"to":{"usres":["ann"]},"data":1}`, 400, "invalid", "to.usres: unknown field (known: users, devices, tags, expr, all)", "$.to.usres"},
		{"/v1/push", `{"To":{"users":["ann"]},"data":1}`, 400, "invalid", "To: unknown field", "$.To"},
		{"/v1/push", `{"a 'b":1}`, 400, "invalid", "['a \\'b']: unknown field", `$['a \'b']`},
		{"/v1/push", `{"":1}`, 400, "invalid", "['']: unknown field", `$['']`},
		{"/v1/push", `{"data":1,"data":2}`, 400, "invalid", "data: the field is there twice", "$.data"},
		{"/v1/push", `{"d\u0061ta":1,"data":2}`, 400, "invalid", "data: the field is there twice", "$.data"},
		{"/v1/push", `{"to":{"users":"ann"},"data":1}`, 400, "invalid", "to.users: expected an array of strings, not a string", "$.to.users"},
		{"/v1/push", `{"to":{"users":["ann",7]},"data":1}`, 400, "invalid", "to.users[1]: expected a string, not a number", "$.to.users[1]"},
		{"/v1/push", `{"to":{"users":[null]},"data":1}`, 400, "invalid", "to.users[0]: expected a string, not null: leave the field out instead", "$.to.users[0]"},
		{"/v1/push", `{"to":{"users":null},"data":1}`, 400, "invalid", "to.users: expected an array of strings, not null", "$.to.users"},
		{"/v1/push", `{"to":{"all":1},"data":1}`, 400, "invalid", "to.all: expected true or false, not a number", "$.to.all"},
		{"/v1/push", `{"to":{"all":true},"droppable":"yes","data":1}`, 400, "invalid", "droppable: expected true or false, not a string", "$.droppable"},
		{"/v1/push", `{"to":{"devices":[{"user":"ann","device":1}]},"data":1}`, 400, "invalid", "to.devices[0].device: expected a string", "$.to.devices[0].device"},
		{"/v1/push", `{"to":{"all":true},"ttl":60,"data":1}`, 400, "invalid", "ttl: expected a string, not a number", "$.ttl"},
		{"/v1/push", `{"to":{"all":true},"ttl":"60","data":1}`, 400, "invalid", "ttl: not a duration above 0 and up to 24h", "$.ttl"},
		{"/v1/push", `{"to":{"all":true},"ttl":"-1s","data":1}`, 400, "invalid", "ttl: not a duration", "$.ttl"},
		{"/v1/push", `{"to":{"all":true},"ttl":"25h","data":1}`, 400, "invalid", "ttl: not a duration", "$.ttl"},
		{"/v1/push", `{"to":{"all":true},"data_base64":"AA"}`, 400, "invalid", "data_base64: not base64", "$.data_base64"},
		{"/v1/push/batch", `{}`, 400, "invalid", "the field items is missing", "$"},
		{"/v1/push/batch", `{"items":[{"to":{"all":true},"data":1},{"to":{"all":2},"data":1}]}`, 400, "invalid", "items[1].to.all: expected true or false", "$.items[1].to.all"},
		{"/v1/push/batch", `{"items":[{"to":{"all":true}}]}`, 400, "invalid", "items[0]: the payload is missing", "$.items[0]"},
		{"/v1/push/batch", `{"items":[1]}`, 400, "invalid", "items[0]: expected an object, not a number", "$.items[0]"},
		// Of the wrong content.
		{"/v1/push", `{"to":{},"data":1}`, 400, "invalid", "to: it names nobody", "$.to"},
		{"/v1/push", `{"to":{"users":["ann",""]},"data":1}`, 400, "invalid", "to.users[1]: user is empty", "$.to.users[1]"},
		{"/v1/push", `{"to":{"tags":["a\u0000"]},"data":1}`, 400, "invalid", "to.tags[0]: tag has a control character", "$.to.tags[0]"},
		{"/v1/push", `{"to":{"devices":[{"user":"ann"}]},"data":1}`, 400, "invalid", "to.devices[0]: device is empty", "$.to.devices[0]"},
		{"/v1/push", `{"to":{"users":["` + long + `"]},"data":1}`, 400, "invalid", "to.users[0]: user is 129 bytes long, limit 128", "$.to.users[0]"},
		{"/v1/push", `{"to":{"expr":"a && (b"},"data":1}`, 400, "invalid", "to.expr: ", "$.to.expr"},
		{"/v1/push", `{"to":{"expr":"!a"},"data":1}`, 400, "invalid", "to.expr: it fits sessions that carry none of its tags", "$.to.expr"},
		{"/v1/push", `{"to":{"all":true},"data":1,"collapse_key":"` + long + `"}`, 400, "invalid", "collapse_key: collapse key is 129 bytes long", "$.collapse_key"},
		{"/v1/push", `{"to":{"all":true},"text":"` + strings.Repeat("x", push.MaxPayload+1) + `"}`, 413, "too_large", "text: the payload is 63489 bytes long, limit 63488", "$.text"},
		{"/v1/push", `{"to":{"tags":["` + strings.Repeat(`x","`, push.MaxNames) + `x"]},"data":1}`, 422, "limit_exceeded", "to.tags: more than 1000 tags", "$.to.tags"},
		{"/v1/push", `{"to":{"devices":[` + strings.Repeat(`{},`, push.MaxNames) + `{}]},"data":1}`, 422, "limit_exceeded", "to.devices: more than 1000 devices", "$.to.devices"},
		{"/v1/push/batch", `{"items":[` + strings.Repeat(`{"to":{"all":true},"data":1},`, push.MaxBatch) + `{}]}`, 422, "limit_exceeded", "items: more than 1000 items", "$.items"},
		{"/v1/presence/query", `{}`, 400, "invalid", "the field users is missing", "$"},
		{"/v1/presence/query", `{"users":["ann",""]}`, 400, "invalid", "users[1]: user is empty", "$.users[1]"},
		{"/v1/presence/query", `{"users":["` + strings.Repeat(`x","`, 1000) + `x"]}`, 422, "limit_exceeded", "users: more than 1000 users", "$.users"},
		{"/v1/tags", `{"add":["a"]}`, 400, "invalid", "user: user is empty", "$.user"},
		{"/v1/tags", `{"user":"ann"}`, 400, "invalid", "add: nothing to do", "$.add"},
		{"/v1/tags", `{"user":"ann","remove":[""]}`, 400, "invalid", "remove[0]: tag is empty", "$.remove[0]"},
		{"/v1/disconnect", `{"device":"a1"}`, 400, "invalid", "user: user is empty", "$.user"},
		{"/v1/disconnect", `{"user":"ann","device":""}`, 400, "invalid", "device: an empty string: leave the field out to mean all", "$.device"},
		{"/v1/disconnect", `{"user":"ann","reason":"` + long + `"}`, 400, "invalid", "reason: reason is 129 bytes long, limit 120", "$.reason"},
		{"/v1/revoke", `{"user":"ann","device":""}`, 400, "invalid", "device: an empty string", "$.device"},
		{"/v1/revoke", `{"user":"ann","before":"yesterday"}`, 400, "invalid", "before: not a time of RFC 3339", "$.before"},
	}
	w := newWorld(t)
	w.login("ann", "a1", "a", "b")
	for i, tc := range tests {
		name := fmt.Sprintf("%d %s %s", i, tc.path, tc.body[:min(len(tc.body), 60)])
		a := w.do("POST", tc.path, tc.body, "Content-Type", "application/json")
		code, detail, path := a.problem(t)
		if a.status != tc.status || code != tc.code || !strings.Contains(detail, tc.detail) || path != tc.json {
			t.Errorf("%s: %v\nwant %d %s %q at %s", name, a, tc.status, tc.code, tc.detail, tc.json)
		}
		if a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %s", name, a.header.Get("Content-Type"))
		}
	}
	if got := w.fe.take(); len(got) != 0 {
		t.Errorf("a wrong request sent a push: %+v", got)
	}
	if len(w.fe.ended) != 0 {
		t.Errorf("a wrong request ended a session: %v", w.fe.ended)
	}
}

// TestUserTagLimit: the limit of tags on one user is 422.
func TestUserTagLimit(t *testing.T) {
	w := newWorld(t)
	tags := make([]string, crux.MaxUserTags+1)
	for i := range tags {
		tags[i] = fmt.Sprintf(`"t%d"`, i)
	}
	a := w.do("POST", "/v1/tags", `{"user":"ann","add":[`+strings.Join(tags, ",")+`]}`)
	if code, detail, _ := a.problem(t); a.status != 422 || code != "limit_exceeded" || !strings.Contains(detail, "limit 256") {
		t.Errorf("%v", a)
	}
}

// TestHeaders: what is wrong in headers, methods and paths.
func TestHeaders(t *testing.T) {
	w := newWorld(t)
	good := `{"to":{"all":true},"data":1}`
	tests := []struct {
		method, path, body string
		header             []string
		status             int
		code, detail       string
	}{
		{"POST", "/v1/push", good, []string{"Content-Type", "text/plain"}, 415, "unsupported_media_type", `"text/plain": send Content-Type: application/json`},
		{"POST", "/v1/push", good, []string{"Content-Type", "application/json; charset=latin1"}, 415, "unsupported_media_type", ""},
		{"POST", "/v1/push", good, []string{"Content-Type", ";"}, 415, "unsupported_media_type", ""},
		{"POST", "/v1/push", good, []string{"Content-Type", "application/json; charset=utf-8"}, 200, "", ""},
		{"POST", "/v1/push", good, []string{"Content-Type", "-"}, 200, "", ""},
		{"POST", "/v1/push", good, []string{"Authorization", "-"}, 401, "unauthorized", ""},
		{"POST", "/v1/push", good, []string{"Authorization", "Bearer none"}, 403, "forbidden", "the API key none lacks the scope push"},
		{"POST", "/v1/push", good, []string{"Idempotency-Key", strings.Repeat("x", 129)}, 400, "invalid", "Idempotency-Key: idempotency key is 129 bytes long, limit 128"},
		{"POST", "/v1/push", good, []string{"Idempotency-Key", ""}, 400, "invalid", "Idempotency-Key is empty"},
		{"POST", "/v1/push/batch", `{"items":[]}`, []string{"Idempotency-Key", strings.Repeat("x", 125)}, 400, "invalid", "1 to 124 bytes"},
		{"POST", "/v1/push", good, []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross_origin", ""},
		{"POST", "/v1/push", good, []string{"Origin", "https://evil.example"}, 403, "cross_origin", ""},
		{"POST", "/v1/push", good, []string{"Sec-Fetch-Site", "same-origin"}, 200, "", ""},
		{"GET", "/v1/push", "", nil, 405, "method_not_allowed", "OPTIONS, POST"},
		{"PUT", "/v1/tags/x", "", nil, 405, "method_not_allowed", "GET, HEAD, OPTIONS"},
		{"POST", "/livez", "{}", nil, 405, "method_not_allowed", "GET, HEAD, OPTIONS"},
		{"GET", "/v1/nope", "", nil, 404, "not_found", "no such route"},
		{"GET", "/v2/push", "", nil, 404, "not_found", "no such route"},
		{"DELETE", "/v1/users/" + strings.Repeat("x", 129), "", nil, 400, "invalid", "in the path: user is 129 bytes long"},
		{"DELETE", "/v1/users/a%00b", "", nil, 400, "invalid", "control character"},
		{"GET", "/v1/tags/%FF", "", nil, 400, "invalid", "not valid UTF-8"},
		{"GET", "/v1/tags/x?y=1", "", nil, 400, "invalid", `unknown or repeated query parameter "y"`},
		{"GET", "/v1/tags/x/members?limit=0", "", nil, 400, "invalid", "limit is not a number from 1 to 1000"},
		{"GET", "/v1/tags/x/members?limit=1001", "", nil, 400, "invalid", "from 1 to 1000"},
		{"GET", "/v1/tags/x/members?limit=1&limit=2", "", nil, 400, "invalid", "repeated"},
		{"GET", "/v1/tags/x/members?cursor=%21", "", nil, 400, "invalid", "the cursor is not one"},
		{"GET", "/v1/tags/x/members?cursor=AAAAAAAAAAAAZmU5", "", nil, 400, "invalid", "its front end is gone"},
		{"GET", "/v1/tags/x/members?%zz", "", nil, 400, "invalid", "the query of the URL is malformed"},
		{"GET", "/v1/trace?limit=x", "", nil, 400, "invalid", "limit is not a number"},
		{"GET", "/v1/trace/push/nix?user=x", "", nil, 404, "not_found", "does not know the push"},
	}
	for _, tc := range tests {
		a := w.do(tc.method, tc.path, tc.body, tc.header...)
		if a.status != tc.status {
			t.Errorf("%s %s %v: %v, want %d", tc.method, tc.path, tc.header, a, tc.status)
			continue
		}
		if tc.status == 200 {
			continue
		}
		if code, detail, _ := a.problem(t); code != tc.code || !strings.Contains(detail, tc.detail) {
			t.Errorf("%s %s %v: %v, want %s %q", tc.method, tc.path, tc.header, a, tc.code, tc.detail)
		}
		if allow := a.header.Get("Allow"); tc.status == 405 && allow != tc.detail {
			t.Errorf("Allow: %q", allow)
		}
	}
	a := w.do("OPTIONS", "/v1/push", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
	if a.status != 204 || a.header.Get("Allow") != "OPTIONS, POST" {
		t.Errorf("OPTIONS: %d %v", a.status, a.header)
	}
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("there is a CORS answer: %s", name)
		}
	}
	if a := w.do("HEAD", "/v1/tags/x", ""); a.status != 200 || len(a.body) != 0 {
		t.Errorf("HEAD: %v", a)
	}
}

// TestAwkwardNames: tags and users that need escapes in a path arrive as they are.
func TestAwkwardNames(t *testing.T) {
	w := newWorld(t)
	for name, path := range map[string]string{
		"a/b": "a%2Fb", "..": "%2E%2E", "a//b": "a%2F%2Fb", "a b+c": "a%20b+c", "100%": "100%25", "ü?#": "%C3%BC%3F%23", `"\`: "%22%5C",
	} {
		a := w.do("GET", "/v1/tags/"+path, "")
		if want := fmt.Sprintf(`{"tag":%q,`, name); a.status != 200 || !strings.HasPrefix(string(a.body), want) {
			t.Errorf("%s: %v, want %s", path, a, want)
		}
	}
}

// TestBodyWithoutLength: a chunked body is bounded, too.
func TestBodyWithoutLength(t *testing.T) {
	w := newWorld(t)
	send := func(body io.Reader) int {
		req, err := http.NewRequest("POST", w.url+"/v1/push", struct{ io.Reader }{body})
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer all")
		res, err := w.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		return res.StatusCode
	}
	good := `{"to":{"all":true},"data":1}`
	if got := send(strings.NewReader(good)); got != 200 {
		t.Errorf("small: %d", got)
	}
	if got := send(strings.NewReader(good + strings.Repeat(" ", api.MaxBody-len(good)))); got != 200 {
		t.Errorf("at the limit: %d", got)
	}
	if got := send(strings.NewReader(good + strings.Repeat(" ", api.MaxBody-len(good)+1))); got != 413 {
		t.Errorf("one byte more: %d", got)
	}
}

// TestRequestID: decent ids of clients are used, others replaced.
func TestRequestID(t *testing.T) {
	w := newWorld(t)
	seen := make(map[string]bool)
	for _, id := range []string{"a.b-c_9", strings.Repeat("x", 64)} {
		if got := w.do("GET", "/livez", "", "X-Request-Id", id).header.Get("X-Request-Id"); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
	for _, id := range []string{"", "a b", `"`, strings.Repeat("x", 65)} {
		got := w.do("GET", "/livez", "", "X-Request-Id", id).header.Get("X-Request-Id")
		if got == id || got == "" || seen[got] {
			t.Errorf("%q became %q", id, got)
		}
		seen[got] = true
	}
}

// TestHosts: with a list of hosts others are refused, so that a page can't rebind its name to us.
func TestHosts(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.Hosts = []string{"127.0.0.1", "::1", "localhost"} })
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "LocalHost:7080": 200, "[::1]:80": 200, "[::1]": 200, "evil.example": 421, "evil.example:7080": 421, "127.0.0.1.evil.example": 421,
	} {
		req, err := http.NewRequest("GET", w.url+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := w.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%q: %d, want %d", host, res.StatusCode, want)
		}
	}
}

func TestPage(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]string{"/": "<!doctype html>page", "/demo.js": "let a", "/demo/config.json": `{"token":"t"}`} {
		a := w.do("GET", path, "", "Authorization", "-")
		if a.status != 200 || string(a.body) != want {
			t.Errorf("%s: %v", path, a)
		}
	}
	if a := w.do("GET", "/", ""); !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Errorf("%v", a.header)
	}
	if a := w.do("POST", "/demo.js", "{}"); a.status != 405 {
		t.Errorf("POST: %v", a)
	}
	bare := newWorld(t, func(c *api.Config) { c.Page, c.PageJSON, c.Registry = nil, nil, nil })
	for _, path := range []string{"/", "/demo/config.json", "/metrics"} {
		if a := bare.do("GET", path, ""); a.status != 404 {
			t.Errorf("%s: %v", path, a)
		}
	}
}

// TestForbiddenIsAudited: refused administrative calls are in the audit log, others are not.
func TestForbiddenIsAudited(t *testing.T) {
	w := newWorld(t)
	w.do("POST", "/v1/disconnect", `{"user":"ann"}`, "Authorization", "Bearer none")
	if log := w.log.take(); !strings.Contains(log, `"action":"POST /v1/disconnect","result":"forbidden"`) || !strings.Contains(log, `"key":"none"`) {
		t.Errorf("audit: %s", log)
	}
	w.do("POST", "/v1/disconnect", `{"user":"`+strings.Repeat("x", 100_000)+`"}`)
	if log := w.log.take(); !strings.Contains(log, `"result":"invalid"`) || len(log) > 1000 {
		t.Errorf("audit of a long name: %d bytes, %.300s", len(log), log)
	}
	w.do("POST", "/v1/push", `{"to":{"users":["ann"]},"text":"secret"}`)
	w.do("POST", "/v1/push", `{"to":{"users":[""]},"text":"secret"}`)
	if log := w.log.take(); log != "" {
		t.Errorf("a push was logged: %s", log)
	}
}

// TestAppsAreApart: a key sees and reaches only its own app.
func TestAppsAreApart(t *testing.T) {
	w := newWorld(t)
	w.login("ann", "a1", "red")
	other := []string{"Authorization", "Bearer else"}
	a := w.do("POST", "/v1/push", `{"to":{"users":["ann"]},"data":1}`, other...)
	if !strings.Contains(string(a.body), `"matched":0`) || !strings.Contains(string(a.body), `"offline":1`) {
		t.Errorf("push: %v", a)
	}
	if a := w.do("POST", "/v1/presence/query", `{"users":["ann"]}`, other...); !strings.Contains(string(a.body), `"online":false`) {
		t.Errorf("presence: %v", a)
	}
	if a := w.do("POST", "/v1/disconnect", `{"user":"ann"}`, other...); string(a.body) != `{"disconnected":0}` {
		t.Errorf("kick: %v", a)
	}
	w.do("POST", "/v1/push", `{"to":{"tags":["red"]},"data":1}`, other...)
	for _, d := range w.fe.take() {
		if d.Push.App != "other" {
			t.Errorf("a push of %s", d.Push.App)
		}
	}
}

// TestPayloads: what arrives at the front end is what was sent.
func TestPayloads(t *testing.T) {
	w := newWorld(t)
	tests := []struct{ body, want string }{
		{`"data": {"a" : [1, "\u00fc"]} `, `2 {"a" : [1, "\u00fc"]}`},
		{`"data":null`, `2 null`},
		{`"text":"a\u00fc\ud83d\ude00\n"`, "1 aü😀\n"},
		{`"text":""`, "1 "},
		{`"data_base64":"AAH/"`, "0 \x00\x01\xff"},
		{`"data_base64":""`, "0 "},
	}
	for _, tc := range tests {
		if a := w.do("POST", "/v1/push", `{"to":{"all":true},`+tc.body+`}`); a.status != 200 {
			t.Errorf("%s: %v", tc.body, a)
			continue
		}
		p := w.fe.take()[0].Push
		if got := fmt.Sprintf("%d %s", p.Payload.Kind, p.Payload.Data); got != tc.want || p.Payload.Data == nil {
			t.Errorf("%s: %q, want %q", tc.body, got, tc.want)
		}
	}
	w.do("POST", "/v1/push", `{"droppable":true,"collapse_key":"k","ttl":"90s","data":1,"to":{"users":[],"devices":[],"tags":["a","b"],"expr":"a||b","all":true}}`)
	p := w.fe.take()[0].Push
	if !p.Droppable || p.CollapseKey != "k" || p.Expires.Sub(p.Accepted).Seconds() != 90 || p.To.Expr != "a||b" || len(p.To.Tags) != 2 || !p.To.All || p.App != app {
		t.Errorf("%+v", p)
	}
}
