// Package limit is token buckets: values without pointers, locks or clocks, for whoever owns them.
//
// # The rule
//
// A [Bucket] holds at most burst tokens and gains rate tokens a second. So over any span of s seconds it gives at most
// burst + rate*s tokens, and one who takes no more than rate a second is never refused.
//
// # Clocks
//
// The caller passes the time in, in nanoseconds; any clock will do if one bucket is always asked with the same. Readings that come out of
// order by less than a second, as those of several goroutines do, add nothing. A clock that was set back further is followed, so
// that nobody waits for it to come back to where it was.
package limit
