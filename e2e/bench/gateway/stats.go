package main

import (
	"math/rand/v2"
	"slices"
)

// estimate is a figure with the interval that holds it in 95 of 100 cases.
type estimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// resamples of a bootstrap.
const resamples = 2000

// estimateOf pools samples to one ratio, and finds its interval by drawing the
// samples again with replacement. The draws are the same in each run.
func estimateOf(samples []sample, ratio func(pooled sample) float64) estimate {
	if len(samples) == 0 {
		return estimate{}
	}
	r := rand.New(rand.NewPCG(1, 2))
	drawn := make([]float64, resamples)
	for i := range drawn {
		var sum sample
		for range samples {
			sum = sum.plus(samples[r.IntN(len(samples))])
		}
		drawn[i] = ratio(sum)
	}
	slices.Sort(drawn)
	var sum sample
	for _, s := range samples {
		sum = sum.plus(s)
	}
	return estimate{ratio(sum), drawn[resamples*25/1000], drawn[resamples*975/1000]}
}

func (s sample) plus(o sample) sample {
	return sample{s.Operations + o.Operations, s.Seconds + o.Seconds, s.ControlPlane + o.ControlPlane, s.Envoy + o.Envoy}
}

// perCPUSecond is operations in a second of CPU of both processes, 0 if none
// was used.
func perCPUSecond(s sample) float64 {
	if cpu := s.ControlPlane + s.Envoy; cpu > 0 {
		return float64(s.Operations) / cpu
	}
	return 0
}

// perSecond is operations in a second of time.
func perSecond(s sample) float64 {
	if s.Seconds > 0 {
		return float64(s.Operations) / s.Seconds
	}
	return 0
}

// micros is what one operation costs, in microseconds of the given CPU seconds.
func micros(cpu float64, operations int64) float64 {
	if operations == 0 {
		return 0
	}
	return cpu / float64(operations) * 1e6
}
