package fe

import (
	"context"
	"sync"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/tagindex"
)

// Start gives a push to the sessions of this FE and calls done, once, when every loop has finished with it: on a loop, or before Start returns. done must
// not block. On an error nothing was done and done is not called.
func (n *Node) Start(d *klink.Delivery, done func(klink.Report)) error {
	var expr *tagindex.Expr
	if d.Expr != "" {
		var err error
		if expr, err = n.exprs.parse(d.Expr); err != nil {
			return klink.Errorf(klink.CodeInvalid, "expression: %w", err)
		}
	}
	return n.sessions.Deliver(d, expr, done)
}

// Deliver is [Node.Start], waiting. It returns early when ctx ends; the push goes on.
func (n *Node) Deliver(ctx context.Context, d klink.Delivery) (klink.Report, error) {
	got := make(chan klink.Report, 1) // a report that nobody waits for any more must not block a loop
	if err := n.Start(&d, func(r klink.Report) { got <- r }); err != nil {
		return klink.Report{}, err
	}
	select {
	case r := <-got:
		return r, nil
	case <-ctx.Done():
		return klink.Report{}, klink.Errorf(klink.CodeTimeout, "push %s: its loops have not finished: %w", d.Push.ID, ctx.Err())
	}
}

// maxExprs bounds the parsed expressions that are kept.
const maxExprs = 1024

// exprCache keeps parsed expressions: back ends use few, often.
type exprCache struct {
	mu sync.RWMutex
	m  map[string]*tagindex.Expr
}

func (c *exprCache) parse(s string) (*tagindex.Expr, error) {
	c.mu.RLock()
	e := c.m[s]
	c.mu.RUnlock()
	if e != nil {
		return e, nil
	}
	e, err := tagindex.Parse(s)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxExprs {
		c.m = make(map[string]*tagindex.Expr)
	}
	c.m[s] = e
	return e, nil
}
