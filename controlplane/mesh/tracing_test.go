package mesh_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// TestCollectors: what the configuration of a valid backend means.
func TestCollectors(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		conf       map[string]any
		want       mesh.Collector
	}{
		{"zipkin", mesh.TracingZipkin, map[string]any{"url": "http://zipkin:9411/api/v2/spans"}, mesh.Collector{Host: "zipkin", Port: 9411, Path: "/api/v2/spans", APIVersion: mesh.ZipkinJSON}},
		{"zipkin with everything", mesh.TracingZipkin, map[string]any{"url": "https://[::1]:9411", "apiVersion": mesh.ZipkinProto, "traceId128bit": true, "sharedSpanContext": false},
			mesh.Collector{Host: "::1", Port: 9411, TLS: true, Path: "/", APIVersion: mesh.ZipkinProto, TraceID128: true, Apart: true}},
		{"datadog", mesh.TracingDatadog, map[string]any{"address": "agent_1", "port": "8126", "splitService": true}, mesh.Collector{Host: "agent_1", Port: 8126, Split: true}},
		{"gRPC", mesh.TracingOpenTelemetry, map[string]any{"endpoint": "[::1]:4317"}, mesh.Collector{Host: "::1", Port: 4317, GRPC: true}},
		{"gRPC by URL", mesh.TracingOpenTelemetry, map[string]any{"endpoint": "grpcs://otel:4317/"}, mesh.Collector{Host: "otel", Port: 4317, TLS: true, GRPC: true}},
		{"HTTP", mesh.TracingOpenTelemetry, map[string]any{"endpoint": "http://otel:4318"}, mesh.Collector{Host: "otel", Port: 4318, Path: "/v1/traces"}},
		{"HTTPS with a path", mesh.TracingOpenTelemetry, map[string]any{"endpoint": "https://otel:443/otlp"}, mesh.Collector{Host: "otel", Port: 443, TLS: true, Path: "/otlp"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, wrong := (&mesh.TracingBackend{Type: c.kind, Conf: c.conf}).Collector()
			c.want.Type = c.kind
			if diff := cmp.Diff(c.want, got); diff != "" || len(wrong) > 0 {
				t.Errorf("violations %v, collector (-want +got):\n%s", wrong, diff)
			}
		})
	}
}
