package authz

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// prefix begins the names, as Envoy's page has them of the dynamic module.
const prefix = "envoy_" + contract.FilterName + "_"

// figure is a number of the token cache.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*tokencache.Stats) float64
}

func counter(name, help string, of func(*tokencache.Stats) uint64) figure {
	return figure{desc(name+"_total", help), prometheus.CounterValue, func(s *tokencache.Stats) float64 { return float64(of(s)) }}
}

func gauge(name, help string, of func(*tokencache.Stats) float64) figure {
	return figure{desc(name, help), prometheus.GaugeValue, of}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var (
	allowedDesc = desc("allowed_total", "Requests that the authorization service let pass.")
	issuedDesc  = desc("issued_total", "Requests that it sent to the OAuth server.")
	refusedDesc = desc("refused_total", "Requests that it refused, by reason.", contract.MetaReason)

	figures = []figure{
		counter("cache_hits", "Look-ups that the memory answered with a record.", func(s *tokencache.Stats) uint64 { return s.Hits }),
		counter("cache_negative_hits", "Look-ups that the memory answered with unknown or expired.", func(s *tokencache.Stats) uint64 { return s.NegativeHits }),
		counter("cache_misses", "Look-ups that the memory could not answer.", func(s *tokencache.Stats) uint64 { return s.Misses }),
		counter("cache_bypassed", "Look-ups without a lease, which did not ask the memory.", func(s *tokencache.Stats) uint64 { return s.Bypassed }),
		counter("cache_evictions", "Records that left the memory for lack of room.", func(s *tokencache.Stats) uint64 { return s.Evictions }),
		counter("redis_hits", "Look-ups that Redis answered.", func(s *tokencache.Stats) uint64 { return s.L2Hits }),
		counter("redis_errors", "Reads of Redis that failed.", func(s *tokencache.Stats) uint64 { return s.L2Errors }),
		counter("redis_skipped", "Look-ups that did not ask Redis.", func(s *tokencache.Stats) uint64 { return s.L2Skipped }),
		counter("redis_untrusted", "Look-ups that could not use what Redis held.", func(s *tokencache.Stats) uint64 { return s.L2Untrusted }),
		counter("introspections", "Questions to the control plane.", func(s *tokencache.Stats) uint64 { return s.Introspections }),
		counter("introspection_errors", "Questions to the control plane without an answer in time.", func(s *tokencache.Stats) uint64 { return s.IntrospectionErrors }),
		counter("lookups_rejected", "Look-ups beyond the bounds.", func(s *tokencache.Stats) uint64 { return s.Rejected }),
		counter("stale_served", "Answers from memory in the grace time.", func(s *tokencache.Stats) uint64 { return s.StaleServed }),
		gauge("linked", "Whether the link to the control plane is open.", func(s *tokencache.Stats) float64 { return flag(s.Linked) }),
		gauge("leased", "Whether the memory may answer.", func(s *tokencache.Stats) float64 { return flag(s.Leased) }),
		gauge("lease_age_milliseconds", "Time since the latest lease was asked for.", func(s *tokencache.Stats) float64 { return float64(max(s.LeaseAge.Milliseconds(), 0)) }),
	}
)

// Describe implements prometheus.Collector.
func (s *Service) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{allowedDesc, issuedDesc, refusedDesc} {
		c <- d
	}
	for _, f := range figures {
		c <- f.desc
	}
}

// Collect implements prometheus.Collector. A service that is not open has no metrics.
func (s *Service) Collect(c chan<- prometheus.Metric) {
	server := s.server.Load()
	if server == nil {
		return
	}
	d := server.Decisions()
	c <- prometheus.MustNewConstMetric(allowedDesc, prometheus.CounterValue, float64(d.Allowed))
	c <- prometheus.MustNewConstMetric(issuedDesc, prometheus.CounterValue, float64(d.Issued))
	for reason, n := range d.Refused {
		c <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(n), string(reason))
	}
	server.EachStats(func(t *tokencache.Stats) {
		for _, f := range figures {
			c <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(t))
		}
	})
}
