package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/controlplane/store/metered"
)

// Store measures transactions of the store. It implements [metered.Meter].
type Store struct {
	took         *prometheus.HistogramVec
	view, update [metered.Results]prometheus.Observer
	committed    func(revision uint64, at time.Time)
}

// NewStore returns the meter of a store. committed is called for each commit.
func NewStore(committed func(revision uint64, at time.Time)) *Store {
	m := &Store{
		committed: committed,
		took:      histograms("store_operation_duration_seconds", "Transactions of the store, with the wait for their turn.", workBuckets, "operation", "result"),
	}
	for r := range metered.Results {
		m.view[r] = m.took.WithLabelValues("view", r.String())
		m.update[r] = m.took.WithLabelValues("update", r.String())
	}
	return m
}

// Viewed implements metered.Meter.
func (m *Store) Viewed(r metered.Result, took time.Duration) { m.view[r].Observe(took.Seconds()) }

// Updated implements metered.Meter.
func (m *Store) Updated(r metered.Result, took time.Duration) { m.update[r].Observe(took.Seconds()) }

// Committed implements metered.Meter.
func (m *Store) Committed(revision uint64, at time.Time) { m.committed(revision, at) }

// Collectors lists the metrics.
func (m *Store) Collectors() []prometheus.Collector { return []prometheus.Collector{m.took} }
