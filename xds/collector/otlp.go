package collector

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/xds/plan"
)

// OTLP returns the provider of traces that sends the spans of a service to the server, in OTLP:
// over gRPC or, to a path, over HTTP. The cluster is that of the server.
func (s Server) OTLP(cluster, service, path string) (*tracev3.Tracing_Http, error) {
	config := &tracev3.OpenTelemetryConfig{ServiceName: service}
	if s.GRPC {
		config.GrpcService = &corev3.GrpcService{
			Timeout: durationpb.New(connectTimeout),
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
				ClusterName: cluster, Authority: s.Authority(),
			}},
		}
	} else {
		config.HttpService = &corev3.HttpService{HttpUri: &corev3.HttpUri{
			Uri: s.URL(path), Timeout: durationpb.New(connectTimeout), HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster},
		}}
	}
	return Provider("envoy.tracers.opentelemetry", config)
}

// Provider returns a provider of traces.
func Provider(name string, config proto.Message) (*tracev3.Tracing_Http, error) {
	packed, err := plan.Pack(config)
	if err != nil {
		return nil, err
	}
	return &tracev3.Tracing_Http{Name: name, ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: packed}}, nil
}
