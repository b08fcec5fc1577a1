package api

import (
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// route is one operation of the API.
type route struct {
	method string
	path   string // pattern of net/http
	scope  string // that the key needs
	open   bool   // no key is needed
	body   bool   // it reads a body
	serve  func(c *call) error
}

// table is all operations that answer with JSON.
func table() []route {
	return []route{
		{method: "POST", path: "/v1/push", scope: ScopePush, body: true, serve: (*call).push},
		{method: "POST", path: "/v1/push/batch", scope: ScopePush, body: true, serve: (*call).pushBatch},
		{method: "POST", path: "/v1/presence/query", scope: ScopePresence, body: true, serve: (*call).presenceQuery},
		{method: "GET", path: "/v1/tags/{tag}", scope: ScopePresence, serve: (*call).tagInfo},
		{method: "GET", path: "/v1/tags/{tag}/members", scope: ScopePresence, serve: (*call).tagMembers},
		{method: "POST", path: "/v1/tags", scope: ScopeTags, body: true, serve: (*call).changeTags},
		{method: "POST", path: "/v1/disconnect", scope: ScopeAdmin, body: true, serve: (*call).disconnect},
		{method: "POST", path: "/v1/revoke", scope: ScopeAdmin, body: true, serve: (*call).revoke},
		{method: "DELETE", path: "/v1/users/{user}", scope: ScopeAdmin, serve: (*call).deleteUser},
		{method: "GET", path: "/v1/trace", scope: ScopePush, serve: (*call).traceList},
		{method: "GET", path: "/v1/trace/push/{id}", scope: ScopePush, serve: (*call).tracePush},
		{method: "GET", path: "/v1/endpoints", serve: (*call).endpointList},
		{method: "GET", path: "/v1/problems/{code}", open: true, serve: (*call).problemPage},
		{method: "GET", path: "/livez", open: true, serve: (*call).livez},
		{method: "GET", path: "/readyz", open: true, serve: (*call).readyz},
	}
}

// routes builds the handler.
func (s *Server) routes(cfg *Config) http.Handler {
	mux := http.NewServeMux()
	allow := make(map[string][]string)
	for _, rt := range table() {
		mux.Handle(rt.method+" "+rt.path, s.operation(rt))
		allow[rt.path] = append(allow[rt.path], rt.method)
	}
	static := func(path string, h http.Handler) {
		mux.Handle("GET "+path, h)
		allow[path] = append(allow[path], http.MethodGet)
	}
	static("/v1/openapi.yaml", http.HandlerFunc(serveContract))
	if cfg.Registry != nil {
		static("/metrics", promhttp.HandlerFor(cfg.Registry, promhttp.HandlerOpts{}))
	}
	if cfg.PageJSON != nil {
		static("/demo/config.json", s.pageJSON(cfg.PageJSON))
	}
	for path, methods := range allow {
		mux.Handle(path, s.otherMethods(methods))
	}
	notFound := s.failing(&failure{kind: problemNotFound, detail: "there is no such route"})
	mux.Handle("/", notFound)
	if cfg.Page != nil {
		mux.Handle("/{$}", servePage(cfg.Page, "index.html"))
		for _, name := range pageFiles(cfg.Page) {
			mux.Handle("/"+name, servePage(cfg.Page, name))
		}
	}
	deny := s.failing(&failure{kind: problemCrossOrigin, detail: problems[problemCrossOrigin].Meaning})
	return s.checkHost(crossOrigin(mux, deny))
}

// operation serves a route: key, rate, body, then its function.
func (s *Server) operation(rt route) http.Handler {
	m := s.metrics.route(rt.method, rt.path)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := s.calls.take(s, w, r)
		began := m.begin()
		defer m.end(began) // also after a panic, which net/http reports
		err := c.prepare(&rt)
		if err == nil {
			err = rt.serve(c)
		}
		if err != nil {
			m.failed(c.refuse(err))
		}
		s.calls.put(c)
	})
}

func (c *call) prepare(rt *route) error {
	if !rt.open {
		if err := c.authorize(c.s.keys, rt.scope); err != nil {
			if rt.scope == ScopeAdmin {
				c.audit(rt.method+" "+rt.path, err)
			}
			return err
		}
		if err := c.spend(1); err != nil {
			return err
		}
	}
	if rt.body {
		return c.read()
	}
	return nil
}

// failing answers every request with one problem.
func (s *Server) failing(f *failure) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := s.calls.take(s, w, r)
		s.metrics.other(c.refuse(f))
		s.calls.put(c)
	})
}

// otherMethods answers methods that a path does not have.
func (s *Server) otherMethods(methods []string) http.Handler {
	list := slices.Clone(methods)
	if slices.Contains(list, http.MethodGet) {
		list = append(list, http.MethodHead)
	}
	list = append(list, http.MethodOptions)
	slices.Sort(list)
	allow := strings.Join(list, ", ")
	refuse := s.failing(&failure{kind: problemMethod, detail: "the route has the methods " + allow})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		if r.Method == http.MethodOptions { // without any answer to CORS: see the package comment
			w.WriteHeader(http.StatusNoContent)
			return
		}
		refuse.ServeHTTP(w, r)
	})
}

// checkHost refuses requests for other hosts than the configured ones.
func (s *Server) checkHost(h http.Handler) http.Handler {
	if s.hosts == nil {
		return h
	}
	refuse := s.failing(&failure{kind: problemMisdirected, detail: problems[problemMisdirected].Meaning})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.hostAllowed(r.Host) {
			h.ServeHTTP(w, r)
			return
		}
		refuse.ServeHTTP(w, r)
	})
}

// hostAllowed looks a Host header up in the names that are served.
func (s *Server) hostAllowed(header string) bool {
	if s.hosts == nil {
		return true
	}
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	}
	return s.hosts[host] || s.hosts[strings.ToLower(host)]
}

// pageFiles lists the files at the top of the page's file system.
func pageFiles(files fs.FS) []string {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// Routes lists all operations that a fully configured server documents, as "METHOD path".
func Routes() []string {
	list := []string{"GET /v1/openapi.yaml", "GET /metrics"}
	for _, rt := range table() {
		list = append(list, rt.method+" "+rt.path)
	}
	return list
}
