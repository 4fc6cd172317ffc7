package assembly

import (
	"context"
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// sinkMetrics are those of the syslog sinks of audit logs: each has its own, because one that is dead says nothing of
// the others.
type sinkMetrics struct{ cp *ControlPlane }

var (
	sinkLabels        = []string{"sink"}
	sinkEventsWaiting = prometheus.NewDesc("meshgate_audit_sink_events_waiting", "Audit events that a syslog sink has not got.", sinkLabels, nil)
	sinkFailures      = prometheus.NewDesc("meshgate_audit_sink_failures_total", "Tries to send audit events to a syslog sink that failed.", sinkLabels, nil)
	sinkEventsLost    = prometheus.NewDesc("meshgate_audit_sink_events_lost_total", "Audit events that a syslog sink will never get.", sinkLabels, nil)
)

// Describe implements prometheus.Collector.
func (sinkMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sinkEventsWaiting, sinkFailures, sinkEventsLost} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m sinkMetrics) Collect(out chan<- prometheus.Metric) {
	engine := m.cp.cloud.engine
	ctx, cancel := context.WithTimeout(context.Background(), gaugeTime)
	defer cancel()
	waiting, err := engine.SinksWaiting(ctx)
	for i, s := range engine.SinkStats() {
		events := math.NaN()
		if err == nil {
			events = float64(waiting[i])
		}
		out <- prometheus.MustNewConstMetric(sinkEventsWaiting, prometheus.GaugeValue, events, s.Sink)
		out <- prometheus.MustNewConstMetric(sinkFailures, prometheus.CounterValue, float64(s.Failures), s.Sink)
		out <- prometheus.MustNewConstMetric(sinkEventsLost, prometheus.CounterValue, float64(s.Lost), s.Sink)
	}
}
