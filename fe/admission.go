package fe

import (
	"time"

	"github.com/klinkio/klink/limit"
)

// admission is the second stage of admission (the first is before TLS): a loop's share of the logins a second. Its loop alone uses it.
type admission struct {
	bucket limit.Bucket
	_      [40]byte // two loops do not share a cache line
}

func (n *Node) startAdmission() {
	if n.cfg.LoginRate <= 0 {
		return
	}
	loops := len(n.sessions.Shards())
	n.admit = make([]admission, loops)
	for i := range n.admit {
		n.admit[i].bucket = limit.NewBucket(n.cfg.LoginRate/float64(loops), max(1, n.cfg.LoginBurst/float64(loops)))
	}
}

// admission takes one login of the loop's share, or says how long the client should wait.
func (n *Node) admission(loop int) (wait time.Duration) {
	if n.admit == nil {
		return 0
	}
	b := &n.admit[loop].bucket
	now := time.Now().UnixNano()
	if b.Take(now, 1) {
		return 0
	}
	return max(b.Wait(now, 1), time.Millisecond)
}
