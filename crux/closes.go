package crux

import "github.com/klinkio/klink"

// closeList holds the sessions of one incarnation that it has to close and did not confirm, in the order in which they
// were replaced.
type closeList struct {
	reasons map[klink.Handle]klink.Disconnect
	order   []klink.Handle // may name handles that were confirmed
}

// add reports false if the list is full.
func (c *closeList) add(h klink.Handle, reason klink.Disconnect) bool {
	if _, ok := c.reasons[h]; ok {
		return true
	}
	if len(c.reasons) >= maxCloseItems {
		return false
	}
	if c.reasons == nil {
		c.reasons = make(map[klink.Handle]klink.Disconnect)
	}
	c.reasons[h] = reason
	c.order = append(c.order, h)
	return true
}

func (c *closeList) confirm(h klink.Handle) {
	if _, ok := c.reasons[h]; !ok {
		return
	}
	delete(c.reasons, h)
	if len(c.reasons) == 0 {
		*c = closeList{}
		return
	}
	if len(c.order) >= 2*len(c.reasons)+64 {
		c.order = c.pending(len(c.reasons))
	}
}

// pending is the oldest limit handles that are not confirmed.
func (c *closeList) pending(limit int) []klink.Handle {
	out := make([]klink.Handle, 0, min(limit, len(c.reasons)))
	for _, h := range c.order {
		if len(out) == limit {
			break
		}
		if _, ok := c.reasons[h]; ok {
			out = append(out, h)
		}
	}
	return out
}

func (c *closeList) items(limit int) []CloseItem {
	if len(c.reasons) == 0 {
		return nil
	}
	hs := c.pending(limit)
	out := make([]CloseItem, len(hs))
	for i, h := range hs {
		out[i] = CloseItem{Handle: h, Reason: c.reasons[h]}
	}
	return out
}
