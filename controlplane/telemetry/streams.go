package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/xds/resource"
	xds "github.com/meshgate/meshgate/xds/server"
)

// typeNames are the types of resources in labels.
var typeNames = map[resource.TypeURL]string{
	resource.Cluster: "cluster", resource.Endpoint: "endpoint", resource.Listener: "listener",
	resource.Route: "route", resource.Secret: "secret",
}

// Streams counts what is sent to proxies, and measures planning. It implements the ADS
// server's Observer.
type Streams struct {
	connected                        prometheus.Counter
	pushed, acknowledged, rejected   *prometheus.CounterVec
	resources                        *prometheus.CounterVec
	pushedOf, acknowledgedOf, refuse map[resource.TypeURL]prometheus.Counter
	resourcesOf                      map[resource.TypeURL]prometheus.Counter
	planned                          prometheus.Histogram
}

// NewStreams returns the meter of an ADS server.
func NewStreams() *Streams {
	s := &Streams{
		connected: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "xds_connects_total", Help: "ADS streams that were opened by known proxies.",
		}),
		pushed:       counters("xds_pushes_total", "Responses sent to proxies, by type of resource.", "type"),
		resources:    counters("xds_pushed_resources_total", "Resources and removals in these responses.", "type"),
		acknowledged: counters("xds_acknowledgements_total", "Responses that proxies took.", "type"),
		rejected:     counters("xds_rejections_total", "Responses that proxies refused; the overview of a proxy has its words.", "type"),
		planned: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "plan_duration_seconds", Help: "Rounds of planning: from the changes of all scopes to what is published.", Buckets: workBuckets,
		}),
	}
	s.pushedOf, s.resourcesOf = byType(s.pushed), byType(s.resources)
	s.acknowledgedOf, s.refuse = byType(s.acknowledged), byType(s.rejected)
	return s
}

// byType makes the counter of each type in advance, so that it exists with 0 and an alert
// sees its first increase.
func byType(v *prometheus.CounterVec) map[resource.TypeURL]prometheus.Counter {
	out := map[resource.TypeURL]prometheus.Counter{}
	for url, name := range typeNames {
		out[url] = v.WithLabelValues(name)
	}
	return out
}

func add(m map[resource.TypeURL]prometheus.Counter, url resource.TypeURL, n int) {
	if c := m[url]; c != nil { // a proxy may ask for types that do not exist
		c.Add(float64(n))
	}
}

// Connected implements the ADS server's Observer.
func (s *Streams) Connected(xds.Event) { s.connected.Inc() }

// Sent implements the ADS server's Observer.
func (s *Streams) Sent(e xds.Event) {
	add(s.pushedOf, e.Type, 1)
	add(s.resourcesOf, e.Type, e.Resources)
}

// Acknowledged implements the ADS server's Observer.
func (s *Streams) Acknowledged(e xds.Event) { add(s.acknowledgedOf, e.Type, 1) }

// Rejected implements the ADS server's Observer.
func (s *Streams) Rejected(e xds.Event) { add(s.refuse, e.Type, 1) }

// Disconnected implements the ADS server's Observer.
func (s *Streams) Disconnected(xds.Event) {}

// Refused implements the ADS server's Observer. It does nothing, because refusals are
// counted by name elsewhere.
func (s *Streams) Refused(xds.Event) {}

// Planned is called for each round of planning.
func (s *Streams) Planned(took time.Duration) { s.planned.Observe(took.Seconds()) }

// Collectors lists the metrics.
func (s *Streams) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.connected, s.pushed, s.resources, s.acknowledged, s.rejected, s.planned}
}

var _ xds.Observer = (*Streams)(nil)
