package loadtest

import (
	"slices"
	"time"
)

// contender is one of the things that are compared: step does one round's work and says what it cost.
type contender struct {
	name string
	step func() (time.Duration, error)
	cost []time.Duration // of each round
}

// race runs the contenders in turn, round by round; every other round in the opposite order. A first round is not counted.
func race(rounds int, list ...*contender) error {
	for i := range rounds + 1 {
		order := slices.Clone(list)
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, c := range order {
			d, err := c.step()
			if err != nil {
				return err
			}
			if i > 0 {
				c.cost = append(c.cost, d)
			}
		}
	}
	return nil
}

// perOp is the median cost of one of n operations of a round in microseconds.
func (c *contender) perOp(n int) float64 {
	all := make([]float64, len(c.cost))
	for i, d := range c.cost {
		all[i] = float64(d) / 1e3 / float64(n)
	}
	return median(all)
}

// ratio is the median of what a round of c costs, divided by what the round of other beside it costs.
func (c *contender) ratio(other *contender) float64 { return median(c.ratios(other)) }

// spread is the quartiles of the same.
func (c *contender) spread(other *contender) (low, high float64) {
	s := slices.Sorted(slices.Values(c.ratios(other)))
	return s[len(s)/4], s[len(s)-1-len(s)/4]
}

func (c *contender) ratios(other *contender) []float64 {
	all := make([]float64, len(c.cost))
	for i := range all {
		all[i] = float64(c.cost[i]) / float64(other.cost[i])
	}
	return all
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(all))
	mid := len(s) / 2
	if len(s)%2 == 0 {
		return (s[mid-1] + s[mid]) / 2
	}
	return s[mid]
}
