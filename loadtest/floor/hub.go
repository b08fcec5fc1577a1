package floor

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

const (
	hubQueue   = 256 // messages that wait for a writer
	hubBuffer  = 1024
	hubMaxBody = 1 << 20
)

// Hub is a WebSocket server as one writes it in an afternoon: gorilla/websocket, two goroutines and a channel for each connection, a map
// of users, net/http and encoding/json for pushes. A device names its user in the query of its upgrade; a push answers when the message is in
// the channel of each connection that it is for, which is also when klink answers.
type Hub struct {
	answer []byte
	up     websocket.Upgrader

	mu    sync.RWMutex
	users map[string]*hubConn
}

type hubConn struct {
	ws   *websocket.Conn
	out  chan []byte
	gone chan struct{} // closed when reading has ended
}

// NewHub makes a hub. answer is the body of the frame that answers a Connect.
func NewHub(answer []byte) *Hub {
	return &Hub{
		answer: answer, users: make(map[string]*hubConn),
		up: websocket.Upgrader{ReadBufferSize: hubBuffer, WriteBufferSize: hubBuffer, Subprotocols: []string{"klink.v1"}},
	}
}

// Members counts the users that are connected.
func (h *Hub) Members() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.users)
}

// ServeDevices serves GET /connect?user=NAME.
func (h *Hub) ServeDevices(w http.ResponseWriter, r *http.Request) {
	ws, err := h.up.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered
	}
	c := &hubConn{ws: ws, out: make(chan []byte, hubQueue), gone: make(chan struct{})}
	user := r.URL.Query().Get("user")
	h.mu.Lock()
	h.users[user] = c
	h.mu.Unlock()
	go c.write()
	h.read(user, c)
}

func (h *Hub) read(user string, c *hubConn) {
	defer h.leave(user, c)
	for {
		_, body, err := c.ws.ReadMessage()
		if err != nil {
			return // the client has left
		}
		switch {
		case len(body) == 0:
			c.give(nil)
		case body[0]>>3 == KindConnect:
			c.give(h.answer)
		}
	}
}

func (h *Hub) leave(user string, c *hubConn) {
	h.mu.Lock()
	if h.users[user] == c {
		delete(h.users, user)
	}
	h.mu.Unlock()
	close(c.gone)
	_ = c.ws.Close() // nothing is left to be said on it
}

func (c *hubConn) give(b []byte) bool {
	select {
	case c.out <- b:
		return true
	case <-c.gone:
		return false
	}
}

func (c *hubConn) write() {
	for {
		select {
		case b := <-c.out:
			if c.ws.WriteMessage(websocket.BinaryMessage, b) != nil {
				_ = c.ws.Close() // the reader sees it
				return
			}
		case <-c.gone:
			return
		}
	}
}

// hubPush is a push as klink's HTTP API takes it, as far as the hub can do it.
type hubPush struct {
	To struct {
		Users []string `json:"users"`
	} `json:"to"`
	Text string `json:"text"`
}

// hubResult has the shape of klink's answer.
type hubResult struct {
	Push     string `json:"push"`
	Matched  int    `json:"matched"`
	Enqueued int    `json:"enqueued"`
	Offline  int    `json:"offline"`
}

// ServePush serves POST /v1/push.
func (h *Hub) ServePush(w http.ResponseWriter, r *http.Request) {
	var p hubPush
	if err := json.NewDecoder(io.LimitReader(r.Body, hubMaxBody)).Decode(&p); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.answerJSON(w, h.push(&p))
}

// ServeBatch serves POST /v1/push/batch.
func (h *Hub) ServeBatch(w http.ResponseWriter, r *http.Request) {
	var batch struct {
		Items []hubPush `json:"items"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, hubMaxBody)).Decode(&batch); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	type item struct {
		Status int       `json:"status"`
		Result hubResult `json:"result"`
	}
	out := struct {
		Results []item `json:"results"`
	}{make([]item, len(batch.Items))}
	for i := range batch.Items {
		out.Results[i] = item{http.StatusOK, h.push(&batch.Items[i])}
	}
	h.answerJSON(w, out)
}

func (h *Hub) answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // an error means that the caller has left
}

func (h *Hub) push(p *hubPush) hubResult {
	m := hubMessage(p)
	res := hubResult{Push: hubPushID}
	for _, u := range p.To.Users {
		h.mu.RLock()
		c := h.users[u]
		h.mu.RUnlock()
		switch {
		case c == nil:
			res.Offline++
		case c.give(m):
			res.Matched++
			res.Enqueued++
		default:
			res.Matched++
		}
	}
	return res
}

// hubPushID stands for an id; the hub makes none.
const hubPushID = "0123456789abcdef0123456789"

// hubMessage is the body of the Push frame.
func hubMessage(p *hubPush) []byte {
	return frame.AppendPush(nil, pushOf(p.Text), "")
}

// pushOf is a push of a text as the frames of klink/1 carry it.
func pushOf(text string) *klink.Push {
	return &klink.Push{ID: hubPushID, Payload: klink.Payload{Kind: klink.DataText, Data: []byte(text)}, Accepted: time.Now()}
}
