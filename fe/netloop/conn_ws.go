package netloop

import (
	"errors"
	"net/url"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/wsframe"
)

// sameHost accepts the origin whose host and port are those of the Host header.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host == host
}

// upgradeRequest handles the HTTP request of a WebSocket connection; 0: it is not complete, or was refused.
func (l *loop) upgradeRequest(slot uint32, c *conn, p []byte) (took int) {
	u := &l.upgrade
	n, err := wsframe.ParseUpgrade(p, u)
	if errors.Is(err, wsframe.ErrShort) {
		return 0
	}
	if err != nil {
		status := 400
		if e, ok := errors.AsType[*wsframe.RequestError](err); ok {
			status = e.Status
		}
		l.refuseUpgrade(slot, c, RefusedUpgrade, status, "upgrade", err.Error())
		return 0
	}
	sub := u.Choose(SubprotocolBinary, SubprotocolJSON)
	switch {
	case string(u.Path) != l.srv.cfg.Path:
		l.refuseUpgrade(slot, c, RefusedUpgrade, 404, "not_found", "the WebSocket address is "+l.srv.cfg.Path)
		return 0
	case len(u.Origin) > 0 && !(*l.srv.origin.Load())(string(u.Origin), string(u.Host)):
		l.refuseUpgrade(slot, c, RefusedOrigin, 403, "forbidden", "this origin may not connect")
		return 0
	case sub == "":
		l.refuseUpgrade(slot, c, RefusedUpgrade, 400, "subprotocol", "offer the subprotocol "+SubprotocolBinary+" or "+SubprotocolJSON)
		return 0
	}
	c.flags |= fWS
	if sub == SubprotocolJSON {
		c.flags |= fJSON
	}
	c.transport = klink.TransportWS
	if c.has(fTLS) {
		c.transport = klink.TransportWSS
	}
	// In the cork, before anything that the handler sends: nobody can be sent to before OnOpen.
	l.cork = wsframe.AppendAccept(l.cork, u, sub)
	l.open(slot, c)
	return n
}

func (l *loop) refuseUpgrade(slot uint32, c *conn, r Refusal, status int, code, text string) {
	l.n.refused[r].Add(1)
	l.dropPre(c)
	l.cork = wsframe.AppendRefusal(l.cork, status, code, text)
	l.end(slot, c, link.CloseProtocol, 0, "")
}

// message handles one WebSocket frame.
func (l *loop) message(slot uint32, c *conn, p []byte) (took, need int) {
	ev, n, need, err := c.ws.Next(p, l.srv.cfg.MaxFrame)
	if err != nil {
		l.wsFailed(slot, c, err)
		return 0, 0
	}
	h := l.handle(slot, c)
	switch ev.Kind {
	case wsframe.None:
		return 0, need
	case wsframe.Message, wsframe.Fragment:
		if want := wsframe.OpBinary; (ev.Op == want) == c.has(fJSON) {
			l.end(slot, c, link.CloseProtocol, 1003, "the subprotocol does not use this type of message")
			return 0, 0
		}
		l.fragment(slot, c, h, &ev)
	case wsframe.Ping:
		l.handler.OnAlive(h)
		if c.state == stOpen {
			l.control(slot, c, wsframe.OpPong, ev.Payload)
		}
	case wsframe.Pong:
		l.handler.OnAlive(h)
	case wsframe.Close:
		l.peerClose(slot, c, &ev)
		return 0, 0
	}
	return n, 0
}

// fragment puts a message together; one that came in a single frame is not copied.
func (l *loop) fragment(slot uint32, c *conn, h klink.Handle, ev *wsframe.Event) {
	if ev.Kind == wsframe.Message {
		l.handler.OnMessage(h, ev.Payload)
		return
	}
	if len(ev.Payload) > 0 {
		c.msg = l.bufs.add(c.msg, ev.Payload)
		l.checkInput(slot, c)
	}
	if !ev.Final || c.state != stOpen {
		return
	}
	ref := c.msg
	c.msg = 0
	l.handler.OnMessage(h, l.bufs.get(ref))
	l.bufs.drop(ref)
}

// control sends a control frame. If output waits it goes behind that, once; a client that pings without reading gets no more of them.
func (l *loop) control(slot uint32, c *conn, op wsframe.Op, payload []byte) {
	if c.has(fOut) {
		return
	}
	l.cork = append(wsframe.AppendHeader(l.cork, op, len(payload)), payload...)
	if len(l.cork) > corkSize {
		l.flushCork(slot, c)
	}
}

// peerClose answers the client's close frame and ends.
func (l *loop) peerClose(slot uint32, c *conn, ev *wsframe.Event) {
	if !c.has(fWSClose) {
		c.flags |= fWSClose
		if ev.Code == 1005 {
			l.cork = wsframe.AppendHeader(l.cork, wsframe.OpClose, 0)
		} else {
			l.cork = wsframe.AppendClose(l.cork, ev.Code, "")
		}
	}
	l.end(slot, c, link.ClosePeer, 0, "")
}

func (l *loop) wsFailed(slot uint32, c *conn, err error) {
	why, code := link.CloseProtocol, uint16(wsframe.CodeProtocol)
	if e, ok := errors.AsType[*wsframe.FrameError](err); ok {
		code = e.Code
		if code == wsframe.CodeTooBig {
			why = link.CloseTooLarge
		}
	}
	l.end(slot, c, why, code, err.Error())
}
