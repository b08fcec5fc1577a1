package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/klinkio/klink/daemon"
)

// Bounds of a call to the API.
const (
	apiTimeout = 30 * time.Second
	maxAnswer  = 64 << 20
)

// backend is how the commands of back ends reach the API: flags and calls.
type backend struct {
	base, key string
	output
}

func (b *backend) flags(c *cobra.Command) {
	def := os.Getenv("KLINK_API")
	if def == "" {
		def = fmt.Sprintf("http://%s:%d", devHost, devAPIPort)
	}
	c.Flags().StringVar(&b.base, "api", def, "address of the HTTP API (KLINK_API)")
	c.Flags().StringVar(&b.key, "api-key", "", "API key (KLINK_API_KEY; default: that of klink dev, for an API on this machine)")
	b.flag(c)
}

// apiKey is the flag, the variable, or the development key for this machine only: nobody else is shown it.
func (b *backend) apiKey(u *url.URL) (string, error) {
	if b.key != "" {
		return b.key, nil
	}
	if k := os.Getenv("KLINK_API_KEY"); k != "" {
		return k, nil
	}
	ip := net.ParseIP(u.Hostname())
	if u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return daemon.DevAPIKey, nil
	}
	return "", usagef("no API key for %s: set --api-key or KLINK_API_KEY", u.Host)
}

// call sends a request with a JSON body (nil: none) and returns the answer.
func (b *backend) call(ctx context.Context, method, path string, query url.Values, body any) ([]byte, error) {
	u, err := url.Parse(b.base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usagef("--api %q is not an address such as http://127.0.0.1:7080", b.base)
	}
	key, err := b.apiKey(u)
	if err != nil {
		return nil, err
	}
	u = u.JoinPath(path)
	u.RawQuery = query.Encode()
	var r io.Reader
	if body != nil {
		text, err := jsonText(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, reachError(u, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", u.Host, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, problemError(resp, text)
	}
	return text, nil
}

// reachError says what to do when nobody answers.
func reachError(u *url.URL, err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens on %s: is `klink dev` running? Another address is given with --api or KLINK_API", u.Host)
	}
	return fmt.Errorf("call %s: %w", u.Host, err)
}

// problemError is what the API says was wrong.
func problemError(resp *http.Response, body []byte) error {
	var p struct {
		Code, Detail, Title string
		RequestID           string `json:"request_id"`
		Errors              []struct{ Path, Detail string }
	}
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		return fmt.Errorf("%s answered %s: is it the HTTP API of klink?", resp.Request.URL.Host, resp.Status)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%d %s)", printable(p.Detail), resp.StatusCode, printable(p.Code))
	for _, e := range p.Errors {
		fmt.Fprintf(&b, "\n  %s: %s", printable(e.Path), printable(e.Detail))
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		b.WriteString("; give the key with --api-key or KLINK_API_KEY")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if after := resp.Header.Get("Retry-After"); after != "" {
			fmt.Fprintf(&b, "; try again in %s s", printable(after))
		}
	}
	return errors.New(b.String())
}

// print writes an answer: as it came for --output json, else as show does.
func (b *backend) print(w io.Writer, answer []byte, into any, show func(io.Writer) error) error {
	if b.json() {
		_, err := fmt.Fprintf(w, "%s\n", bytes.TrimSpace(answer))
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("the answer of the API is not understood: %w", err)
	}
	return show(w)
}
