// Package tracing is what policies share that make proxies send spans: the listeners that do,
// the clusters of the collectors, and what spans say.
package tracing

import (
	"cmp"
	"slices"

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
	Sampling  Sampling
}

// Sampling says how many of the requests are traced that come without a decision, in per cent.
type Sampling struct {
	// Overall limits all of them. Client are those that demand it (x-client-trace-id), Random
	// are the others.
	Overall, Client, Random float64
}

// Upto returns the sampling that only has an overall limit; all requests are traced if there is
// none.
func Upto(overall *float64) Sampling {
	s := Sampling{100, 100, 100}
	if overall != nil {
		s.Overall = *overall
	}
	return s
}

// Traced reports whether there are any spans. Without any, the headers of traces pass
// unchanged.
func (s *Spans) Traced() bool { return s.Cluster != "" && s.Sampling.Overall > 0 }

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

// Outbound makes an HTTP outbound send spans, which have more tags than those of all spans.
func (s *Spans) Outbound(d *draft.Outbound, more ...*tagv3.CustomTag) (err error) {
	if d.HTTP == nil {
		return nil
	}
	service := cmp.Or(d.Source, nobody)
	d.HTTP.Tracing, err = s.traced(d.Mesh, service, d.Zone, service+"_OUTBOUND_"+d.Service, more)
	return err
}

// Inbound makes an HTTP inbound send spans. more is as in Outbound.
func (s *Spans) Inbound(d *draft.Inbound, more ...*tagv3.CustomTag) (err error) {
	if d.HTTP == nil {
		return nil
	}
	service := cmp.Or(d.Service, nobody)
	d.HTTP.Tracing, err = s.traced(d.Mesh, service, d.Zone, service+"_INBOUND", more)
	return err
}

// traced returns the tracing of a listener. A request has one span in each proxy: that of its
// client in the outbound, and that of its server in the inbound. Spans omit paths. split is the
// service in spans if the collector wants directions apart. Of two tags of one name, the one in
// more counts.
func (s *Spans) traced(meshName, service, zone, split string, more []*tagv3.CustomTag) (*hcmv3.HttpConnectionManager_Tracing, error) {
	provider, err := s.provider(service, split)
	if err != nil {
		return nil, err
	}
	t := &hcmv3.HttpConnectionManager_Tracing{
		OverallSampling: &typev3.Percent{Value: s.Sampling.Overall}, ClientSampling: &typev3.Percent{Value: s.Sampling.Client},
		RandomSampling: &typev3.Percent{Value: s.Sampling.Random}, SpawnUpstreamSpan: wrapperspb.Bool(false),
		Provider: provider, CustomTags: slices.Clone(more),
	}
	for _, own := range []*tagv3.CustomTag{collector.Literal(tagMesh, meshName), collector.Literal(tagService, service), collector.Literal(tagZone, zone)} {
		if own.GetLiteral().GetValue() != "" && !slices.ContainsFunc(more, func(o *tagv3.CustomTag) bool { return o.GetTag() == own.GetTag() }) {
			t.CustomTags = append(t.CustomTags, own)
		}
	}
	collector.WithoutPaths(t)
	return t, nil
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
