package daemon

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
)

// demoTTL is how long the token of a guest lasts; the page asks for the next one by itself.
const demoTTL = time.Hour

// maxGuest bounds the name that a page gives its user.
const maxGuest = 64

// guest is what the demo page has to know.
type guest struct {
	User   string `json:"user"`
	Token  string `json:"token"`
	WS     string `json:"ws"`
	WSS    string `json:"wss"`
	APIKey string `json:"api_key"`
}

// withDemo adds GET /demo/config.json. It gives out tokens and the API key to whoever asks, so it exists in development only, and answers only
// requests for this machine's own names: a page elsewhere whose name was made to point here gets nothing.
func (p *Process) withDemo(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /demo/config.json", func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !slices.Contains(p.demoHosts(), strings.ToLower(host)) {
			http.Error(w, "not for this host", http.StatusMisdirectedRequest)
			return
		}
		g, err := p.newGuest(r.URL.Query().Get("user"))
		if err != nil {
			p.log.Error("no guest was made", "err", err)
			http.Error(w, "no guest was made", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(g) // an error means that the page has left
	})
	return mux
}

func (p *Process) newGuest(user string) (guest, error) {
	if klink.CheckID("user", user, maxGuest) != nil {
		var b [2]byte
		if _, err := rand.Read(b[:]); err != nil {
			return guest{}, err
		}
		user = fmt.Sprintf("guest-%x", b)
	}
	now := time.Now()
	token, err := auth.Mint(p.dev.SigningKey(), auth.Claims{
		User: user, Issued: now, Expires: now.Add(demoTTL), Subscribe: []string{"room:*"}, Publish: []string{"room:*"},
	})
	if err != nil {
		return guest{}, err
	}
	return guest{User: user, Token: token, WS: p.local("ws"), WSS: p.local("wss"), APIKey: DevAPIKey}, nil
}

// demoHosts are the names of this machine that the page may be loaded from.
func (p *Process) demoHosts() []string {
	hosts := []string{"localhost", "127.0.0.1", "::1", "[::1]"}
	if h, _, err := net.SplitHostPort(p.cfg.API.Listen); err == nil && h != "" && !slices.Contains(hosts, h) {
		hosts = append(hosts, strings.ToLower(h))
	}
	return hosts
}

// apiHosts is api.hosts; in development also the machine's own names, where the API listens on loopback.
func (p *Process) apiHosts() []string {
	if p.dev == nil || len(p.cfg.API.Hosts) > 0 {
		return p.cfg.API.Hosts
	}
	return p.demoHosts()
}

// local is where a page on this machine connects: the endpoint, or where devices are served on every address, loopback.
func (p *Process) local(transport string) string {
	if e := p.endpoint(transport); e != "" || transport == "ws" && !p.cfg.FE.Insecure {
		return e
	}
	_, port, err := net.SplitHostPort(p.node.Addrs()[0].String())
	if err != nil {
		return ""
	}
	return transport + "://" + net.JoinHostPort("127.0.0.1", port) + p.cfg.FE.Path
}
