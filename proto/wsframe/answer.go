package wsframe

import (
	"crypto/sha1" // the RFC's choice; it protects nothing
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
)

// AppendAccept appends the 101 answer. subprotocol empty: none was chosen.
func AppendAccept(dst []byte, u *Upgrade, subprotocol string) []byte {
	var in [60]byte
	n := copy(in[:], u.key[:])
	copy(in[n:], "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
	sum := sha1.Sum(in[:])
	dst = append(dst, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "...)
	dst = base64.StdEncoding.AppendEncode(dst, sum[:])
	if subprotocol != "" {
		dst = append(dst, "\r\nSec-WebSocket-Protocol: "...)
		dst = append(dst, subprotocol...)
	}
	return append(dst, "\r\n\r\n"...)
}

// AppendRefusal appends a whole HTTP answer that ends the connection, with a problem document (RFC 9457).
func AppendRefusal(dst []byte, status int, code, text string) []byte {
	body, _ := json.Marshal(struct { // strings always marshal
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Code   string `json:"code"`
	}{"about:blank", http.StatusText(status), status, text, code})
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, http.StatusText(status)...)
	switch status {
	case http.StatusUpgradeRequired:
		dst = append(dst, "\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"...)
	case http.StatusMethodNotAllowed:
		dst = append(dst, "\r\nAllow: GET"...)
	}
	dst = append(dst, "\r\nContent-Type: application/problem+json\r\nConnection: close\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(body)), 10)
	dst = append(dst, "\r\n\r\n"...)
	return append(dst, body...)
}
