package assembly

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/meshgate/meshgate/controlplane/telemetry"
	"github.com/meshgate/meshgate/controlplane/version"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// metrics returns the registry of the diagnostics port.
func (cp *ControlPlane) metrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(cp.collectors()...)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// collectors lists all metrics of a control plane that docs/operations/metrics.md explains.
// Gauges read their values from the parts when they are scraped.
func (cp *ControlPlane) collectors() []prometheus.Collector {
	gauge, counter := telemetry.Gauge, telemetry.Counter
	stats, audited := cp.revoker.Stats, cp.cloud.engine.Stats
	progress := func() snapshot.Progress { return cp.snapshots.Progress(snapshot.Newest) }
	list := []prometheus.Collector{
		telemetry.BuildInfo("control-plane", version.Program),
		gauge("ready", "Whether the process can do its work.", func() float64 {
			missing, _ := cp.ready.state(context.Background())
			return telemetry.Flag(missing == "")
		}),
		gauge("store_revision", "Newest revision of the store.", func() float64 { return float64(cp.store.Revision()) }),
		gauge("xds_streams", "Open ADS streams.", func() float64 { return float64(cp.xds.Streams()) }),
		gauge("xds_published_revision", "Newest revision whose configuration is in place in every scope.", func() float64 { return float64(cp.snapshots.Published()) }),
		gauge("xds_proxies_waiting", "Connected proxies that have not acknowledged everything.", func() float64 { return float64(len(progress().Waiting)) }),
		gauge("xds_proxies_rejecting", "Rejections of configuration that still stand.", func() float64 { return float64(len(progress().Rejected)) }),
		gauge("plan_failures", "Resources that are left out or keep their last good version; the log names them.", func() float64 { return float64(len(cp.loop.Failures())) }),
		gauge("links", "Open freshness links of filters.", func() float64 { return float64(stats().Links) }),
		gauge("live_leases", "Filters that may answer from memory.", func() float64 { return float64(stats().LiveLeases) }),
		gauge("known_filters", "Filters, connected or not, that may read Redis.", func() float64 { return float64(stats().KnownFilters) }),
		counter("revocations_total", "Revocations published.", func() float64 { return float64(stats().Revocations) }),
		counter("revocations_unconfirmed_total", "Revocations answered with 503.", func() float64 { return float64(stats().Unconfirmed) }),
		gauge("revocations_pending", "Revocations that some filter may not know of when it reads Redis.", func() float64 { return float64(stats().Pending) }),
		gauge("redis_trusted", "Whether filters are told to believe the second level of the token cache.", func() float64 { return telemetry.Flag(stats().Trusted) }),
		gauge("redis_up", "Whether the second level is in order and written to.", func() float64 { return telemetry.Flag(stats().RedisUp) }),
		gauge("redis_outlives_control_plane", "Whether proxies are told of a Redis that goes on without the control plane.", func() float64 { return telemetry.Flag(cp.redis.outlives()) }),
		counter("redis_refills_dropped_total", "Records that were not written to Redis because it was slow or away.", func() float64 { return float64(stats().RefillsDropped) }),
		gauge("audit_events_waiting", "Audit events that their webhooks have not delivered.", func() float64 { events, _ := cp.waiting(); return events }),
		gauge("audit_webhooks_inactive", "Enabled webhooks whose receivers do not take what they are sent.", func() float64 { _, inactive := cp.waiting(); return inactive }),
		counter("audit_webhook_failures_total", "Webhooks that became inactive.", func() float64 { return float64(audited().Turns) }),
		counter("audit_events_delivered_total", "Audit events that receivers of webhooks have taken.", func() float64 { return float64(audited().Delivered) }),
		counter("audit_events_given_up_total", "Audit events that receivers refuse while they take others.", func() float64 { return float64(audited().GivenUp) }),
		counter("audit_events_expired_total", "Audit events that had been kept for seven days without being delivered.", func() float64 { return float64(audited().Expired) }),
		counter("audit_events_crowded_out_total", "Audit events that were dropped undelivered because there were too many newer ones.", func() float64 { return float64(audited().Crowded) }),
		counter("audit_events_unreadable_total", "Audit events that cannot be read and were passed over.", func() float64 { return float64(audited().Unreadable) }),
		cp.ready.conditions.Collector(),
		sinkMetrics{cp},
		nodeMetrics{cp},
		newExpiries(cp),
	}
	if cp.backups != nil {
		list = append(list, gauge("backup_last_success_timestamp_seconds",
			"When the newest backup of the schedule was begun, in seconds of Unix time; 0 if there is none.",
			func() float64 { return telemetry.Unix(cp.backups.Last()) }))
	}
	return append(list, cp.meters.collectors()...)
}
