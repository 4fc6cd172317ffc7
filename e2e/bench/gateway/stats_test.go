package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEstimate(t *testing.T) {
	same := []sample{{100, 1, 0.5, 0.5}, {200, 2, 1, 1}, {300, 3, 1.5, 1.5}}
	if diff := cmp.Diff(estimate{100, 100, 100}, estimateOf(same, perCPUSecond)); diff != "" {
		t.Error(diff)
	}
	spread := []sample{{80, 1, 1, 0}, {90, 1, 1, 0}, {100, 1, 1, 0}, {110, 1, 1, 0}, {120, 1, 1, 0}}
	e := estimateOf(spread, perCPUSecond)
	if e.Value != 100 || e.Low <= 80 || e.Low >= 100 || e.High <= 100 || e.High >= 120 {
		t.Errorf("%+v", e)
	}
	if e != estimateOf(spread, perCPUSecond) {
		t.Error("the same samples give another interval")
	}
	if got := perSecond(sample{Operations: 10, Seconds: 2}); got != 5 {
		t.Error(got)
	}
	if got := micros(0.5, 1000); got != 500 {
		t.Error(got)
	}
	for _, zero := range []float64{perCPUSecond(sample{}), perSecond(sample{}), micros(1, 0), estimateOf(nil, perSecond).Value} {
		if zero != 0 {
			t.Errorf("%v without samples", zero)
		}
	}
}

func TestOptions(t *testing.T) {
	for args, want := range map[string]string{
		"-grants implicit":  "none that can be measured",
		"-tokens 1000,x":    "is no number of tokens",
		"-tokens 2,1":       "must be ascending",
		"-routes 0":         "is no number of routes",
		"-slices 1":         "at least 2",
		"-tokens= -grants=": "",
	} {
		_, err := parse(strings.Fields(args), io.Discard)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
