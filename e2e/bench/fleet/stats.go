package main

import (
	"math"
	"slices"
	"time"
)

// spread is the distribution over the clients of one round, in milliseconds.
type spread struct {
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	Last float64 `json:"last_ms"`
}

func spreadOf(latencies []time.Duration) spread {
	sorted := slices.Sorted(slices.Values(latencies))
	return spread{P50: ms(quantile(sorted, 0.5)), P99: ms(quantile(sorted, 0.99)), Last: ms(quantile(sorted, 1))}
}

// quantile is the nearest-rank quantile of sorted values, 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// mean is the average of one number of each round, 0 without rounds.
func mean(rounds []round, f func(*round) float64) float64 {
	if len(rounds) == 0 {
		return 0
	}
	sum := 0.0
	for i := range rounds {
		sum += f(&rounds[i])
	}
	return sum / float64(len(rounds))
}

func worst(rounds []round, f func(*round) float64) float64 {
	w := 0.0
	for i := range rounds {
		w = max(w, f(&rounds[i]))
	}
	return w
}
