package main

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSpread(t *testing.T) {
	var hundred []time.Duration
	for i := 100; i > 0; i-- {
		hundred = append(hundred, time.Duration(i)*time.Millisecond)
	}
	for name, c := range map[string]struct {
		in   []time.Duration
		want spread
	}{
		"none":    {nil, spread{}},
		"one":     {[]time.Duration{1500 * time.Microsecond}, spread{1.5, 1.5, 1.5}},
		"two":     {[]time.Duration{2 * time.Millisecond, time.Millisecond}, spread{1, 2, 2}},
		"hundred": {hundred, spread{50, 99, 100}},
	} {
		if d := cmp.Diff(c.want, spreadOf(c.in)); d != "" {
			t.Error(name, d)
		}
	}
}

// A quantile is the smallest value that at least that share of the values does
// not exceed.
func TestQuantileByCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 60).Draw(t, "values")
		percent := rapid.IntRange(1, 100).Draw(t, "percent")
		in := make([]time.Duration, 0, len(values))
		for _, v := range values {
			in = append(in, time.Duration(v))
		}
		want := -1
		for candidate := 0; want < 0; candidate++ {
			n, present := 0, false
			for _, v := range values {
				if v <= candidate {
					n++
				}
				present = present || v == candidate
			}
			if present && n*100 >= percent*len(values) {
				want = candidate
			}
		}
		if got := quantile(sorted(in), float64(percent)/100); got != time.Duration(want) {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}

func TestMeanAndWorst(t *testing.T) {
	rounds := []round{{CPU: 1}, {CPU: 2}, {CPU: 6}}
	cpu := func(r *round) float64 { return r.CPU }
	if got := mean(rounds, cpu); got != 3 {
		t.Errorf("mean %v", got)
	}
	if got := worst(rounds, cpu); got != 6 {
		t.Errorf("worst %v", got)
	}
	if got := mean(nil, cpu); got != 0 {
		t.Errorf("mean of nothing %v", got)
	}
}

func TestParseCPU(t *testing.T) {
	const line = "42 (a ) name) S 1 42 42 0 -1 4194560 1000 0 0 0 250 75 3 4 20 0 9 0 100 1000 10"
	if got, err := parseCPU(line); err != nil || got != 3.25 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "42 (x) S 1", "42 (x) S 1 2 3 4 5 6 7 8 9 10 a b c"} {
		if got, err := parseCPU(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func TestParseMemory(t *testing.T) {
	got, err := parseMemory("Name:\tx\nVmHWM:\t    4096 kB\nVmRSS:\t    2048 kB\nThreads:\t1\n")
	if err != nil || got != (memory{RSS: 2, Peak: 4}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "VmRSS:\t1 kB\n", "VmRSS:\tx kB\nVmHWM:\t1 kB\n"} {
		if got, err := parseMemory(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func TestConsumes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		services := rapid.IntRange(3, 60).Draw(t, "services")
		w := workload{N: 1000, Services: services, Outbounds: rapid.IntRange(1, services-1).Draw(t, "outbounds")}
		if err := w.check(); err != nil {
			t.Fatal(err)
		}
		i := rapid.IntRange(0, 999).Draw(t, "proxy")
		got := w.consumes(i)
		seen, narrow := map[int]bool{}, false
		for _, s := range got {
			if s < 0 || s >= services || seen[s] {
				t.Fatalf("service %d in %v", s, got)
			}
			seen[s] = true
			narrow = narrow || s == w.narrow()
		}
		if len(got) != w.Outbounds || !seen[0] || narrow != (i%100 == 0 && w.Outbounds > 1) {
			t.Fatalf("proxy %d consumes %v", i, got)
		}
	})
}

func TestAddressesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for i := range 60001 {
		if a := address(i); seen[a] {
			t.Fatalf("%s twice", a)
		} else {
			seen[a] = true
		}
	}
}

func sorted(d []time.Duration) []time.Duration { return slices.Sorted(slices.Values(d)) }
