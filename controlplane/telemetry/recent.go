package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// pageAge is how long a gathered page is served again. Clients of a metrics port need no
// identity, and gathering costs the process, its store and its Envoy more than asking costs
// the client. Without an age, one client in a loop would keep all of them busy.
const pageAge = time.Second

// recent is a value that is made anew when somebody asks for it and it is too old. Only one
// caller makes it at a time, for all who wait. A failure is also served again.
type recent[T any] struct {
	gather func(ctx context.Context) (T, error)
	// turn has one entry while nobody uses the other fields. Unlike with a mutex, a caller
	// that leaves stops waiting.
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

// get returns the value. The first caller does not abort the making by leaving. The error is
// that of ctx, or of the making.
func (r *recent[T]) get(ctx context.Context) (out T, err error) {
	select {
	case <-r.turn:
	case <-ctx.Done():
		return out, ctx.Err()
	}
	defer func() { r.turn <- struct{}{} }()
	if r.made.IsZero() || time.Since(r.made) >= pageAge {
		r.out, r.err = r.gather(context.WithoutCancel(ctx))
		r.made = time.Now() // a slow value is not made again for each of those who waited
	}
	return r.out, r.err
}

// newGathered returns the time when a page was begun, for readers that must know its age.
func newGathered() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "gathered_timestamp_seconds", Help: "When this page was gathered, in seconds of Unix time. It is told again for a second.",
	})
}

// precise returns a time in seconds of Unix time, to the microsecond, so that a new page can
// be told from one that is served again.
func precise(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// gathered is a gatherer whose families are gathered at most once a second. Callers must not
// change them.
type gathered struct{ recent *recent[[]*dto.MetricFamily] }

// Gathered returns a gatherer for a port without authentication. It adds a metric with the
// time of gathering.
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
