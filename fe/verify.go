package fe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/connmgr"
)

// maxVerifying bounds the tokens that wait for a worker.
const maxVerifying = 4096

// verifyPool checks tokens whose signature costs too much for an event loop.
type verifyPool struct {
	verifier *auth.Verifier
	jobs     chan verifyJob
	refused  atomic.Uint64
}

type verifyJob interface {
	token() []byte
	verified(c *auth.Claims, err error)
}

func newVerifyPool(v *auth.Verifier) *verifyPool {
	return &verifyPool{verifier: v, jobs: make(chan verifyJob, maxVerifying)}
}

// post hands a token over; false: too many wait.
func (p *verifyPool) post(j verifyJob) bool {
	select {
	case p.jobs <- j:
		return true
	default:
		p.refused.Add(1)
		return false
	}
}

// run starts n workers, which end with ctx.
func (p *verifyPool) run(ctx context.Context, n int, wg *sync.WaitGroup) {
	for range n {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case j := <-p.jobs:
					c, err := p.verifier.Verify(j.token(), time.Now())
					j.verified(c, err)
				}
			}
		})
	}
}

// cheap says that a token may be checked on a loop: its signature costs little, or it is refused for its size, and then it is not copied.
func (n *Node) cheap(token []byte) bool {
	return len(token) > auth.MaxToken || n.cfg.Verifier.Cheap(token)
}

func (lg *login) token() []byte { return lg.raw }

func (lg *login) verified(c *auth.Claims, err error) {
	lg.claims, lg.err = c, err
	lg.shard.Post(lg)
}

var _ connmgr.Task = (*login)(nil)
