package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/meshgate/meshgate/controlplane/recent"
)

// pageAge is how long a gathered page is served again.
const pageAge = time.Second

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
type gathered struct {
	recent *recent.Value[[]*dto.MetricFamily]
}

// Gathered returns a gatherer for a port without authentication. It adds a metric with the
// time of gathering.
func Gathered(r *prometheus.Registry) prometheus.Gatherer {
	at := newGathered()
	r.MustRegister(at)
	return gathered{recent.New(pageAge, func(context.Context) ([]*dto.MetricFamily, error) {
		at.Set(precise(time.Now()))
		return r.Gather()
	})}
}

// Gather implements [prometheus.Gatherer].
func (g gathered) Gather() ([]*dto.MetricFamily, error) { return g.recent.Get(context.Background()) }
