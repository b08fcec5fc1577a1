package api_test

import (
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/klinkio/klink/svc/api"
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
