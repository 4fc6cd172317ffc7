package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// pageAge is for how long what was gathered is told again. Whoever reaches a port of
// metrics need not say who they are, and gathering costs the process, its store and its
// Envoy more than asking costs them: without an age one client in a loop would keep all
// of them busy.
const pageAge = time.Second

// recent is something that is made anew when somebody asks and it is too old. One makes
// it at a time, for all who wait; that it failed is told again, too.
type recent[T any] struct {
	gather func(ctx context.Context) (T, error)
	// turn has one entry while nobody looks at the rest. Unlike with a mutex, who goes
	// away stops waiting.
	turn chan struct{}
	made time.Time
	out  T
	err  error
}

func newRecent[T any](gather func(ctx context.Context) (T, error)) *recent[T] {
	r := &recent[T]{gather: gather, turn: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	return r
}

// get returns what is there. Who asks first does not take it along by leaving; the error
// is that of ctx, or of the making.
func (r *recent[T]) get(ctx context.Context) (out T, err error) {
	select {
	case <-r.turn:
	case <-ctx.Done():
		return out, ctx.Err()
	}
	defer func() { r.turn <- struct{}{} }()
	if r.made.IsZero() || time.Since(r.made) >= pageAge {
		r.out, r.err = r.gather(context.WithoutCancel(ctx))
		r.made = time.Now() // what takes long is not made again for each of those who waited
	}
	return r.out, r.err
}

// newGathered is the moment at which a page was begun, for who must know how old it is.
func newGathered() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "gathered_timestamp_seconds", Help: "When this page was gathered, in seconds of Unix time. It is told again for a second.",
	})
}

// precise is a time in seconds of Unix time, to the microsecond: a page that was asked
// for a moment ago is told from one that was there.
func precise(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// gathered is a gatherer whose families are gathered once a second at most. They are
// not to be changed.
type gathered struct{ recent *recent[[]*dto.MetricFamily] }

// Gathered returns a gatherer for a port that anybody may ask. It adds to the metrics
// when they were gathered.
func Gathered(r *prometheus.Registry) prometheus.Gatherer {
	at := newGathered()
	r.MustRegister(at)
	return gathered{newRecent(func(context.Context) ([]*dto.MetricFamily, error) {
		at.Set(precise(time.Now()))
		return r.Gather()
	})}
}

// Gather implements [prometheus.Gatherer].
func (g gathered) Gather() ([]*dto.MetricFamily, error) { return g.recent.get(context.Background()) }
