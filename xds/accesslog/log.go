package accesslog

import (
	"cmp"
	"fmt"
	"sync/atomic"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	otelv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/open_telemetry/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	queryv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/formatter/req_without_query/v3"
	otlpv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan"
)

// Name is what collectors know the log by.
const Name = "meshgate.access"

// Cluster is the cluster in which gateways reach the collector.
const Cluster = "otlp"

// Settings say what is logged. Where it is written is for the proxy to say, whose agent
// puts its file in the place of standard output (package machine). They compare.
type Settings struct {
	Enabled bool
	// Format is one that [Parse] accepts; empty is [Default].
	Format string
	// Drop is how many of a million successful requests (2xx) are not logged.
	Drop uint32
	// Collector is the URL of an OTLP collector that gets the log, too; empty: none.
	Collector string
}

// latest is the format that was read last. A program has one, and every listener asks
// for it.
var latest atomic.Pointer[struct {
	text   string
	format *Format
}]

// format is the format of the settings.
func (s Settings) format() (*Format, error) {
	text := cmp.Or(s.Format, Default)
	if l := latest.Load(); l != nil && l.text == text {
		return l.format, nil
	}
	f, err := Parse(text)
	if err != nil {
		return nil, err
	}
	latest.Store(&struct {
		text   string
		format *Format
	}{text, f})
	return f, nil
}

// Loggers are the loggers of a listener of a gateway that has the filter in some way; none
// where nothing is logged.
func Loggers(s Settings, m contract.Mode) ([]*accesslogv3.AccessLog, error) {
	if !s.Enabled {
		return nil, nil
	}
	f, err := s.format()
	if err != nil {
		return nil, fmt.Errorf("the format of the access log %w", err)
	}
	var out []*accesslogv3.AccessLog
	for e := range numEndings {
		fields := f.fieldsOf(e, m)
		makers := []func(map[string]any) (string, proto.Message, error){stdout}
		if s.Collector != "" {
			makers = append(makers, collector)
		}
		for _, make := range makers {
			name, config, err := make(fields)
			if err != nil {
				return nil, err
			}
			logger, err := loggerOf(name, config, filter(e, m, s.Drop))
			if err != nil {
				return nil, err
			}
			out = append(out, logger)
		}
	}
	return out, nil
}

func loggerOf(name string, config proto.Message, only *accesslogv3.AccessLogFilter) (*accesslogv3.AccessLog, error) {
	packed, err := plan.Pack(config)
	if err != nil {
		return nil, err
	}
	return &accesslogv3.AccessLog{Name: name, Filter: only, ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed}}, nil
}

// formatters are the operators beyond Envoy's own.
func formatters() ([]*corev3.TypedExtensionConfig, error) {
	packed, err := plan.Pack(&queryv3.ReqWithoutQuery{})
	if err != nil {
		return nil, err
	}
	return []*corev3.TypedExtensionConfig{{Name: "envoy.formatter.req_without_query", TypedConfig: packed}}, nil
}

// stdout writes lines of JSON.
func stdout(fields map[string]any) (string, proto.Message, error) {
	more, err := formatters()
	if err != nil {
		return "", nil, err
	}
	return lines(fields, more...)
}

// lines writes lines of JSON with Envoy's own operators and some more.
func lines(fields map[string]any, more ...*corev3.TypedExtensionConfig) (string, proto.Message, error) {
	object, err := structpb.NewStruct(fields)
	if err != nil {
		return "", nil, fmt.Errorf("format of the access log: %w", err)
	}
	format := &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: object}, Formatters: more}
	return "envoy.access_loggers.stdout", &streamv3.StdoutAccessLog{
		AccessLogFormat: &streamv3.StdoutAccessLog_LogFormat{LogFormat: format},
	}, nil
}

// collector sends the fields as attributes.
func collector(fields map[string]any) (string, proto.Message, error) {
	more, err := formatters()
	if err != nil {
		return "", nil, err
	}
	return "envoy.access_loggers.open_telemetry", &otelv3.OpenTelemetryAccessLogConfig{
		LogName: Name, Attributes: attributes(fields), Formatters: more,
		GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: Cluster},
		}},
	}, nil
}

// attributes are fields in the form of a collector, in the order of their names.
func attributes(fields map[string]any) *otlpv1.KeyValueList {
	out := &otlpv1.KeyValueList{}
	for _, name := range sorted(fields) {
		value := &otlpv1.AnyValue{}
		if inner, ok := fields[name].(map[string]any); ok {
			value.Value = &otlpv1.AnyValue_KvlistValue{KvlistValue: attributes(inner)}
		} else {
			text, _ := fields[name].(string)
			value.Value = &otlpv1.AnyValue_StringValue{StringValue: text}
		}
		out.Values = append(out.Values, &otlpv1.KeyValue{Key: name, Value: value})
	}
	return out
}
