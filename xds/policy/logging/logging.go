package logging

import (
	"cmp"
	"errors"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	otelv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/open_telemetry/v3"
	otlpv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/logsink"
)

// These are the formats of backends that have none (mesh policy "TrafficLog").
const (
	DefaultHTTP = `[%START_TIME%] %MESH_NAME% "%REQ(:method)% %REQ(x-envoy-original-path?:path)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% ` +
		`%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(x-envoy-upstream-service-time)% "%REQ(x-forwarded-for)%" "%REQ(user-agent)%" ` +
		`"%REQ(x-b3-traceid?x-datadog-traceid)%" "%REQ(x-request-id)%" "%REQ(:authority)%" "%MESH_SOURCE_SERVICE%" "%MESH_DESTINATION_SERVICE%" ` +
		`"%MESH_SOURCE_ADDRESS_WITHOUT_PORT%" "%UPSTREAM_HOST%"`
	DefaultTCP = `[%START_TIME%] %RESPONSE_FLAGS% %MESH_NAME% %MESH_SOURCE_ADDRESS_WITHOUT_PORT%(%MESH_SOURCE_SERVICE%)->%UPSTREAM_HOST%(%MESH_DESTINATION_SERVICE%) ` +
		`took %DURATION%ms, sent %BYTES_SENT% bytes, received: %BYTES_RECEIVED% bytes`
)

const (
	// flushInterval and bufferSize (bytes) are how long lines wait in Envoy, and how many.
	// Envoy has a timer and a buffer for each logger and worker.
	flushInterval = 250 * time.Millisecond
	bufferSize    = 8 << 10
	// sendTimeout bounds how long lines that an agent does not take stay in Envoy's memory.
	sendTimeout = 2 * time.Second
)

// nobody is the service of a proxy that has none.
const nobody = "unknown"

// Lines says what is logged, and where to. It is comparable. The zero value logs nothing.
type Lines struct {
	Sink logsink.Sink
	// Format is one that [mesh.ParseLogFormat] accepts. If it is empty, the default one for the
	// protocol counts.
	Format string
}

// To returns the sink of a backend.
func To(s mesh.LogSink) logsink.Sink { return logsink.Sink{File: s.File, TCP: s.TCP} }

// Logged reports whether anything is logged.
func (l *Lines) Logged() bool { return l.Sink != logsink.Sink{} }

// Outbound makes the listener of an outbound log its requests or connections.
func (l *Lines) Outbound(d *draft.Outbound) error {
	log, err := l.logger(place{
		mesh: d.Mesh, source: cmp.Or(d.Source, nobody), destination: d.Service, direction: "OUTBOUND", http: d.HTTP != nil,
	})
	switch {
	case err != nil:
		return err
	case d.HTTP != nil:
		d.HTTP.AccessLog = append(d.HTTP.AccessLog, log)
	case d.TCP != nil:
		d.TCP.AccessLog = append(d.TCP.AccessLog, log)
	}
	return nil
}

// Contribute tells the agent of the sink.
func (l *Lines) Contribute(d *draft.Contribution) error {
	d.Clusters = append(d.Clusters, l.Sink.Describe())
	return nil
}

// place is what the placeholders of the mesh stand for at a listener.
type place struct {
	mesh, source, destination, direction string
	http                                 bool
}

func (l *Lines) logger(p place) (*accesslogv3.AccessLog, error) {
	format := l.Format
	if format == "" && p.http {
		format = DefaultHTTP
	} else if format == "" {
		format = DefaultTCP
	}
	pieces, wrong := mesh.ParseLogFormat(format)
	if wrong != "" {
		return nil, errors.New("the format of the access log " + wrong)
	}
	packed, err := draft.Pack(&otelv3.OpenTelemetryAccessLogConfig{
		GrpcService: &corev3.GrpcService{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: logsink.Cluster}},
			Timeout:         durationpb.New(sendTimeout),
		},
		LogName: logsink.LogName, DisableBuiltinLabels: true, ResourceAttributes: &otlpv1.KeyValueList{Values: []*otlpv1.KeyValue{
			{Key: logsink.Attribute, Value: text(l.Sink.Name())},
		}},
		Body:                p.body(pieces),
		BufferFlushInterval: durationpb.New(flushInterval), BufferSizeBytes: wrapperspb.UInt32(bufferSize),
	})
	if err != nil {
		return nil, err
	}
	return &accesslogv3.AccessLog{
		Name: "envoy.access_loggers.open_telemetry", ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed},
	}, nil
}

// body is a line for Envoy to format: its parts between the places where the agent puts the
// address of its proxy, which is in no listener ([logsink.Source]).
func (p place) body(pieces []mesh.LogPiece) *otlpv1.AnyValue {
	var parts []*otlpv1.AnyValue
	said := ""
	address := func(how string) {
		parts = append(parts, text(said), list(text(how)))
		said = ""
	}
	for _, piece := range pieces {
		switch piece.Placeholder {
		case "":
			said += piece.Text
		case mesh.LogMesh:
			said += draft.Literal(p.mesh)
		case mesh.LogSource:
			said += draft.Literal(p.source)
		case mesh.LogDestination:
			said += draft.Literal(p.destination)
		case mesh.LogTrafficDirection:
			said += p.direction
		case mesh.LogSourceAddress:
			address(logsink.AddressWithPort)
		case mesh.LogSourceHost:
			address(logsink.AddressAlone)
		}
	}
	if said != "" {
		parts = append(parts, text(said))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return list(parts...)
}

func text(s string) *otlpv1.AnyValue {
	return &otlpv1.AnyValue{Value: &otlpv1.AnyValue_StringValue{StringValue: s}}
}

func list(values ...*otlpv1.AnyValue) *otlpv1.AnyValue {
	return &otlpv1.AnyValue{Value: &otlpv1.AnyValue_ArrayValue{ArrayValue: &otlpv1.ArrayValue{Values: values}}}
}
