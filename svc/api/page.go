package api

import (
	"io/fs"
	"net/http"
)

// contentPolicy lets the page load its own files, connect to the server's ports and nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// servePage serves one file.
func servePage(files fs.FS, name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, files, name)
	})
}

// pageJSON serves what the page has to know, made anew each time.
func (s *Server) pageJSON(data func() ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := s.calls.take(s, w, r)
		defer s.calls.put(c)
		b, err := data()
		if err != nil {
			s.metrics.other(c.refuse(err))
			return
		}
		c.out = append(c.out, b...)
		c.reply(http.StatusOK)
	})
}
