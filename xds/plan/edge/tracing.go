package edge

import (
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/meshgate/meshgate/xds/collector"
)

// Tracing says where gateways send their spans, in OTLP over HTTP. The zero value disables
// tracing; the headers of a trace that a client began then pass unchanged.
type Tracing struct {
	// Collector is the server. An empty Host disables tracing.
	Collector Endpoint
	// TLS says that the collector uses TLS, with a certificate signed by an authority in
	// RootsFile.
	TLS bool
	// Path is the path of the requests.
	Path string
	// Sample is the percentage of requests that are traced. A client can use traceparent to
	// keep its own requests out, but not to have more of them traced.
	Sample float64
}

func (t Tracing) on() bool { return t.Collector.Host != "" }

const (
	// tracingCluster is the name of the cluster of the collector.
	tracingCluster = "tracing"
	// tracingService is the service name of gateways in traces.
	tracingService = "meshgate-gateway"
)

// collector returns the key of the collector's cluster.
func (t Tracing) collector(roots string) collectorKey {
	s := t.server()
	s.Roots = roots
	return collectorKey{tracingCluster, s}
}

func (t Tracing) server() collector.Server {
	return collector.Server{Host: t.Collector.Host, Port: t.Collector.Port, TLS: t.TLS}
}

// traced returns the tracing of a listener, or nil. Spans omit paths.
func (t Tracing) traced() (*hcmv3.HttpConnectionManager_Tracing, error) {
	if !t.on() {
		return nil, nil
	}
	provider, err := t.server().OTLP(tracingCluster, tracingService, t.Path)
	if err != nil {
		return nil, err
	}
	tracing := &hcmv3.HttpConnectionManager_Tracing{
		ClientSampling: &typev3.Percent{}, RandomSampling: &typev3.Percent{Value: t.Sample}, OverallSampling: &typev3.Percent{Value: 100},
		Provider: provider,
	}
	collector.WithoutPaths(tracing)
	return tracing, nil
}
