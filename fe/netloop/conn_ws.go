package netloop

import (
	"errors"
	"net/url"
	"strings"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/wsframe"
)

// sameHost accepts the origin whose host and port are those of the Host header.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// request handles the HTTP request of a WebSocket connection and returns what comes behind it.
func (l *loop) request(c *conn, p []byte) (rest []byte) {
	u := &l.upgrade
	n, err := wsframe.ParseUpgrade(p, u)
	if errors.Is(err, wsframe.ErrShort) {
		l.keep(c, &c.in, p)
		return nil
	}
	if err != nil {
		status := 400
		if e, ok := errors.AsType[*wsframe.RequestError](err); ok {
			status = e.Status
		}
		l.refuseRequest(c, RefusedUpgrade, status, klink.CodeInvalid, err.Error())
		return nil
	}
	sub := u.Choose(SubprotocolBinary, SubprotocolJSON)
	switch {
	case string(u.Path) != l.srv.cfg.Path:
		l.refuseRequest(c, RefusedUpgrade, 404, klink.CodeNotFound, "the WebSocket address is "+l.srv.cfg.Path)
		return nil
	case len(u.Origin) > 0 && !(*l.srv.origin.Load())(string(u.Origin), string(u.Host)):
		l.refuseRequest(c, RefusedOrigin, 403, klink.CodeForbidden, "pages of this origin may not connect")
		return nil
	case sub == "":
		l.refuseRequest(c, RefusedUpgrade, 400, klink.CodeUnsupported, "offer the subprotocol "+SubprotocolBinary+" or "+SubprotocolJSON)
		return nil
	}
	c.flags |= fWS
	if sub == SubprotocolJSON {
		c.flags |= fJSON
	}
	c.transport = klink.TransportWS
	if c.has(fTLS) {
		c.transport = klink.TransportWSS
	}
	l.ctl = wsframe.AppendAccept(l.ctl[:0], u, sub)
	l.emit(c, l.ctl)
	if c.state == stUpgrade { // the socket may be gone
		l.open(c)
	}
	return p[n:]
}

// refuseRequest answers in HTTP and ends the connection.
func (l *loop) refuseRequest(c *conn, r Refusal, status int, code klink.Code, text string) {
	l.n.refused[r].Add(1)
	l.emit(c, wsframe.AppendRefusal(nil, status, code.String(), text))
	l.part(c)
}

// part ends a connection that was never open, after what was said to it.
func (l *loop) part(c *conn) {
	if c.state == stDead {
		return
	}
	l.close(c, link.CloseProtocol)
	c.flags |= fDeaf
	l.finish(c)
}

// wsInput handles the WebSocket frames in p, and returns what is left when the connection does not take more.
func (l *loop) wsInput(c *conn, p []byte) (rest []byte) {
	for c.state == stOpen || c.state == stFlush && !c.has(fDeaf|fPeerClose) {
		b := p
		if c.in != 0 {
			b = l.ins.get(c.in)
		}
		if len(b) == 0 {
			return nil
		}
		ev, n, need, err := c.ws.Next(b, l.srv.cfg.MaxFrame)
		switch {
		case err != nil:
			l.badFrame(c, err)
			return nil
		case ev.Kind == wsframe.None && c.in == 0:
			l.keep(c, &c.in, p)
			return nil
		case ev.Kind == wsframe.None: // no more of p than the frame needs
			if len(p) == 0 {
				return nil
			}
			n = min(need-len(b), len(p))
			if !l.keep(c, &c.in, p[:n]) {
				return nil
			}
			p = p[n:]
		case c.in != 0:
			l.wsEvent(c, &ev)
			l.ins.drop(c.in)
			c.in = 0
		default:
			l.wsEvent(c, &ev)
			p = p[n:]
		}
	}
	return p
}

func (l *loop) wsEvent(c *conn, ev *wsframe.Event) {
	if c.state != stOpen {
		if ev.Kind == wsframe.Close {
			c.flags |= fPeerClose
			l.finish(c)
		}
		return
	}
	switch ev.Kind {
	case wsframe.Message, wsframe.Fragment:
		if (ev.Op == wsframe.OpText) != c.has(fJSON) {
			l.fail(c, link.CloseProtocol, 1003, klink.DisconnectProtocol, "the subprotocol does not use this type of message")
			return
		}
		l.message(c, ev)
	case wsframe.Ping:
		l.sendPong(c, ev.Payload)
		l.handler.OnAlive(l.handle(c))
	case wsframe.Pong:
		l.handler.OnAlive(l.handle(c))
	case wsframe.Close:
		l.peerClose(c, ev)
	case wsframe.None:
	}
}

// message puts a message together; one that came in a single frame is not copied.
func (l *loop) message(c *conn, ev *wsframe.Event) {
	if ev.Kind == wsframe.Message {
		l.handler.OnMessage(l.handle(c), ev.Payload)
		return
	}
	if len(ev.Payload) > 0 && !l.keep(c, &c.msg, ev.Payload) {
		return
	}
	if !ev.Final {
		return
	}
	l.handler.OnMessage(l.handle(c), l.ins.get(c.msg))
	l.ins.drop(c.msg)
	c.msg = 0
}

// sendPong answers a ping. While output waits only the newest ping is answered, behind all that waits.
func (l *loop) sendPong(c *conn, payload []byte) {
	if c.out != 0 {
		l.outs.setPong(c.out, payload)
		return
	}
	l.ctl = append(wsframe.AppendHeader(l.ctl[:0], wsframe.OpPong, len(payload)), payload...)
	l.emit(c, l.ctl)
}

// peerClose answers the client's close frame and ends.
func (l *loop) peerClose(c *conn, ev *wsframe.Event) {
	c.flags |= fPeerClose
	l.close(c, link.ClosePeer)
	if ev.Code == 1005 { // it named none
		l.emit(c, wsframe.AppendHeader(nil, wsframe.OpClose, 0))
	} else {
		l.emit(c, wsframe.AppendClose(nil, ev.Code, ""))
	}
	l.tell(c)
	l.finish(c)
}

func (l *loop) badFrame(c *conn, err error) {
	if c.state != stOpen {
		c.flags |= fDeaf // its answer to our close frame is not worth waiting for
		l.finish(c)
		return
	}
	e, ok := errors.AsType[*wsframe.FrameError](err)
	switch {
	case !ok:
		l.fail(c, link.CloseProtocol, wsframe.CodeProtocol, klink.DisconnectProtocol, err.Error())
	case e.Code == wsframe.CodeTooBig:
		l.fail(c, link.CloseTooLarge, e.Code, klink.DisconnectTooLarge, e.Text)
	default:
		l.fail(c, link.CloseProtocol, e.Code, klink.DisconnectProtocol, e.Text)
	}
}
