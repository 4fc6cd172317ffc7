// Package tracing is what policies share that make proxies send spans: the listeners that do,
// the clusters of the collectors, and what spans say.
package tracing

import (
	"cmp"

	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tagv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/collector"
	"github.com/meshgate/meshgate/xds/draft"
)

// These are the names of tags in every span.
const (
	tagMesh    = "mesh"
	tagService = "service"
	tagZone    = "zone"
)

// nobody is the service of a proxy that has none.
const nobody = "unknown"

// Spans says where the spans of a proxy go, and how many there are. It is comparable.
type Spans struct {
	// Cluster is the name of the collector's cluster.
	Cluster   string
	Collector mesh.Collector
	// Sampling is the percentage of requests that are traced, if they do not come with a
	// decision.
	Sampling float64
}

// Traced reports whether there are any spans. Without any, the headers of traces pass
// unchanged.
func (s *Spans) Traced() bool { return s.Cluster != "" && s.Sampling > 0 }

// Contribute adds the cluster of the collector.
func (s *Spans) Contribute(d *draft.Contribution) error {
	c, err := s.server().Cluster(s.Cluster)
	if err != nil {
		return err
	}
	d.Clusters = append(d.Clusters, c)
	return nil
}

func (s *Spans) server() collector.Server {
	c := &s.Collector
	return collector.Server{Host: c.Host, Port: c.Port, TLS: c.TLS, Roots: collector.Roots, GRPC: c.GRPC, Resolved: true}
}

// Outbound makes an HTTP outbound send spans.
func (s *Spans) Outbound(d *draft.Outbound) (err error) {
	if d.HTTP == nil {
		return nil
	}
	service := cmp.Or(d.Proxy.Service, nobody)
	d.HTTP.Tracing, err = s.traced(d.Mesh, draft.Proxy{Service: service, Zone: d.Proxy.Zone}, service+"_OUTBOUND_"+d.Service)
	return err
}

// Inbound makes an HTTP inbound send spans.
func (s *Spans) Inbound(d *draft.Inbound) (err error) {
	if d.HTTP == nil {
		return nil
	}
	service := cmp.Or(d.Service, nobody)
	d.HTTP.Tracing, err = s.traced(d.Mesh, draft.Proxy{Service: service, Zone: d.Zone}, service+"_INBOUND")
	return err
}

// traced returns the tracing of a listener. A request has one span in each proxy: that of its
// client in the outbound, and that of its server in the inbound. Spans omit paths, because a
// path may contain tokens and keys, especially in its query. split is the service in spans if
// the collector wants directions apart.
func (s *Spans) traced(meshName string, of draft.Proxy, split string) (*hcmv3.HttpConnectionManager_Tracing, error) {
	provider, err := s.provider(of.Service, split)
	if err != nil {
		return nil, err
	}
	t := &hcmv3.HttpConnectionManager_Tracing{
		OverallSampling:   &typev3.Percent{Value: s.Sampling},
		SpawnUpstreamSpan: wrapperspb.Bool(false), MaxPathTagLength: wrapperspb.UInt32(0), Provider: provider,
		CustomTags: []*tagv3.CustomTag{literal(tagMesh, meshName), literal(tagService, of.Service)},
	}
	if of.Zone != "" {
		t.CustomTags = append(t.CustomTags, literal(tagZone, of.Zone))
	}
	return t, nil
}

func literal(tag, value string) *tagv3.CustomTag {
	return &tagv3.CustomTag{Tag: tag, Type: &tagv3.CustomTag_Literal_{Literal: &tagv3.CustomTag_Literal{Value: value}}}
}

// provider returns the tracer for the type of the collector. That of Zipkin calls the service
// what the bootstrap calls it.
func (s *Spans) provider(service, split string) (*tracev3.Tracing_Http, error) {
	c := &s.Collector
	switch c.Type {
	case mesh.TracingZipkin:
		version := tracev3.ZipkinConfig_HTTP_JSON
		if c.APIVersion == mesh.ZipkinProto {
			version = tracev3.ZipkinConfig_HTTP_PROTO
		}
		return collector.Provider("envoy.tracers.zipkin", &tracev3.ZipkinConfig{
			CollectorCluster: s.Cluster, CollectorEndpoint: c.Path, CollectorHostname: s.server().Authority(), CollectorEndpointVersion: version,
			TraceId_128Bit: c.TraceID128, SharedSpanContext: wrapperspb.Bool(!c.Apart),
		})
	case mesh.TracingDatadog:
		if c.Split {
			service = split
		}
		return collector.Provider("envoy.tracers.datadog", &tracev3.DatadogConfig{
			CollectorCluster: s.Cluster, CollectorHostname: s.server().Authority(), ServiceName: service,
		})
	default:
		return s.server().OTLP(s.Cluster, service, c.Path)
	}
}
