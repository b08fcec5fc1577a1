package wsframe

import (
	"crypto/sha1" // the RFC's choice; it protects nothing
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
)

// accept is the GUID of RFC 6455, section 1.3.
const accept = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// AppendAccept appends the 101 answer to a request that [ParseUpgrade] took. subprotocol is one that the client offered, or empty: none
// was chosen. It allocates nothing when dst has room for 200 bytes.
func AppendAccept(dst []byte, u *Upgrade, subprotocol string) []byte {
	var in [len(u.key) + len(accept)]byte
	n := copy(in[:], u.key[:])
	copy(in[n:], accept)
	sum := sha1.Sum(in[:])
	dst = append(dst, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "...)
	dst = base64.StdEncoding.AppendEncode(dst, sum[:])
	if subprotocol != "" {
		dst = append(dst, "\r\nSec-WebSocket-Protocol: "...)
		dst = append(dst, subprotocol...)
	}
	return append(dst, "\r\n\r\n"...)
}

// AppendRefusal appends a whole HTTP answer that ends the connection, with a problem document (RFC 9457). code is the stable name of the
// problem, text says it to people. The server must close after it.
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
	connection := "close"
	switch status {
	case http.StatusUpgradeRequired:
		connection = "Upgrade, close" // RFC 9110, section 7.8: Upgrade must be named there
		dst = append(dst, "\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"...)
	case http.StatusMethodNotAllowed:
		dst = append(dst, "\r\nAllow: GET"...)
	}
	dst = append(dst, "\r\nConnection: "...)
	dst = append(dst, connection...)
	dst = append(dst, "\r\nContent-Type: application/problem+json\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(body)), 10)
	dst = append(dst, "\r\n\r\n"...)
	return append(dst, body...)
}
