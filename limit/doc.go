// Package limit is token buckets: values without pointers, locks or clocks, for whoever owns them.
package limit
