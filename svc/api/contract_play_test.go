package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/svc/api"
	"github.com/klinkio/klink/svc/presence"
	"github.com/klinkio/klink/svc/push"
)

// exchange does a request and checks it; want is the status.
func (w *world) exchange(t *testing.T, c *contract, want int, method, path, body string, header ...string) answer {
	t.Helper()
	w.t = t
	a := w.do(method, path, body, header...)
	if a.status != want {
		t.Errorf("%s %s %s: %v, want %d", method, path, body, a, want)
	}
	h := http.Header{}
	if body != "" {
		h.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	c.check(t, method, path, body, h, a)
	return a
}

func playPushes(t *testing.T, c *contract) {
	w := newWorld(t)
	w.login("ann", "a1", "red")
	w.fe.answers(w.login("bob", "b1", "red"), klink.OutcomeQueued)
	w.fe.answers(w.login("cid", "c1", "red"), klink.DropSlow.String())
	bodies := []string{
		`{"to":{"users":["ann"]},"data":{"a":[1,null]}}`,
		`{"to":{"devices":[{"user":"bob","device":"b1"}]},"text":"hé","ttl":"1m30s"}`,
		`{"to":{"tags":["red"]},"data_base64":"AAH/","collapse_key":"k","droppable":true}`,
		`{"to":{"expr":"red && !blue"},"data":null}`,
		`{"to":{"all":true},"data":false}`,
	}
	for _, b := range bodies {
		w.exchange(t, c, 200, "POST", "/v1/push", b)
	}
	once := []string{"Idempotency-Key", "k1"}
	w.exchange(t, c, 200, "POST", "/v1/push", bodies[0], once...)
	if a := w.exchange(t, c, 200, "POST", "/v1/push", bodies[0], once...); a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replay: %v", a.header)
	}
	w.exchange(t, c, 422, "POST", "/v1/push", bodies[1], once...)
	w.fe.mu.Lock()
	w.fe.hold = true
	w.fe.mu.Unlock()
	first := make(chan answer)
	go func() { first <- w.do("POST", "/v1/push", bodies[0], "Idempotency-Key", "k2") }()
	for {
		w.fe.mu.Lock()
		under := len(w.fe.held) > 0
		w.fe.mu.Unlock()
		if under {
			break
		}
		runtime.Gosched()
	}
	w.exchange(t, c, 409, "POST", "/v1/push", bodies[0], "Idempotency-Key", "k2")
	w.fe.release()
	if a := <-first; a.status != 200 {
		t.Errorf("first: %v", a)
	}
	w.exchange(t, c, 413, "POST", "/v1/push", `{"to":{"users":["ann"]},"text":"`+strings.Repeat("x", push.MaxPayload+1)+`"}`)

	two := newWorld(t)
	two.serve([]push.FrontEnd{two.fe, deadFront{two.fe}}, []presence.FrontEnd{two.fe, deadFront{two.fe}})
	if a := two.exchange(t, c, 200, "POST", "/v1/push", bodies[2]); !strings.Contains(string(a.body), `"unreached":[{"front_end":"fe2","code":"overloaded"`) {
		t.Errorf("partly unreached: %v", a)
	}
	if a := two.exchange(t, c, 200, "GET", "/v1/tags/red", ""); !strings.Contains(string(a.body), `"unreached":["fe2"]`) {
		t.Errorf("partly counted: %v", a)
	}
}

func playBatches(t *testing.T, c *contract) {
	w := newWorld(t)
	w.fe.answers(w.login("ann", "a1", "red"), klink.DropExpired.String())
	good, bad := `{"to":{"users":["ann"]},"data":1}`, `{"to":{"users":[""]},"data":1}`
	a := w.exchange(t, c, 200, "POST", "/v1/push/batch", `{"items":[`+good+`]}`)
	w.exchange(t, c, 200, "POST", "/v1/push/batch", `{"items":[]}`)
	w.exchange(t, c, 200, "POST", "/v1/push/batch", `{"items":[`+good+`]}`, "Idempotency-Key", "b")
	again := w.exchange(t, c, 200, "POST", "/v1/push/batch", `{"items":[`+good+`]}`, "Idempotency-Key", "b")
	if strings.Contains(string(a.body), "replayed") || !strings.Contains(string(again.body), `"replayed":true`) {
		t.Errorf("first %v, again %v", a, again)
	}
	w.fe.take()
	w.exchange(t, c, 200, "POST", "/v1/push/batch", `{"items":[`+good+`,`+good+`]}`, "Idempotency-Key", "two")
	if n := len(w.fe.take()); n != 2 {
		t.Errorf("two items with one key became %d pushes", n)
	}
	// The contract refuses an item with an empty user, the server answers for it: checked without the request.
	mixed := w.do("POST", "/v1/push/batch", `{"items":[`+good+`,`+bad+`]}`)
	var res struct {
		Results []struct {
			Status  int
			Result  *struct{ Push string }
			Problem *struct{ Code string }
		}
	}
	if err := json.Unmarshal(mixed.body, &res); err != nil || len(res.Results) != 2 || res.Results[0].Status != 200 || res.Results[0].Result == nil ||
		res.Results[1].Status != 400 || res.Results[1].Problem == nil || res.Results[1].Problem.Code != "invalid" {
		t.Errorf("mixed: %v, %v", mixed, err)
	}
	mixedSchema := c.doc.Components.Schemas["BatchResult"].Value
	var raw struct{ Results []any }
	if err := json.Unmarshal(mixed.body, &raw); err != nil {
		t.Fatal(err)
	}
	for _, r := range raw.Results {
		if err := mixedSchema.VisitJSON(r, openapi3.EnableJSONSchema2020()); err != nil {
			t.Errorf("result %v: %v", r, err)
		}
		c.see("POST /v1/push/batch.results[]", mixedSchema, r)
	}
}

func playPresence(t *testing.T, c *contract) {
	w := newWorld(t)
	w.login("ann", "a1")
	w.logout(w.login("bob", "b1"))
	w.exchange(t, c, 200, "POST", "/v1/tags", `{"user":"ann","add":["vip","x"],"remove":["y"]}`)
	a := w.exchange(t, c, 200, "POST", "/v1/presence/query", `{"users":["ann","bob","nobody"]}`)
	var got struct {
		Users []struct {
			User     string
			Online   bool
			Version  string
			LastSeen string `json:"last_seen"`
			Tags     []string
			Devices  []struct{ Device, Transport, Session string }
		}
	}
	if err := json.Unmarshal(a.body, &got); err != nil {
		t.Fatal(err)
	}
	if u := got.Users; len(u) != 3 || !u[0].Online || u[0].Version == "0" || !slices.Equal(u[0].Tags, []string{"vip", "x"}) || u[0].Devices[0].Transport != "wss" ||
		u[0].Devices[0].Session != klink.SessionID(w.fe.inc, w.fe.sessions[0].Handle) ||
		u[1].Online || u[1].LastSeen == "" || u[2].Online || u[2].Version != "0" || u[2].LastSeen != "" {
		t.Errorf("%s", a.body)
	}
	w.store.stale = true
	if a := w.exchange(t, c, 200, "POST", "/v1/presence/query", `{"users":["ann"]}`); !strings.Contains(string(a.body), `"stale":true`) {
		t.Errorf("%v", a)
	}
}

func playTags(t *testing.T, c *contract) {
	w := newWorld(t)
	for i := range 5 {
		w.login(fmt.Sprint("u", i), "d", "room/1 ü", "all")
	}
	w.exchange(t, c, 200, "POST", "/v1/push", `{"to":{"tags":["room/1 ü"]},"data":1}`)
	a := w.exchange(t, c, 200, "GET", "/v1/tags/room%2F1%20%C3%BC", "")
	if !strings.Contains(string(a.body), `"members":5,"front_ends":1,"unreached":[],"recent":{"pushes":1,"matched":5,"enqueued":5,"dropped":{}}`) {
		t.Errorf("%v", a)
	}
	var users []string
	cursor, pages := "", 0
	for {
		pages++
		a := w.exchange(t, c, 200, "GET", "/v1/tags/all/members?limit=2&cursor="+cursor, "")
		var page struct {
			Members []struct{ User string }
			Next    string
		}
		if err := json.Unmarshal(a.body, &page); err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Members {
			users = append(users, m.User)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if !slices.Equal(users, []string{"u0", "u1", "u2", "u3", "u4"}) || pages != 3 {
		t.Errorf("members %v in %d pages", users, pages)
	}
	w.exchange(t, c, 200, "POST", "/v1/tags", `{"user":"u0","add":["vip"]}`)
	w.exchange(t, c, 200, "POST", "/v1/tags", `{"user":"u0","remove":["vip"]}`)
}

func playAdministration(t *testing.T, c *contract) {
	w := newWorld(t)
	s := w.login("ann", "a1")
	tests := []struct{ method, path, body, want, audit string }{
		{"POST", "/v1/disconnect", `{"user":"ann","device":"a1","session":"` + klink.SessionID(s.Incarnation, s.Handle) + `","reason":"why"}`, `{"disconnected":1}`, "disconnect"},
		{"POST", "/v1/disconnect", `{"user":"nobody"}`, `{"disconnected":0}`, "disconnect"},
		{"POST", "/v1/revoke", `{"user":"ann","device":"a1","before":"2001-01-01T00:00:00Z"}`, `{"before":"2001-01-01T00:00:00.000Z","disconnected":0}`, "revoke"},
		{"POST", "/v1/revoke", `{"user":"ann"}`, `"disconnected":1}`, "revoke"},
		{"DELETE", "/v1/users/ann", "", `{"user":"ann","existed":true,`, "delete_user"},
		{"DELETE", "/v1/users/ann", "", `{"user":"ann","existed":false,`, "delete_user"},
		{"POST", "/v1/tags", `{"user":"ann","add":["vip"]}`, `"tags":["vip"],"added":["vip"],"removed":[]`, "change_tags"},
	}
	for _, tc := range tests {
		w.log.take()
		a := w.exchange(t, c, 200, tc.method, tc.path, tc.body, "X-Request-Id", "req-1")
		if !strings.Contains(string(a.body), tc.want) {
			t.Errorf("%s %s: %v, want %s", tc.path, tc.body, a, tc.want)
		}
		log := w.log.take()
		for _, want := range []string{`"msg":"audit"`, `"action":"` + tc.audit + `"`, `"key":"all"`, `"app":"shop"`, `"request_id":"req-1"`, `"result":"ok"`} {
			if !strings.Contains(log, want) {
				t.Errorf("%s: the audit lacks %s: %s", tc.path, want, log)
			}
		}
		if a.header.Get("X-Request-Id") != "req-1" {
			t.Errorf("request id %q", a.header.Get("X-Request-Id"))
		}
	}
}

func playTraces(t *testing.T, c *contract) {
	w := newWorld(t)
	w.fe.answers(w.login("ann", "a1", "red"), klink.OutcomeQueued)
	a := w.exchange(t, c, 200, "POST", "/v1/push", `{"to":{"users":["ann"],"devices":[{"user":"bob","device":"b"}],"tags":["red"],"expr":"a||b","all":true},"data":1,"collapse_key":"k","ttl":"1h"}`)
	var pushed struct{ Push string }
	if err := json.Unmarshal(a.body, &pushed); err != nil {
		t.Fatal(err)
	}
	path := "/v1/trace/push/" + pushed.Push
	w.exchange(t, c, 200, "GET", path, "")
	if a := w.exchange(t, c, 200, "GET", path+"?user=ann", ""); !strings.Contains(string(a.body), `"verdict":"queued"`) {
		t.Errorf("%v", a)
	}
	w.fe.late = []klink.Outcome{w.fe.outcome(w.fe.sessions[0], klink.DropCollapsed.String())}
	if a := w.exchange(t, c, 200, "GET", path+"?user=ann", ""); !strings.Contains(string(a.body), `"verdict":"dropped"`) || !strings.Contains(string(a.body), `"late":true`) {
		t.Errorf("%v", a)
	}
	if a := w.exchange(t, c, 200, "GET", "/v1/trace?limit=5", ""); !strings.Contains(string(a.body), pushed.Push) {
		t.Errorf("%v", a)
	}
	w.fe.set(nil, errors.New("link down"))
	w.exchange(t, c, 500, "POST", "/v1/push", `{"to":{"tags":["red"]},"data":1}`)
	if a := w.exchange(t, c, 200, "GET", "/v1/trace?limit=1", ""); !strings.Contains(string(a.body), `"error":"link down"`) {
		t.Errorf("%v", a)
	}
	w.exchange(t, c, 404, "GET", "/v1/trace/push/nix", "")
	w.exchange(t, c, 404, "GET", path, "", "Authorization", "Bearer else")

	got := make(chan struct{})
	w.fe.set(nil, nil)
	w.svc.Publish(&klink.Push{ID: "published", App: app, From: "ann", To: klink.Target{Tags: []string{"red"}}}, func(klink.Report, error) { close(got) })
	<-got
	w.exchange(t, c, 200, "GET", "/v1/trace/push/published", "")
	errs := w.newFailing()
	w.fe.set(nil, errs)
	w.svc.Publish(&klink.Push{ID: "refused", App: app, To: klink.Target{Tags: []string{"red"}}}, func(klink.Report, error) {})
	w.exchange(t, c, 200, "GET", "/v1/trace/push/refused", "")
}

func (w *world) newFailing() error { return klink.Errorf(klink.CodeOverloaded, "full") }

func playOperation(t *testing.T, c *contract) {
	w := newWorld(t)
	none := []string{"Authorization", "-"}
	w.exchange(t, c, 200, "GET", "/livez", "", none...)
	w.exchange(t, c, 200, "GET", "/readyz", "", none...)
	if a := w.exchange(t, c, 200, "GET", "/readyz?verbose", "", none...); !strings.Contains(string(a.body), `{"name":"fe","ok":true}`) {
		t.Errorf("%v", a)
	}
	w.exchange(t, c, 400, "GET", "/readyz?what", "", none...)
	w.ready = errors.New("no lease")
	if a := w.exchange(t, c, 503, "GET", "/readyz", "", none...); string(a.body) != `{"status":"unready","checks":[{"name":"fe","ok":false,"detail":"no lease"}]}` {
		t.Errorf("%v", a)
	}
	w.ready = nil
	w.server.Drain()
	if a := w.exchange(t, c, 503, "GET", "/readyz", "", none...); !strings.Contains(string(a.body), "draining") {
		t.Errorf("%v", a)
	}
	w.exchange(t, c, 200, "POST", "/v1/push", `{"to":{"all":true},"data":1}`)
	w.exchange(t, c, 200, "GET", "/v1/endpoints", "", "Authorization", "Bearer none")
	w.exchange(t, c, 400, "GET", "/v1/endpoints?x=1", "")
	for _, p := range api.Problems() {
		a := w.exchange(t, c, 200, "GET", "/v1/problems/"+p.Code, "", none...)
		if !strings.Contains(string(a.body), p.Title) {
			t.Errorf("%v", a)
		}
	}
	w.exchange(t, c, 404, "GET", "/v1/problems/nix", "", none...)
	if a := w.exchange(t, c, 200, "GET", "/v1/openapi.yaml", "", none...); !bytes.Equal(a.body, api.Contract()) {
		t.Error("another contract is served")
	}
	a := w.exchange(t, c, 200, "GET", "/metrics", "", none...)
	for _, want := range []string{`klink_api_requests_total{route="POST /v1/push"} 1`, `klink_api_problems_total{code="invalid",route="GET /v1/endpoints"} 1`, "klink_api_request_seconds_bucket"} {
		if !strings.Contains(string(a.body), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	codes := c.doc.Components.Schemas["Code"].Value.Enum
	if len(codes) != len(api.Problems()) {
		t.Errorf("%d codes are documented, there are %d", len(codes), len(api.Problems()))
	}
	for i, p := range api.Problems() {
		if i < len(codes) && codes[i] != p.Code {
			t.Errorf("code %d is %v, want %s", i, codes[i], p.Code)
		}
	}
}

// call is one good request for each operation with a key.
var calls = []struct{ method, path, body string }{
	{"POST", "/v1/push", `{"to":{"users":["ann"]},"data":1}`},
	{"POST", "/v1/push/batch", `{"items":[{"to":{"users":["ann"]},"data":1}]}`},
	{"POST", "/v1/presence/query", `{"users":["ann"]}`},
	{"POST", "/v1/tags", `{"user":"ann","add":["vip"]}`},
	{"GET", "/v1/tags/red", ""},
	{"GET", "/v1/tags/red/members", ""},
	{"POST", "/v1/disconnect", `{"user":"ann"}`},
	{"POST", "/v1/revoke", `{"user":"ann"}`},
	{"DELETE", "/v1/users/ann", ""},
	{"GET", "/v1/trace", ""},
	{"GET", "/v1/trace/push/ID", ""},
	{"GET", "/v1/endpoints", ""},
}

// playFailures plays what can go wrong with every operation.
func playFailures(t *testing.T, c *contract) {
	w := newWorld(t)
	w.login("ann", "a1", "red")
	a := w.exchange(t, c, 200, "POST", "/v1/push", `{"to":{"users":["ann"]},"data":1}`)
	var pushed struct{ Push string }
	if err := json.Unmarshal(a.body, &pushed); err != nil {
		t.Fatal(err)
	}
	for _, tc := range calls {
		path := strings.Replace(tc.path, "ID", pushed.Push, 1)
		w.exchange(t, c, 401, tc.method, path, tc.body, "Authorization", "-")
		if a := w.exchange(t, c, 401, tc.method, path, tc.body, "Authorization", "Bearer what"); a.header.Get("WWW-Authenticate") != `Bearer realm="klink"` {
			t.Errorf("%v", a.header)
		}
		if tc.path != "/v1/endpoints" {
			w.exchange(t, c, 403, tc.method, path, tc.body, "Authorization", "Bearer none")
		}
		if a := w.exchange(t, c, 429, tc.method, path, tc.body, "Authorization", "Bearer slow"); a.header.Get("Retry-After") != "2" {
			t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
		}
		if tc.body != "" {
			w.exchange(t, c, 400, tc.method, path, `{`)
			w.exchange(t, c, 400, tc.method, path, tc.body+`x`)
			w.exchange(t, c, 413, tc.method, path, `"`+strings.Repeat("x", api.MaxBody)+`"`)
			w.exchange(t, c, 415, tc.method, path, tc.body, "Content-Type", "text/plain")
		} else if tc.path != "/v1/endpoints" {
			w.exchange(t, c, 400, tc.method, path+"?what=1", "")
		}
	}
	many := `["` + strings.Repeat(`x","`, 1000) + `x"]`
	w.exchange(t, c, 422, "POST", "/v1/push", `{"to":{"users":`+many+`},"data":1}`)
	w.exchange(t, c, 422, "POST", "/v1/push/batch", `{"items":[`+strings.Repeat(calls[0].body+",", 6)+calls[0].body+`]}`, "Authorization", "Bearer five")
	w.exchange(t, c, 200, "POST", "/v1/push/batch", `{"items":[`+strings.Repeat(calls[0].body+",", 3)+calls[0].body+`]}`, "Authorization", "Bearer five")
	w.exchange(t, c, 429, "POST", "/v1/push", calls[0].body, "Authorization", "Bearer five")
	w.exchange(t, c, 422, "POST", "/v1/presence/query", `{"users":`+many+`}`)
	w.exchange(t, c, 422, "POST", "/v1/tags", `{"user":"ann","add":`+many+`}`)
	for _, fail := range []struct {
		err    error
		status int
	}{{errors.New("defect"), 500}, {crux.ErrUnavailable, 503}, {context.DeadlineExceeded, 504}} {
		w.store.fail(fail.err)
		w.fe.set(klink.Errorf(map[int]klink.Code{500: klink.CodeInternal, 503: klink.CodeUnavailable, 504: klink.CodeTimeout}[fail.status], "front end: %w", fail.err), nil)
		for _, tc := range calls {
			path := strings.Replace(tc.path, "ID", pushed.Push+"?user=ann", 1)
			want := fail.status
			switch tc.path {
			case "/v1/push/batch", "/v1/trace", "/v1/endpoints":
				want = 200
			}
			w.log.take()
			w.exchange(t, c, want, tc.method, path, tc.body, "X-Request-Id", "failing")
			if log := w.log.take(); fail.status == 500 && want == 500 && (!strings.Contains(log, `"request_id":"failing"`) || !strings.Contains(log, "defect")) {
				t.Errorf("%s: the log does not name the cause: %s", tc.path, log)
			}
		}
		w.store.fail(nil)
		w.fe.set(nil, nil)
	}
}
