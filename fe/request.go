package fe

import (
	"github.com/klinkio/klink"
	"github.com/klinkio/klink/connmgr"
	"github.com/klinkio/klink/proto/frame"
)

// EchoService is the name of the built-in service that answers a request with its own payload: for trying out a
// connection, and for measuring its way.
const EchoService = "echo"

// Request implements [connmgr.Authority]. Routing to back ends is not part of a front end yet: only echo is served.
func (n *Node) Request(s *connmgr.Shard, h klink.Handle, r *frame.Request) {
	res := frame.Response{ID: r.ID}
	switch {
	case string(r.Service) != EchoService:
		res.Error, res.Text = klink.CodeUnknownSvc, "no service of that name"
	case string(r.Method) != "" && string(r.Method) != EchoService:
		res.Error, res.Text = klink.CodeUnknownMeth, "echo has the method echo only"
	default:
		res.Body = r.Body
	}
	s.Respond(h, &res)
}
