package sdk

import (
	"context"
	"errors"
	"slices"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/proto/frame"
)

// Subscription is the answer to a Subscribe.
type Subscription struct {
	Tags []TagResult

	// Barrier: every push to these tags that is accepted from now on reaches this session while it lives, or a [Gap] says that
	// it did not. If it is false, [Tags.Barrier] tells later.
	Barrier bool
}

// Subscribe asks for tags and waits for the answer, over reconnects if need be, while ctx lets it. Tags that the server grants are subscribed
// again after each reconnect. If the call fails, the tags are not kept; errors are *[klink.Error].
func (c *Client) Subscribe(ctx context.Context, tags ...string) (Subscription, error) {
	if err := c.checkTags(tags); err != nil {
		return Subscription{}, err
	}
	added := c.want(tags)
	for {
		cn, err := c.await(ctx)
		if err != nil {
			c.unwant(added)
			return Subscription{}, err
		}
		a, err := cn.roundTrip(ctx, false, func(id uint32) []byte { return appendSubscribe(id, tags) })
		if errors.Is(err, errLost) {
			continue // a subscription may be asked for twice
		}
		if err != nil {
			c.unwant(added)
			cn.leave(added) // it may have taken effect
			return Subscription{}, err
		}
		for i := range a.sub.Tags {
			if r := &a.sub.Tags[i]; r.Code != klink.OK {
				c.unwant([]string{r.Tag})
			}
		}
		return a.sub, nil
	}
}

// Unsubscribe gives tags back. Without a connection that is done at once: they are not subscribed at the next login.
func (c *Client) Unsubscribe(ctx context.Context, tags ...string) ([]TagResult, error) {
	if err := c.checkTags(tags); err != nil {
		return nil, err
	}
	c.unwant(tags)
	c.mu.Lock()
	cn := c.live
	c.mu.Unlock()
	done := make([]TagResult, len(tags))
	for i, t := range tags {
		done[i].Tag = t
	}
	if cn == nil {
		return done, nil
	}
	a, err := cn.roundTrip(ctx, false, func(id uint32) []byte { return appendUnsubscribe(id, tags) })
	if errors.Is(err, errLost) {
		return done, nil
	}
	return a.sub.Tags, err
}

func (c *Client) checkTags(tags []string) error {
	var err error
	size := 0
	for _, t := range tags {
		size += len(t) + 4
		if e := klink.CheckID("tag", t, klink.MaxTagLen); e != nil && err == nil {
			err = e
		}
	}
	switch {
	case err != nil:
		err = klink.Errorf(klink.CodeInvalid, "%w", err)
	case len(tags) == 0:
		err = klink.Errorf(klink.CodeInvalid, "no tag")
	case len(tags) > maxHelloTags || size > maxHelloBytes:
		err = klink.Errorf(klink.CodeTooLarge, "%d tags of %d bytes in one call, at most %d of %d", len(tags), size, maxHelloTags, maxHelloBytes)
	default:
		return c.foreground()
	}
	c.stats.refused.Add(1)
	return err
}

// want keeps tags for the next login and returns those that were not kept before.
func (c *Client) want(tags []string) (added []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range tags {
		if !c.wanted[t] {
			c.wanted[t] = true
			added = append(added, t)
		}
	}
	return added
}

func (c *Client) unwant(tags []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range tags {
		delete(c.wanted, t)
	}
}

// leave gives tags back without waiting for the answer.
func (cn *conn) leave(tags []string) {
	if len(tags) == 0 {
		return
	}
	id, _, err := cn.begin(false)
	if err == nil {
		cn.say(appendUnsubscribe(id, tags))
	}
}

// reconcile sends what changed between Connect and Connected, and subscribes the tags that had no room in Connect.
func (cn *conn) reconcile() {
	c := cn.c
	asked := make(map[string]bool, len(cn.asked))
	var gone, rest []string
	c.mu.Lock()
	for _, t := range cn.asked {
		asked[t] = true
		if cn.granted[t] && !c.wanted[t] {
			gone = append(gone, t)
		}
	}
	for t := range c.wanted {
		if !asked[t] {
			rest = append(rest, t)
		}
	}
	c.mu.Unlock()
	cn.leave(gone)
	if len(rest) > 0 && cn.cut {
		c.wg.Go(func() { cn.subscribeRest(rest) })
	}
}

// subscribeRest subscribes in frames of bounded size; the handler hears the results. It ends with the connection.
func (cn *conn) subscribeRest(tags []string) {
	for len(tags) > 0 {
		n, size := 0, 0
		for n < len(tags) && n < maxHelloTags && size < maxHelloBytes {
			size += len(tags[n]) + 4
			n++
		}
		a, err := cn.roundTrip(cn.c.life, false, func(id uint32) []byte { return appendSubscribe(id, tags[:n]) })
		switch {
		case errors.Is(err, errLost) || cn.c.life.Err() != nil:
			return
		case err != nil:
			cn.c.events.add(event{err: err})
		default:
			if t := cn.c.keep(a.sub.Tags); t != nil {
				cn.c.events.add(event{tags: t})
			}
		}
		tags = tags[n:]
	}
}

// keep sorts the results of tags that were asked for again. Those that are refused for good are not asked for any more. nil: there are none.
func (c *Client) keep(results []TagResult) *Tags {
	var t Tags
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range results {
		if r.Code == klink.OK {
			t.Added = append(t.Added, r.Tag)
			continue
		}
		t.Refused = append(t.Refused, r)
		if !r.Code.Temporary() {
			delete(c.wanted, r.Tag)
		}
	}
	if len(t.Added)+len(t.Refused) == 0 {
		return nil
	}
	return &t
}

// loginTags takes the results that a login brings: of the tags in Connect, of the token and of back ends.
func (cn *conn) loginTags(results []frame.TagResult) *Tags {
	t := cn.c.keep(tagResults(results))
	if t != nil {
		cn.granted = make(map[string]bool, len(t.Added))
		for _, tag := range t.Added {
			cn.granted[tag] = true
		}
	}
	return t
}

func (cn *conn) onTagsChanged(m *frame.TagsChanged) {
	cn.c.unwant(m.Removed)
	cn.c.events.add(event{tags: &Tags{Added: slices.Clone(m.Added), Removed: slices.Clone(m.Removed)}})
}

// onSubscribed ends a call, or says that the barrier of an earlier answer is there.
func (cn *conn) onSubscribed(m *frame.Subscribed) {
	results := tagResults(m.Tags)
	if cn.finish(m.ID, answer{sub: Subscription{Tags: results, Barrier: m.Barrier}}) {
		return
	}
	var t Tags
	for _, r := range results {
		if r.Code == klink.OK && m.Barrier && !m.Left {
			t.Barrier = append(t.Barrier, r.Tag)
		}
	}
	if len(t.Barrier) == 0 {
		cn.c.stats.stray.Add(1)
		return
	}
	cn.c.events.add(event{tags: &t})
}

func tagResults(in []frame.TagResult) []TagResult {
	out := make([]TagResult, len(in))
	for i := range in {
		out[i] = TagResult{Tag: in[i].Tag, Code: in[i].Error, Text: in[i].Text}
	}
	return out
}

func appendSubscribe(id uint32, tags []string) []byte {
	m := frame.Subscribe{ID: id, Tags: make([]frame.TagPosition, len(tags))}
	for i, t := range tags {
		m.Tags[i].Tag = []byte(t)
	}
	return frame.AppendSubscribe(nil, &m)
}

func appendUnsubscribe(id uint32, tags []string) []byte {
	m := frame.Unsubscribe{ID: id, Tags: make([][]byte, len(tags))}
	for i, t := range tags {
		m.Tags[i] = []byte(t)
	}
	return frame.AppendUnsubscribe(nil, &m)
}
