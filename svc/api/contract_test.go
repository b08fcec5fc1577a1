package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/svc/api"
	"github.com/klinkio/klink/svc/presence"
	"github.com/klinkio/klink/svc/push"
)

// contract is the OpenAPI document and what of it was seen in answers.
type contract struct {
	doc      *openapi3.T
	router   routers.Router
	statuses map[string]bool // "POST /v1/push 200"
	fields   map[string]bool // path of a property in the answers of a status
}

func loadContract(t *testing.T) *contract {
	t.Helper()
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(api.Contract())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background(), openapi3.IsOpenAPI31OrLater()); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &contract{doc: doc, router: router, statuses: make(map[string]bool), fields: make(map[string]bool)}
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

func (a answer) problem(t *testing.T) (code, detail, path string) {
	t.Helper()
	var p struct {
		Code, Detail string
		Errors       []struct{ Path string }
	}
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	if len(p.Errors) > 0 {
		path = p.Errors[0].Path
	}
	return p.Code, p.Detail, path
}

// do sends a request with the key "all" unless the header says otherwise ("-": none).
func (w *world) do(method, path, body string, header ...string) answer {
	w.t.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer all")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "-" {
			req.Header.Del(header[i])
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, b}
}

// check validates an answer, and the request where it was accepted, against the contract.
func (c *contract) check(t *testing.T, method, path, body string, header http.Header, a answer) {
	t.Helper()
	req, err := http.NewRequest(method, "http://host"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	route, params, err := c.router.FindRoute(req)
	if err != nil {
		t.Fatalf("%s %s is not in the contract: %v", method, path, err)
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true},
	}
	if a.status < 300 {
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			t.Errorf("%s %s: the accepted request is not as in the contract: %v", method, path, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.status, Header: a.header, Options: in.Options,
		Body: io.NopCloser(bytes.NewReader(a.body)),
	}
	if err := openapi3filter.ValidateResponse(context.Background(), out); err != nil {
		t.Errorf("%s %s: %v\n%s", method, path, err, a.body)
	}
	name := method + " " + route.Path
	c.statuses[fmt.Sprintf("%s %d", name, a.status)] = true
	res := route.Operation.Responses.Status(a.status)
	if res == nil {
		t.Fatalf("%s: the contract has no status %d: %s", name, a.status, a.body)
	}
	media := strings.Split(a.header.Get("Content-Type"), ";")[0]
	content := res.Value.Content[media]
	if content == nil {
		t.Errorf("%s %d: the contract has no %q", name, a.status, media)
		return
	}
	if strings.HasSuffix(media, "json") {
		var v any
		if err := json.Unmarshal(a.body, &v); err != nil {
			t.Fatalf("%s: %v: %s", name, err, a.body)
		}
		c.see(fieldRoot(name, a.status), content.Schema.Value, v)
	}
}

// fieldRoot begins the path of fields: problems are the same everywhere.
func fieldRoot(name string, status int) string {
	if status >= 400 && name+fmt.Sprint(status) != "GET /readyz503" {
		return "problem"
	}
	return name
}

// see notes which properties of the schema are in the value.
func (c *contract) see(at string, s *openapi3.Schema, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, prop := range s.Properties {
			if sub, ok := v[name]; ok {
				c.fields[at+"."+name] = true
				c.see(at+"."+name, prop.Value, sub)
			}
		}
	case []any:
		for _, sub := range v {
			c.see(at+"[]", s.Items.Value, sub)
		}
	}
}

// documented lists the properties of a schema as see names them.
func documented(at string, s *openapi3.Schema, to map[string]bool) {
	for name, prop := range s.Properties {
		to[at+"."+name] = true
		documented(at+"."+name, prop.Value, to)
	}
	if s.Items != nil {
		documented(at+"[]", s.Items.Value, to)
	}
}

// TestContract plays every documented answer of every route and checks each against openapi.yaml. Nothing may be sent that is not
// documented, and nothing be documented that is never sent.
func TestContract(t *testing.T) {
	c := loadContract(t)
	for _, part := range []func(*testing.T, *contract){
		playPushes, playBatches, playPresence, playTags, playAdministration, playTraces, playOperation, playFailures,
	} {
		part(t, c)
	}
	routes := make(map[string]bool)
	for _, r := range api.Routes() {
		routes[r] = true
	}
	want := make(map[string]bool)
	for path, item := range c.doc.Paths.Map() {
		for method, op := range item.Operations() {
			name := method + " " + path
			if !routes[name] {
				t.Errorf("%s is in the contract but is no route", name)
			}
			delete(routes, name)
			for status, res := range op.Responses.Map() {
				if !c.statuses[name+" "+status] {
					t.Errorf("%s is documented with %s, which was never answered", name, status)
				}
				for media, content := range res.Value.Content {
					code := 0
					_, _ = fmt.Sscan(status, &code)
					if strings.HasSuffix(media, "json") {
						documented(fieldRoot(name, code), content.Schema.Value, want)
					}
				}
			}
		}
	}
	for r := range routes {
		t.Errorf("route %s is not in the contract", r)
	}
	for _, f := range slices.Sorted(maps.Keys(want)) {
		if !c.fields[f] && !unplayed(f) {
			t.Errorf("%s is documented but was never sent", f)
		}
	}
}

// unplayed are fields that this test does not play: single drop reasons beyond one are the same code, and the problem of a batch item
// and the parts of a trace in a list are schemas that are played elsewhere.
func unplayed(field string) bool {
	return strings.Contains(field, ".dropped.") || strings.HasPrefix(field, "GET /v1/trace.pushes[].") ||
		strings.Contains(field, "results[].problem.") || strings.Contains(field, "results[].result.unreached") ||
		strings.Contains(field, ".unreached[].")
}

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
	w.login("bob", "b1", "red").result = klink.OutcomeQueued
	w.login("cid", "c1", "red").result = klink.DropSlow.String()
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
	w.login("ann", "a1", "red").result = klink.DropExpired.String()
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
	w.login("ann", "a1", "red").result = klink.OutcomeQueued
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
	w.exchange(t, c, 422, "POST", "/v1/push/batch", `{"items":[`+strings.Repeat(calls[0].body+",", 6)+calls[0].body+`]}`, "Authorization", "Bearer slow")
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

// TestRequestFields compares the fields that the handlers know, which they say when they meet another one, with the contract.
func TestRequestFields(t *testing.T) {
	c := loadContract(t)
	w := newWorld(t)
	tests := []struct {
		path, body string
		schema     func(body *openapi3.Schema) *openapi3.Schema
	}{
		{"/v1/push", `{"nope":1}`, nil},
		{"/v1/push", `{"to":{"nope":1}}`, func(s *openapi3.Schema) *openapi3.Schema { return s.Properties["to"].Value }},
		{"/v1/push", `{"to":{"devices":[{"nope":1}]}}`, func(s *openapi3.Schema) *openapi3.Schema {
			return s.Properties["to"].Value.Properties["devices"].Value.Items.Value
		}},
		{"/v1/push/batch", `{"nope":1}`, nil},
		{"/v1/push/batch", `{"items":[{"nope":1}]}`, func(s *openapi3.Schema) *openapi3.Schema { return s.Properties["items"].Value.Items.Value }},
		{"/v1/presence/query", `{"nope":1}`, nil},
		{"/v1/tags", `{"nope":1}`, nil},
		{"/v1/disconnect", `{"nope":1}`, nil},
		{"/v1/revoke", `{"nope":1}`, nil},
	}
	for _, tc := range tests {
		schema := c.doc.Paths.Find(tc.path).Post.RequestBody.Value.Content["application/json"].Schema.Value
		if tc.schema != nil {
			schema = tc.schema(schema)
		}
		_, detail, _ := w.do("POST", tc.path, tc.body).problem(t)
		_, known, ok := strings.Cut(strings.TrimSuffix(detail, ")"), "(known: ")
		got := strings.Split(known, ", ")
		slices.Sort(got)
		if want := slices.Sorted(maps.Keys(schema.Properties)); !ok || !slices.Equal(got, want) {
			t.Errorf("%s %s: the handler knows %v, the contract %v", tc.path, tc.body, got, want)
		}
	}
}
