package limit

import (
	"math"
	"time"
)

// Bucket is a token bucket: it fills at a steady rate up to its burst, and what is taken must be there. It is a plain
// value of 32 bytes that belongs to one goroutine or stands behind its owner's lock. The zero Bucket is always empty.
//
// Time is given in nanoseconds of any clock that one bucket is always asked with; a clock that goes back adds nothing.
type Bucket struct {
	rate   float64 // tokens a nanosecond
	burst  float64
	tokens float64 // at the time at
	at     int64
}

// NewBucket is a full bucket: perSecond tokens a second, at most burst at once. Values below zero count as zero.
func NewBucket(perSecond, burst float64) Bucket {
	burst = max(0, burst)
	return Bucket{rate: max(0, perSecond) / float64(time.Second), burst: burst, tokens: burst, at: math.MinInt64}
}

// fill brings the tokens up to the time now.
func (b *Bucket) fill(now int64) {
	switch {
	case b.at == math.MinInt64:
		b.at = now
	case now > b.at:
		b.tokens = min(b.burst, b.tokens+float64(now-b.at)*b.rate)
		b.at = now
	}
}

// Take takes n tokens and reports whether they were there; if not, none is taken.
func (b *Bucket) Take(now int64, n float64) bool {
	b.fill(now)
	if b.tokens < n {
		return false
	}
	b.tokens -= n
	return true
}

// Wait is how long after now n tokens are there, if nothing is taken meanwhile. More than the burst, or a rate of zero, will
// never be there: the longest duration.
func (b *Bucket) Wait(now int64, n float64) time.Duration {
	b.fill(now)
	missing := n - b.tokens
	if missing <= 0 {
		return 0
	}
	if b.rate <= 0 || n > b.burst {
		return math.MaxInt64
	}
	return time.Duration(math.Ceil(missing / b.rate))
}

// SetRate changes rate and burst; tokens beyond the new burst are lost.
func (b *Bucket) SetRate(now int64, perSecond, burst float64) {
	b.fill(now)
	b.rate, b.burst = max(0, perSecond)/float64(time.Second), max(0, burst)
	b.tokens = min(b.tokens, b.burst)
}
