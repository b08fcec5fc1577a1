package main

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	neturl "net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/sdk/go"
)

// printer shows what a client hears: pushes as data, the rest as status; with JSON everything is data, one object a line.
// The client calls it on one goroutine.
type printer struct {
	out, status io.Writer
	json        bool
	left        int    // pushes until it is enough; 0 from the start: never
	enough      func() // ends the client
	err         error  // of the first write that failed
}

// event is one line of JSON.
type event struct {
	Event     string          `json:"event"`
	Push      string          `json:"push,omitempty"`
	Tag       string          `json:"tag,omitempty"`
	Expr      string          `json:"expr,omitempty"`
	From      string          `json:"from,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Text      *string         `json:"text,omitempty"`
	Base64    *string         `json:"data_base64,omitempty"`
	At        *time.Time      `json:"at,omitempty"`
	Session   string          `json:"session,omitempty"`
	User      string          `json:"user,omitempty"`
	Transport string          `json:"transport,omitempty"`
	Endpoint  string          `json:"endpoint,omitempty"`
	Code      int             `json:"code,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	DelayMs   int64           `json:"delay_ms,omitempty"`
	Count     uint32          `json:"count,omitempty"`
	Added     []string        `json:"added,omitempty"`
	Removed   []string        `json:"removed,omitempty"`
	Refused   []string        `json:"refused,omitempty"`
}

var _ sdk.Handler = (*printer)(nil)

func (p *printer) write(w io.Writer, text string) {
	if _, err := io.WriteString(w, strings.TrimSuffix(text, "\n")+"\n"); err != nil && p.err == nil {
		p.err = fmt.Errorf("write the output: %w", err)
		p.enough()
	}
}

// show prints an event as JSON, or its text.
func (p *printer) show(e *event, w io.Writer, format string, args ...any) {
	if !p.json {
		p.write(w, printable(fmt.Sprintf(format, args...)))
		return
	}
	b, err := jsonText(e)
	if err != nil { // data that is no JSON: a server never sends that
		e.Data = nil
		b, _ = jsonText(e) // nothing is left that could fail
	}
	p.write(p.out, string(b))
}

// OnStatus implements sdk.Handler.
func (p *printer) OnStatus(s *sdk.Status) {
	e := &event{Event: s.State.String(), Endpoint: s.Endpoint, DelayMs: s.Delay.Milliseconds()}
	var d *sdk.DisconnectError
	if errors.As(s.Err, &d) {
		e.Code = int(d.Code)
	}
	if s.Err != nil {
		e.Reason = s.Err.Error()
	}
	switch s.State {
	case sdk.StateConnected:
		e.Session, e.User, e.Transport = s.Session, s.User, s.Transport.String()
		p.show(e, p.status, "connected to %s as %s, session %s", s.Endpoint, s.User, s.Session)
	case sdk.StateWaiting:
		p.show(e, p.status, "%s; again in %v", reason(s), s.Delay.Round(10*time.Millisecond))
	case sdk.StateClosed:
		p.show(e, p.status, "closed")
	}
}

// reason says why there is no connection, and what to do about the usual cause.
func reason(s *sdk.Status) string {
	if errors.Is(s.Err, syscall.ECONNREFUSED) {
		host := s.Endpoint
		if u, err := neturl.Parse(s.Endpoint); err == nil {
			host = u.Host
		}
		return fmt.Sprintf("nothing listens on %s: is `klink dev` running? Another address is given with --addr or KLINK_ADDR", host)
	}
	if s.Err == nil {
		return "connection lost"
	}
	return s.Err.Error()
}

// OnPush implements sdk.Handler.
func (p *printer) OnPush(m *sdk.Push) {
	e := &event{Event: "push", Push: m.ID, Tag: m.Tag, Expr: m.Expr, From: m.From}
	if !m.Time.IsZero() {
		at := m.Time.UTC()
		e.At = &at
	}
	text := string(m.Payload.Data)
	switch m.Payload.Kind {
	case klink.DataJSON:
		e.Data = m.Payload.Data
	case klink.DataText:
		e.Text = &text
	default:
		text = base64.StdEncoding.EncodeToString(m.Payload.Data)
		e.Base64 = &text
	}
	to := m.Tag
	if to == "" {
		to = m.Expr
	}
	if to == "" {
		to = "-"
	}
	if m.From != "" {
		to += " " + m.From
	}
	p.show(e, p.out, "%s: %s", to, text)
	if p.left > 0 {
		if p.left--; p.left == 0 {
			p.enough()
		}
	}
}

// OnGap implements sdk.Handler.
func (p *printer) OnGap(g *sdk.Gap) {
	p.show(&event{Event: "gap", Tag: g.Tag, Count: g.Count, Reason: g.Reason}, p.status, "%d pushes are missing here: %s", g.Count, g.Reason)
}

// OnTags implements sdk.Handler.
func (p *printer) OnTags(t *sdk.Tags) {
	e := &event{Event: "tags", Added: t.Added, Removed: t.Removed}
	var parts []string
	if len(t.Added) > 0 {
		parts = append(parts, "carried: "+strings.Join(t.Added, " "))
	}
	if len(t.Removed) > 0 {
		parts = append(parts, "taken away: "+strings.Join(t.Removed, " "))
	}
	for _, r := range t.Refused {
		e.Refused = append(e.Refused, r.Tag+": "+r.Code.String())
		parts = append(parts, fmt.Sprintf("refused: %s (%s)", r.Tag, r.Text))
	}
	p.show(e, p.status, "tags %s", strings.Join(parts, ", "))
}

// OnError implements sdk.Handler.
func (p *printer) OnError(err error) {
	p.show(&event{Event: "error", Reason: err.Error()}, p.status, "%v", err)
}

// linePayload is JSON where the line is, else text.
func linePayload(line string) klink.Payload {
	if json.Valid([]byte(line)) {
		return klink.Payload{Kind: klink.DataJSON, Data: []byte(line)}
	}
	return klink.Payload{Kind: klink.DataText, Data: []byte(strings.ToValidUTF8(line, "\ufffd"))}
}

// trust is whose certificates are believed: those of --ca, for this machine's loopback also the development one, else the system's (nil).
func (f *connectFlags) trust(endpoint string) (*x509.CertPool, error) {
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca: %s holds no certificate", f.ca)
		}
		return pool, nil
	}
	u, err := neturl.Parse(endpoint)
	if err != nil {
		return nil, usagef("--addr %q is not an address", f.addr)
	}
	ip := net.ParseIP(u.Hostname())
	if u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, nil
	}
	folder, err := openDev()
	if err != nil {
		return nil, err
	}
	return folder.Roots(), nil
}
