package sdk

import (
	"math/rand/v2"
	"time"
)

const (
	backoffBase = 500 * time.Millisecond
	backoffCap  = time.Minute
	backoffMin  = 100 * time.Millisecond // even the luckiest throw is no busy loop
	stableLife  = time.Minute            // a connection that lived for so long ends a row of failures
	maxAdvised  = 10 * time.Minute       // of the delays that a server asks for
	maxSlots    = 3                      // short-lived connections in a row for which the server's slot is the whole delay
)

// backoff says how long to wait before the next attempt. The zero backoff is ready.
type backoff struct{ failures int }

// random is a full jitter delay: anything up to a bound that doubles.
func (b *backoff) random() time.Duration {
	bound := backoffCap
	if b.failures < 7 { // 500 ms << 7 is above the cap
		bound = backoffBase << b.failures
	}
	b.failures++
	return max(backoffMin, rand.N(bound))
}

// after is the delay after a connection that lived for life (0: it never was one) and ended with err.
func (b *backoff) after(life time.Duration, d *DisconnectError) time.Duration {
	if life >= stableLife {
		b.failures = 0
	}
	if d == nil {
		return b.random()
	}
	own := b.random()
	if d.Delay > 0 {
		slot := max(backoffMin, min(d.Delay, maxAdvised))
		if b.failures > maxSlots { // a server that always says "soon" does not switch the backoff off
			return max(own, slot)
		}
		return slot
	}
	if mean := time.Duration(d.Code.Info().DelayMs) * time.Millisecond; mean > 0 {
		return max(own, mean/2+rand.N(mean))
	}
	return own
}
