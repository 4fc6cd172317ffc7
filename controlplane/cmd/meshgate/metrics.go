package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/meshgate/meshgate/xds/snapshot"
)

// metrics returns the registry of the diagnostics port. Values are read from
// the parts when they are scraped.
func (cp *controlPlane) metrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	gauge := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "meshgate", Name: name, Help: help}, value))
	}
	counter := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "meshgate", Name: name, Help: help}, value))
	}
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	stats := cp.revoker.Stats
	gauge("store_revision", "Newest revision of the store.", func() float64 { return float64(cp.store.Revision()) })
	gauge("xds_streams", "Open ADS streams.", func() float64 { return float64(cp.xds.Streams()) })
	gauge("xds_published_revision", "Newest revision whose configuration is in place in every scope.", func() float64 { return float64(cp.snapshots.Published()) })
	gauge("xds_proxies_waiting", "Proxies that have not acknowledged everything.", func() float64 { return float64(len(cp.snapshots.Progress(snapshot.Newest).Waiting)) })
	gauge("xds_proxies_rejecting", "Rejections of configuration that still stand.", func() float64 { return float64(len(cp.snapshots.Progress(snapshot.Newest).Rejected)) })
	gauge("plan_failures", "Resources that are left out or keep their last good version; the log names them.", func() float64 { return float64(len(cp.loop.Failures())) })
	gauge("links", "Open freshness links of filters.", func() float64 { return float64(stats().Links) })
	gauge("live_leases", "Filters that may answer from memory.", func() float64 { return float64(stats().LiveLeases) })
	counter("revocations_total", "Revocations published.", func() float64 { return float64(stats().Revocations) })
	counter("revocations_unconfirmed_total", "Revocations answered with 503.", func() float64 { return float64(stats().Unconfirmed) })
	counter("introspections_total", "Questions of filters about tokens.", func() float64 { return float64(stats().Introspections) })
	gauge("revocation_lag_seconds", "How long the latest revocation took to be effective everywhere.", func() float64 { return stats().Lag.Seconds() })
	gauge("revocations_pending", "Revocations that some filter may not know of when it reads Redis.", func() float64 { return float64(stats().Pending) })
	gauge("redis_trusted", "Whether filters are told to believe the second level of the token cache.", func() float64 { return flag(stats().Trusted) })
	gauge("redis_up", "Whether the second level is in order and written to.", func() float64 { return flag(stats().RedisUp) })
	gauge("ready", "Whether the process can do its work.", func() float64 { missing, _ := cp.ready.state(context.Background()); return flag(missing == "") })
	r.MustRegister(cp.ready.conditions.Collector())
	if cp.backups != nil {
		gauge("backup_last_success_timestamp_seconds", "When the newest backup of the schedule was begun, in seconds of Unix time; 0 if there is none.", func() float64 {
			if at := cp.backups.Last(); !at.IsZero() {
				return float64(at.Unix())
			}
			return 0
		})
	}
	r.MustRegister(nodeMetrics{cp})
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
