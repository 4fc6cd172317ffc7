package edge

import (
	"net"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/xds/plan"
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
	tracingTimeout = 5 * time.Second
	// tracingService is the service name of gateways in traces.
	tracingService = "meshgate-gateway"
)

// collector returns the key of the collector's cluster.
func (t Tracing) collector(roots string) collectorKey {
	return collectorKey{name: tracingCluster, host: t.Collector.Host, port: t.Collector.Port, tls: t.TLS, roots: roots}
}

// traced returns the tracing of a listener, or nil. Spans omit paths, because a path may
// contain tokens and keys, especially in its query.
func (t Tracing) traced() (*hcmv3.HttpConnectionManager_Tracing, error) {
	if !t.on() {
		return nil, nil
	}
	scheme := "http://"
	if t.TLS {
		scheme = "https://"
	}
	provider, err := plan.Pack(&tracev3.OpenTelemetryConfig{
		ServiceName: tracingService,
		HttpService: &corev3.HttpService{HttpUri: &corev3.HttpUri{
			Uri:              scheme + net.JoinHostPort(unbracket(t.Collector.Host), strconv.FormatUint(uint64(t.Collector.Port), 10)) + t.Path,
			Timeout:          durationpb.New(tracingTimeout),
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: tracingCluster},
		}},
	})
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpConnectionManager_Tracing{
		ClientSampling: &typev3.Percent{}, RandomSampling: &typev3.Percent{Value: t.Sample}, OverallSampling: &typev3.Percent{Value: 100},
		MaxPathTagLength: wrapperspb.UInt32(0),
		Provider: &tracev3.Tracing_Http{
			Name: "envoy.tracers.opentelemetry", ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: provider},
		},
	}, nil
}
