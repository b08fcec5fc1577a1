package fe

import (
	"github.com/klinkio/klink/svc/presence"
	"github.com/klinkio/klink/svc/push"
)

// The services that use a front end say what they need; the node has it.
var (
	_ push.FrontEnd     = (*Node)(nil)
	_ presence.FrontEnd = (*Node)(nil)
)
