package telemetry

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Node is what an agent reports about itself. Its functions are called at each scrape and
// must not block.
type Node struct {
	// EnvoyUp says that Envoy runs, and Connected that the stream to the control plane is
	// open.
	EnvoyUp, Connected func() bool
	// Restarts counts unexpected deaths of Envoy.
	Restarts func() int64
	// TokenEnds is when the node token ends, or zero if it does not say or is not known.
	TokenEnds func() time.Time
	// Build says what runs, and Conditions which conditions are not in order.
	Build, Conditions prometheus.Collector
	// Log, if set, counts log records.
	Log *Log
	// Authz, if set, has the metrics of the authorization service that the agent runs.
	Authz prometheus.Collector
}

// NewNode returns the metrics page of a node.
func NewNode(n Node, envoy func(context.Context) (io.ReadCloser, error), log *slog.Logger) *Scrape {
	r := prometheus.NewRegistry()
	r.MustRegister(n.Collectors()...)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return NewScrape(r, envoy, log)
}

// Collectors lists the metrics.
func (n Node) Collectors() []prometheus.Collector {
	out := []prometheus.Collector{
		n.Build, n.Conditions,
		Gauge("agent_envoy_up", "Whether Envoy runs.", func() float64 { return Flag(n.EnvoyUp()) }),
		Gauge("agent_control_plane_connected", "Whether the configuration stream to the control plane is open.", func() float64 { return Flag(n.Connected()) }),
		Counter("agent_envoy_restarts_total", "Envoys that ended unexpectedly and were started again.", func() float64 { return float64(n.Restarts()) }),
		Gauge("agent_token_expiry_timestamp_seconds", "When the node token ends, in seconds of Unix time; 0 if it does not say.", func() float64 { return Unix(n.TokenEnds()) }),
	}
	if n.Log != nil {
		out = append(out, n.Log.Collectors()...)
	}
	if n.Authz != nil {
		out = append(out, n.Authz)
	}
	return out
}

// Unix returns a time in seconds of Unix time, or 0 for the zero time.
func Unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
