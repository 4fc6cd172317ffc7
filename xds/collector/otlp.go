package collector

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tagv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

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

// TagGRPCPath is the tag in which Envoy puts the whole :path of a request of gRPC. Any client
// can make its request one, with the content-type application/grpc.
const TagGRPCPath = "grpc.path"

// noPath is the value of the tag instead. Envoy sets no tag to an empty value.
const noPath = "-"

// WithoutPaths makes spans omit paths, because a path may contain tokens and keys, especially
// in its query. Envoy sets custom tags after those of the request, and of two custom tags of
// one name only the first (HttpTracerUtility::finalizeDownstreamSpan).
func WithoutPaths(t *hcmv3.HttpConnectionManager_Tracing) {
	t.MaxPathTagLength = wrapperspb.UInt32(0) // that of http.url
	t.CustomTags = append([]*tagv3.CustomTag{Literal(TagGRPCPath, noPath)}, t.CustomTags...)
}

// Literal is a tag with a fixed value, which must not be empty.
func Literal(tag, value string) *tagv3.CustomTag {
	return &tagv3.CustomTag{Tag: tag, Type: &tagv3.CustomTag_Literal_{Literal: &tagv3.CustomTag_Literal{Value: value}}}
}
