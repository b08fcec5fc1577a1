package wsframe_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klinkio/klink/proto/wsframe"
)

// answer reads bytes as net/http's client does and makes sure that nothing is left.
func answer(t *testing.T, b []byte) (*http.Response, string) {
	t.Helper()
	br := bufio.NewReader(strings.NewReader(string(b)))
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodGet})
	if err != nil {
		t.Fatalf("%v: %q", err, b)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(br); len(rest) > 0 {
		t.Errorf("after the answer: %q", rest)
	}
	return resp, string(body)
}

func TestAppendAccept(t *testing.T) {
	t.Parallel()
	var u wsframe.Upgrade
	if _, err := wsframe.ParseUpgrade([]byte(request(good...)), &u); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"", "chat"} {
		resp, _ := answer(t, wsframe.AppendAccept(nil, &u, sub))
		if resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "websocket" || resp.Header.Get("Connection") != "Upgrade" ||
			resp.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" || resp.Header.Get("Sec-WebSocket-Protocol") != sub {
			t.Errorf("subprotocol %q: %v", sub, resp)
		}
		if _, ok := resp.Header["Sec-Websocket-Protocol"]; ok != (sub != "") {
			t.Errorf("subprotocol %q: the header is there: %t", sub, ok)
		}
	}
}

func TestAppendRefusal(t *testing.T) {
	t.Parallel()
	const text = "say \"GET\"\r\n<b>\xff"
	for status, want := range map[int]http.Header{
		400: {"Connection": {"close"}},
		403: {"Connection": {"close"}},
		404: {"Connection": {"close"}},
		405: {"Connection": {"close"}, "Allow": {"GET"}},
		426: {"Connection": {"Upgrade, close"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}},
		431: {"Connection": {"close"}},
		503: {"Connection": {"close"}},
		505: {"Connection": {"close"}},
	} {
		resp, body := answer(t, wsframe.AppendRefusal(nil, status, "some_code", text))
		if resp.StatusCode != status || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%d: %v", status, resp)
		}
		for name := range want {
			if got := resp.Header.Get(name); name != "Connection" && got != want.Get(name) {
				t.Errorf("%d: %s is %q, want %q", status, name, got, want.Get(name))
			}
		}
		if len(resp.Header) != len(want)+1 || !resp.Close { // Content-Type and Content-Length beside; net/http takes Connection out
			t.Errorf("%d: headers %v, closes: %t", status, resp.Header, resp.Close)
		}
		if raw := string(wsframe.AppendRefusal(nil, status, "c", "t")); !strings.Contains(raw, "\r\nConnection: "+want.Get("Connection")+"\r\n") {
			t.Errorf("%d: %q", status, raw)
		}
		var problem map[string]any
		if err := json.Unmarshal([]byte(body), &problem); err != nil {
			t.Fatal(err)
		}
		if problem["type"] != "about:blank" || problem["title"] != http.StatusText(status) || problem["status"] != float64(status) ||
			problem["code"] != "some_code" || problem["detail"] != "say \"GET\"\r\n<b>\uFFFD" {
			t.Errorf("%d: %v", status, problem)
		}
	}
}
