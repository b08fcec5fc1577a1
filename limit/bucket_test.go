package limit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestBucketFillsAtItsRate(t *testing.T) {
	const sec = int64(time.Second)
	b := NewBucket(10, 5)
	for i := range 5 {
		if !b.Take(0, 1) {
			t.Fatalf("token %d of the burst is missing", i)
		}
	}
	if b.Take(0, 1) {
		t.Fatal("a sixth token out of a burst of five")
	}
	if w := b.Wait(0, 1); w != 100*time.Millisecond {
		t.Errorf("wait for one token: %v, want 100ms", w)
	}
	if b.Take(sec/10-1, 1) || !b.Take(sec/10, 1) {
		t.Error("the token must come at 100 ms, neither earlier nor later")
	}
	if !b.Take(100*sec, 5) || b.Take(100*sec, 1) {
		t.Error("after a long time exactly the burst must be there")
	}
}

func TestBucketEdges(t *testing.T) {
	var zero Bucket
	if zero.Take(1, 1) || zero.Wait(1, 1) != math.MaxInt64 {
		t.Error("the zero bucket gave a token")
	}
	b := NewBucket(1, 2)
	if b.Wait(0, 3) != math.MaxInt64 {
		t.Error("more than the burst can never be had")
	}
	b.Take(1000, 2)
	if b.Take(0, 1) {
		t.Error("a clock that goes back must add nothing")
	}
	b.SetRate(1000, 1000, 1)
	if !b.Take(1000+int64(time.Millisecond), 1) {
		t.Error("the new rate is not in force")
	}
}

// Over any span no more comes out than burst plus rate times span.
func TestBucketNeverGivesTooMuch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	b := NewBucket(100, 10)
	now, taken := int64(0), 0.0
	for range 100_000 {
		now += rng.Int64N(int64(20 * time.Millisecond))
		if n := float64(rng.IntN(4)); b.Take(now, n) {
			taken += n
		}
		if limit := 10 + 100*float64(now)/1e9 + 1e-6; taken > limit {
			t.Fatalf("%v tokens after %v, limit %v", taken, time.Duration(now), limit)
		}
	}
	if taken < 0.9*100*float64(now)/1e9 {
		t.Errorf("only %v tokens came in %v", taken, time.Duration(now))
	}
}
