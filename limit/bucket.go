package limit

import (
	"math"
	"time"
)

// reorder is how far apart readings of one clock may come in the wrong order.
const reorder = int64(time.Second)

// Bucket is a token bucket: it fills at a steady rate up to its burst, and what is taken must be there. It is a plain
// value of 32 bytes that belongs to one goroutine or stands behind its owner's lock. The zero Bucket is always empty.
type Bucket struct {
	rate   float64 // tokens a nanosecond
	burst  float64
	tokens float64 // at the time at
	at     int64   // math.MinInt64 before the first use
}

// NewBucket is a full bucket: perSecond tokens a second, at most burst at once. What is not a number above zero counts as zero.
func NewBucket(perSecond, burst float64) Bucket {
	burst = amount(burst)
	return Bucket{rate: amount(perSecond) / float64(time.Second), burst: burst, tokens: burst, at: math.MinInt64}
}

// amount keeps NaN and infinity out of the sums.
func amount(v float64) float64 {
	if v > 0 {
		return min(v, math.MaxFloat64)
	}
	return 0
}

// fill brings the tokens up to the time now.
func (b *Bucket) fill(now int64) {
	switch {
	case b.at == math.MinInt64 || now < b.at-reorder:
		b.at = now
	case now > b.at:
		b.tokens = min(b.burst, b.tokens+float64(now-b.at)*b.rate)
		b.at = now
	}
}

// Take takes n tokens and reports whether they were there; if not, none is taken. Nothing, or less, is always there.
func (b *Bucket) Take(now int64, n float64) bool {
	b.fill(now)
	if n = amount(n); b.tokens < n {
		return false
	}
	b.tokens -= n
	return true
}

// Wait is how long after now n tokens are there, if the bucket is left alone meanwhile: a Take at that time succeeds. More than
// the burst, or a rate of zero, will never be there: the longest duration.
func (b *Bucket) Wait(now int64, n float64) time.Duration {
	b.fill(now)
	n = amount(n)
	if b.tokens >= n {
		return 0
	}
	ns := math.Ceil((n - b.tokens) / b.rate)
	if n > b.burst || !(ns < math.MaxInt64) {
		return math.MaxInt64
	}
	// The quotient is rounded, and so is the sum that Take will make: go on until it is sure to be enough.
	wait := int64(ns)
	for step := int64(1); b.tokens+float64(wait)*b.rate < n; step *= 2 {
		if wait > math.MaxInt64-step {
			return math.MaxInt64
		}
		wait += step
	}
	return time.Duration(wait)
}

// SetRate changes rate and burst; tokens beyond the new burst are lost.
func (b *Bucket) SetRate(now int64, perSecond, burst float64) {
	b.fill(now)
	b.rate, b.burst = amount(perSecond)/float64(time.Second), amount(burst)
	b.tokens = min(b.tokens, b.burst)
}
