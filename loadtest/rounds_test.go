package loadtest

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestRaceTakesTurnsAndDropsTheFirstRound(t *testing.T) {
	t.Parallel()
	var order strings.Builder
	cost := map[string][]time.Duration{"a": {900, 20, 30, 10}, "b": {1, 10, 10, 10}}
	racer := func(name string) *contender {
		i := 0
		return &contender{name: name, step: func() (time.Duration, error) {
			order.WriteString(name)
			i++
			return cost[name][i-1], nil
		}}
	}
	a, b := racer("a"), racer("b")
	if err := race(3, a, b); err != nil {
		t.Fatal(err)
	}
	if got := order.String(); got != "abbaabba" {
		t.Errorf("order %q", got)
	}
	if got := a.ratio(b); got != 2 {
		t.Errorf("ratio %v, want 2", got)
	}
	if low, high := a.spread(b); low != 1 || high != 3 {
		t.Errorf("spread %v to %v, want 1 to 3", low, high)
	}
	if got := a.perOp(10); got != 0.002 {
		t.Errorf("perOp %v, want 0.002", got)
	}
}

func TestRaceEndsWithAnError(t *testing.T) {
	t.Parallel()
	want := errors.New("lost")
	if err := race(3, &contender{step: func() (time.Duration, error) { return 0, want }}); !errors.Is(err, want) {
		t.Errorf("race: %v", err)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}} {
		if got := median(c.in); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}
