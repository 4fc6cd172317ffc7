package logging

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
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
	// collectorTimeout is the same for a collector, which may be far away.
	collectorTimeout = 5 * time.Second
)

// loggerName is the name of Envoy's logger.
const loggerName = "envoy.access_loggers.open_telemetry"

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
	log, err := AtOutbound(d).ToSink(l.Sink, l.Format, nil)
	if err != nil {
		return err
	}
	Outbound(d, log)
	return nil
}

// Outbound adds loggers to the listener of an outbound.
func Outbound(d *draft.Outbound, logs ...*accesslogv3.AccessLog) {
	if d.HTTP != nil {
		d.HTTP.AccessLog = with(d.HTTP.GetAccessLog(), logs)
	} else if d.TCP != nil {
		d.TCP.AccessLog = with(d.TCP.GetAccessLog(), logs)
	}
}

// Inbound adds loggers to the chains of an inbound.
func Inbound(d *draft.Inbound, logs ...*accesslogv3.AccessLog) {
	if d.HTTP != nil {
		d.HTTP.AccessLog = with(d.HTTP.GetAccessLog(), logs)
	} else if d.TCP != nil {
		d.TCP.AccessLog = with(d.TCP.GetAccessLog(), logs)
	}
}

// with returns loggers with some more. Those of policies are in one order, whichever policy was
// first.
func with(all, more []*accesslogv3.AccessLog) []*accesslogv3.AccessLog {
	all = slices.Concat(all, more)
	first := slices.IndexFunc(all, func(l *accesslogv3.AccessLog) bool { return l.GetName() == loggerName })
	if first < 0 {
		return all
	}
	slices.SortStableFunc(all[first:], func(a, b *accesslogv3.AccessLog) int {
		return bytes.Compare(a.GetTypedConfig().GetValue(), b.GetTypedConfig().GetValue())
	})
	return all
}

// Contribute tells the agent of the sink.
func (l *Lines) Contribute(d *draft.Contribution) error {
	d.Clusters = append(d.Clusters, l.Sink.Describe())
	return nil
}

// Place is a listener, with what the placeholders of the mesh stand for there.
type Place struct {
	mesh, source, destination string
	inbound, http             bool
}

// AtOutbound returns the place of an outbound.
func AtOutbound(d *draft.Outbound) Place {
	return Place{mesh: d.Mesh, source: cmp.Or(d.Source, nobody), destination: d.Service, http: d.HTTP != nil}
}

// AtInbound returns the place of an inbound. Nobody knows the service of a caller beforehand.
func AtInbound(d *draft.Inbound) Place {
	return Place{mesh: d.Mesh, source: nobody, destination: d.Service, inbound: true, http: d.HTTP != nil}
}

// Field is a member of a line of JSON.
type Field struct{ Key, Format string }

// ToSink returns the logger that sends lines to a sink. With fields they are objects of JSON.
// Otherwise they have a format that [mesh.ParseLogFormat] accepts, or the default one if it is
// empty.
func (p Place) ToSink(sink logsink.Sink, format string, fields []Field) (*accesslogv3.AccessLog, error) {
	var body *otlpv1.AnyValue
	var err error
	if len(fields) > 0 {
		body, err = p.object(fields)
	} else {
		body, err = p.line(cmp.Or(format, p.standard()))
	}
	if err != nil {
		return nil, err
	}
	return logger(&otelv3.OpenTelemetryAccessLogConfig{
		GrpcService: &corev3.GrpcService{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: logsink.Cluster}},
			Timeout:         durationpb.New(sendTimeout),
		},
		LogName: logsink.LogName, DisableBuiltinLabels: true, ResourceAttributes: &otlpv1.KeyValueList{Values: []*otlpv1.KeyValue{
			{Key: logsink.Attribute, Value: text(sink.Name())},
		}},
		Body:                body,
		BufferFlushInterval: durationpb.New(flushInterval), BufferSizeBytes: wrapperspb.UInt32(bufferSize),
	})
}

func logger(config *otelv3.OpenTelemetryAccessLogConfig) (*accesslogv3.AccessLog, error) {
	packed, err := draft.Pack(config)
	if err != nil {
		return nil, err
	}
	return &accesslogv3.AccessLog{
		Name: loggerName, ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed},
	}, nil
}

// standard is the format of those who give none.
func (p Place) standard() string {
	if p.http {
		return DefaultHTTP
	}
	return DefaultTCP
}

func (p Place) object(fields []Field) (*otlpv1.AnyValue, error) {
	out := &otlpv1.KeyValueList{}
	for _, f := range fields {
		value, err := p.line(f.Format)
		if err != nil {
			return nil, err
		}
		out.Values = append(out.Values, &otlpv1.KeyValue{Key: f.Key, Value: value})
	}
	return &otlpv1.AnyValue{Value: &otlpv1.AnyValue_KvlistValue{KvlistValue: out}}, nil
}

func (p Place) line(format string) (*otlpv1.AnyValue, error) {
	pieces, wrong := mesh.ParseLogFormat(format)
	if wrong != "" {
		return nil, errors.New("the format of the access log " + wrong)
	}
	return p.body(pieces), nil
}

// direction is as Envoy calls it.
func (p Place) direction() string {
	if p.inbound {
		return "INBOUND"
	}
	return "OUTBOUND"
}

// body is a line for Envoy to format: its parts between the places where the agent puts the
// address of its proxy, which is in no listener ([logsink.Source]).
func (p Place) body(pieces []mesh.LogPiece) *otlpv1.AnyValue {
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
			said += p.direction()
		case mesh.LogSourceAddress:
			if p.inbound { // the caller's, which Envoy knows
				said += "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%"
			} else {
				address(logsink.AddressWithPort)
			}
		case mesh.LogSourceHost:
			if p.inbound {
				said += "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%"
			} else {
				address(logsink.AddressAlone)
			}
		}
	}
	if said != "" || len(parts) == 0 {
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
