package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	backendConns  = 4
	backendAnswer = 8 << 20 // bytes of an answer that are read
)

// backend calls the HTTP API as a back end does.
type backend struct {
	base string
	http *http.Client
}

func newBackend(addr string) *backend {
	return &backend{base: "http://" + addr, http: &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{MaxIdleConns: backendConns, MaxIdleConnsPerHost: backendConns, DisableCompression: true},
	}}
}

// post sends a JSON body and returns the answer's.
func (b *backend) post(ctx context.Context, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return b.do(req)
}

func (b *backend) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+path, nil)
	if err != nil {
		return nil, err
	}
	return b.do(req)
}

func (b *backend) do(req *http.Request) ([]byte, error) {
	req.Header.Set("Authorization", "Bearer "+apiKey)
	resp, err := b.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, backendAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %.300s", req.Method, req.URL.Path, resp.Status, text)
	}
	return text, err
}

// pushBody is a push of payloadBytes bytes to a target in JSON.
func pushBody(to string) []byte {
	return fmt.Appendf(nil, `{"to":%s,"text":%q}`, to, strings.Repeat("x", payloadBytes))
}

// batchBody is n pushes in one body.
func batchBody(to func(i int) string, n int) []byte {
	items := make([][]byte, n)
	for i := range items {
		items[i] = pushBody(to(i))
	}
	return fmt.Appendf(nil, `{"items":[%s]}`, bytes.Join(items, []byte{','}))
}

// enqueued is how many sessions an answer to a push says that it reached.
func enqueued(text []byte) (int, error) {
	var a struct{ Enqueued int }
	if err := json.Unmarshal(text, &a); err != nil {
		return 0, fmt.Errorf("answer to a push %.200q: %w", text, err)
	}
	return a.Enqueued, nil
}
