package logging

import (
	"errors"
	"fmt"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	otelv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/open_telemetry/v3"
	otlpv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/collector"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/logsink"
)

// Collector is a server that takes records in OTLP over gRPC, from Envoy itself. It is comparable.
type Collector struct{ collector.Server }

// CollectorAt reads the endpoint of a collector: host:port, or a URL with the scheme grpc or
// grpcs. wrong says what is wrong with it, and is empty if nothing is.
func CollectorAt(endpoint string) (c Collector, wrong string) {
	at, wrong := mesh.OTLPCollector(endpoint)
	switch {
	case wrong != "":
		return c, wrong
	case !at.GRPC:
		return c, "must be host:port, or a URL with the scheme grpc or grpcs"
	}
	return Collector{collector.Server{Host: at.Host, Port: at.Port, TLS: at.TLS, Roots: collector.Roots, GRPC: true, Resolved: true}}, ""
}

func (c Collector) cluster() string {
	name := "log-collector:"
	if c.TLS {
		name = "log-collector-tls:"
	}
	return draft.Marked(name + c.Authority())
}

// Contribute adds the cluster of the collector.
func (c Collector) Contribute(d *draft.Contribution) error {
	cluster, err := c.Cluster(c.cluster())
	if err != nil {
		return err
	}
	d.Clusters = append(d.Clusters, cluster)
	return nil
}

// CheckRecord says what is wrong with the format of a part of a record; the result is empty if
// nothing is. Envoy formats records, and it does not know the address of its Dataplane.
func CheckRecord(format string) string {
	pieces, wrong := mesh.ParseLogFormat(format)
	if wrong != "" {
		return wrong
	}
	for _, p := range pieces {
		if p.Placeholder == mesh.LogSourceAddress || p.Placeholder == mesh.LogSourceHost {
			return "must not have %" + p.Placeholder + "%, which only lines have; %UPSTREAM_LOCAL_ADDRESS% is the address from which a proxy calls"
		}
	}
	return ""
}

// maxBodyDepth bounds how many values may lie within each other in a body.
const maxBodyDepth = 8

// RecordBody reads the body of records: an AnyValue of OTLP in JSON, whose texts are formats. It
// returns nil if there is none.
func RecordBody(body []byte) (*otlpv1.AnyValue, error) {
	if len(body) == 0 {
		return nil, nil //nolint:nilnil // no body is a meaning: the default one
	}
	out := new(otlpv1.AnyValue)
	if err := protojson.Unmarshal(body, out); err != nil {
		return nil, errors.New("must be a value of OTLP, such as {\"stringValue\": \"...\"} or {\"kvlistValue\": {\"values\": [...]}}")
	}
	return out, checkBody(out, 0)
}

// CheckRecordBody says what is wrong with a body that is written. [RecordBody] reads also one with
// too many headers, which may have been stored before they were counted.
func CheckRecordBody(body []byte) error {
	v, err := RecordBody(body)
	if err == nil && headersOf(v) > mesh.MaxLogHeaders {
		err = fmt.Errorf("must not have more than %d headers in all", mesh.MaxLogHeaders)
	}
	return err
}

// headersOf counts the headers in a body.
func headersOf(v *otlpv1.AnyValue) int {
	n := mesh.LogHeaders(v.GetStringValue())
	for _, m := range v.GetKvlistValue().GetValues() {
		n += headersOf(m.GetValue())
	}
	for _, m := range v.GetArrayValue().GetValues() {
		n += headersOf(m)
	}
	return n
}

// checkBody refuses what Envoy's logger does not format.
func checkBody(v *otlpv1.AnyValue, depth int) error {
	if depth > maxBodyDepth {
		return fmt.Errorf("must not have more than %d values within each other", maxBodyDepth)
	}
	switch x := v.GetValue().(type) {
	case *otlpv1.AnyValue_StringValue:
		if wrong := CheckRecord(x.StringValue); wrong != "" {
			return errors.New(wrong)
		}
	case *otlpv1.AnyValue_KvlistValue:
		for _, m := range x.KvlistValue.GetValues() {
			if err := checkBody(m.GetValue(), depth+1); err != nil {
				return err
			}
		}
	case *otlpv1.AnyValue_ArrayValue:
		for _, m := range x.ArrayValue.GetValues() {
			if err := checkBody(m, depth+1); err != nil {
				return err
			}
		}
	default:
		return errors.New("must consist of stringValue, kvlistValue and arrayValue")
	}
	return nil
}

// ToCollector returns the logger that sends records to a collector, with a body of [RecordBody]
// and some attributes.
func (p Place) ToCollector(c Collector, body *otlpv1.AnyValue, attributes []Field) (*accesslogv3.AccessLog, error) {
	said, err := p.object(attributes)
	if err != nil {
		return nil, err
	}
	if body == nil {
		body = text(p.record())
	}
	if body, err = p.formatted(body); err != nil {
		return nil, err
	}
	return logger(&otelv3.OpenTelemetryAccessLogConfig{
		GrpcService: &corev3.GrpcService{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: c.cluster(), Authority: c.Authority()}},
			Timeout:         durationpb.New(collectorTimeout),
		},
		LogName: logsink.LogName, Body: body, Attributes: said.GetKvlistValue(),
	})
}

// record is the default line with the address from which the proxy calls.
func (p Place) record() string {
	return strings.ReplaceAll(p.standard(), "%MESH_SOURCE_ADDRESS_WITHOUT_PORT%", "%UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%")
}

// formatted returns a body with the placeholders of the mesh replaced.
func (p Place) formatted(v *otlpv1.AnyValue) (*otlpv1.AnyValue, error) {
	switch x := v.GetValue().(type) {
	case *otlpv1.AnyValue_KvlistValue:
		out := &otlpv1.KeyValueList{}
		for _, m := range x.KvlistValue.GetValues() {
			value, err := p.formatted(m.GetValue())
			if err != nil {
				return nil, err
			}
			out.Values = append(out.Values, &otlpv1.KeyValue{Key: m.GetKey(), Value: value})
		}
		return &otlpv1.AnyValue{Value: &otlpv1.AnyValue_KvlistValue{KvlistValue: out}}, nil
	case *otlpv1.AnyValue_ArrayValue:
		var out []*otlpv1.AnyValue
		for _, m := range x.ArrayValue.GetValues() {
			value, err := p.formatted(m)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
		return list(out...), nil
	}
	return p.line(v.GetStringValue())
}
