package floor

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/klinkio/klink/proto/frame"
)

func TestGoroutinesServeAClient(t *testing.T) {
	t.Parallel()
	g, err := ListenGoroutines(t.Context(), frame.AppendConnected(nil, &frame.Connected{User: "ann"}))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- g.Run() }()
	c := dial(t, g.Addr().String())
	in := frame.NewReader(c, 1<<20)
	login(t, c, in)
	beat(t, c, in)
	if n := g.Members(); n != 1 {
		t.Errorf("%d members, want 1", n)
	}
	const n, size = 200, 60_000 // more than the channel and both sockets hold
	reached := make(chan int, 1)
	go func() { reached <- g.Push(samplePush(size), n) }()
	wantPushes(t, in, n, size)
	if got := <-reached; got != 1 {
		t.Errorf("reached %d, want 1", got)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := in.Next(); err == nil {
		t.Error("the connection is still there after Close")
	}
}

func TestHubPushesToAUser(t *testing.T) {
	t.Parallel()
	h := NewHub(frame.AppendConnected(nil, &frame.Connected{User: "ann"}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /connect", h.ServeDevices)
	mux.HandleFunc("POST /v1/push", h.ServePush)
	mux.HandleFunc("POST /v1/push/batch", h.ServeBatch)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	d := websocket.Dialer{Subprotocols: []string{"klink.v1"}}
	ws, resp, err := d.Dial("ws"+strings.TrimPrefix(srv.URL, "http")+"/connect?user=ann", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	t.Cleanup(func() { ws.Close() })
	if err := ws.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if err := ws.WriteMessage(websocket.BinaryMessage, frame.AppendConnect(nil, &frame.Connect{Token: []byte("t")})); err != nil {
		t.Fatal(err)
	}
	if s := next(t, ws); s.Kind != frame.ServerConnected {
		t.Fatalf("answer to Connect: %v", s.Kind)
	}
	if err := ws.WriteMessage(websocket.BinaryMessage, nil); err != nil {
		t.Fatal(err)
	}
	if s := next(t, ws); s.Kind != frame.ServerPong {
		t.Fatalf("answer to a heartbeat: %v", s.Kind)
	}
	const one = `{"to":{"users":["ann","bob"]},"text":"hello"}`
	var res hubResult
	call(t, srv.URL+"/v1/push", one, &res)
	if res.Enqueued != 1 || res.Matched != 1 || res.Offline != 1 {
		t.Errorf("answer to a push: %+v", res)
	}
	var batch struct {
		Results []struct {
			Status int
			Result hubResult
		}
	}
	call(t, srv.URL+"/v1/push/batch", `{"items":[`+one+`,`+one+`]}`, &batch)
	if len(batch.Results) != 2 || batch.Results[1].Status != 200 || batch.Results[1].Result.Enqueued != 1 {
		t.Errorf("answer to a batch: %+v", batch)
	}
	for range 3 {
		if s := next(t, ws); s.Kind != frame.ServerPush || string(s.Push.Body.Data) != "hello" {
			t.Fatalf("want a push of hello, got %v %q", s.Kind, s.Push.Body.Data)
		}
	}
	if n := h.Members(); n != 1 {
		t.Errorf("%d members, want 1", n)
	}
}

func next(t *testing.T, ws *websocket.Conn) *frame.Server {
	t.Helper()
	_, body, err := ws.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	s := new(frame.Server)
	if err := s.Decode(body); err != nil {
		t.Fatal(err)
	}
	return s
}

func call(t *testing.T, url, body string, into any) {
	t.Helper()
	resp, err := http.Post(url, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
}
