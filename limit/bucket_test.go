package limit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"
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

// Whoever waits as long as told finds the tokens, whatever the rounding does, and is not told to wait much longer than needed.
func TestWaitIsEnoughAndNotMore(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for i := range 200_000 {
		rate, burst := math.Exp(rng.Float64()*24-6), math.Exp(rng.Float64()*12)
		b := NewBucket(rate, burst)
		now := int64(1_800_000_000_000_000_000) + rng.Int64N(1e9)
		b.Take(now, rng.Float64()*burst)
		now += rng.Int64N(1e6)
		n := rng.Float64() * burst
		wait := b.Wait(now, n)
		if wait == math.MaxInt64 {
			t.Fatalf("case %d: %v of %v at %v/s never come", i, n, burst, rate)
		}
		late, early := b, b
		if !late.Take(now+int64(wait), n) {
			t.Fatalf("case %d: after %v there are %v tokens, promised %v", i, wait, late.tokens, n)
		}
		if before := wait - wait/1000 - 2; before > 0 && early.Take(now+int64(before), n*(1+1e-9)) {
			t.Fatalf("case %d: told to wait %v, but %v are there after %v", i, wait, n, before)
		}
	}
}

func TestBucketOfAClockThatIsSet(t *testing.T) {
	const hour = int64(time.Hour)
	b := NewBucket(1, 1)
	b.Take(10*hour, 1)
	if b.Take(9*hour, 1) {
		t.Error("setting the clock back gave a token")
	}
	if !b.Take(9*hour+int64(time.Second), 1) {
		t.Error("after the clock was set back the bucket waits for the old time")
	}
	b.Take(9*hour+int64(time.Second)-1, 0)
	if b.Take(9*hour+int64(time.Second), 1e-9) {
		t.Error("readings out of order gave a token")
	}
}

func TestBucketOfStrangeNumbers(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, b := range []Bucket{NewBucket(nan, nan), NewBucket(-1, -1), NewBucket(-inf, -inf), NewBucket(nan, 0), NewBucket(inf, 0)} {
		if b.Take(0, 1) || b.Take(1<<62, 1) || b.Wait(1<<62, 1) != math.MaxInt64 {
			t.Errorf("%+v gave a token", b)
		}
	}
	b := NewBucket(inf, 2)
	if !b.Take(0, 2) || !b.Take(1, 2) || b.Take(1, 1) || b.Wait(1, 1) != 1 {
		t.Errorf("an endless rate: %+v", b)
	}
	b = NewBucket(1, 5)
	if b.Take(0, inf) || b.Wait(0, inf) != math.MaxInt64 || !b.Take(0, -3) || !b.Take(0, nan) || b.tokens != 5 {
		t.Errorf("strange amounts changed the bucket: %+v", b)
	}
	b = NewBucket(1e-300, 1)
	b.Take(0, 1)
	if b.Wait(0, 1) != math.MaxInt64 {
		t.Error("a token in more than 292 years must read as never")
	}
}

func TestBucketIsPlainAndSmall(t *testing.T) {
	if s := unsafe.Sizeof(Bucket{}); s != 32 {
		t.Errorf("a bucket has %d bytes, its users count with 32", s)
	}
	b := NewBucket(1000, 10)
	now := int64(0)
	if n := testing.AllocsPerRun(100, func() { now += 1e6; b.Take(now, 1); b.Wait(now, 5) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
