package inspect

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/retry"
	"github.com/meshgate/meshgate/xds/policy/timeout"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
)

// oneOfEach has one policy of each type, for everybody.
func oneOfEach(tb testing.TB) (out []string) {
	tb.Helper()
	const every, selectors = `"sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"*"}}]`, `"selectors":[{"match":{"mesh.io/service":"*"}}]`
	const target = `"spec":{"targetRef":{"kind":"Mesh"},`
	specs := map[string]string{
		"CircuitBreaker":        every + `,"conf":{"thresholds":{"maxConnections":1}}`,
		"FaultInjection":        `"sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"*","mesh.io/protocol":"http"}}],"conf":{"abort":{"percentage":1,"httpStatus":500}}`,
		"HealthCheck":           every + `,"conf":{"interval":"10s","timeout":"2s","unhealthyThreshold":3,"healthyThreshold":1}`,
		"MeshAccessLog":         target + `"from":[{"targetRef":{"kind":"Mesh"},"default":{"backends":[{"type":"File","file":{"path":"x.log"}}]}}]}`,
		"MeshTokenAuth":         target + `"from":[{"targetRef":{"kind":"Mesh"},"default":{"config":{"global_credentials":true}}}]}`,
		"MeshTrace":             target + `"default":{"backends":[{"openTelemetry":{"endpoint":"otel:4317"}}]}}`,
		"MeshTrafficPermission": target + `"from":[{"targetRef":{"kind":"Mesh"},"default":{"action":"Allow"}}]}`,
		"ProxyTemplate":         selectors + `,"conf":{"imports":["default-proxy"]}`,
		"RateLimit":             every + `,"conf":{"http":{"requests":5,"interval":"10s"}}`,
		"Retry":                 every + `,"conf":{"http":{"numRetries":2}}`,
		"Timeout":               every + `,"conf":{"connectTimeout":"1s"}`,
		"TrafficLog":            every,
		"TrafficPermission":     every,
		"TrafficRoute":          every + `,"conf":{"destination":{"mesh.io/service":"*"}}`,
		"TrafficTrace":          selectors,
	}
	for _, k := range all.Kinds() {
		kind := k.Document.Type
		if specs[kind] == "" {
			tb.Fatalf("there is no %s", kind)
		}
		out = append(out, `{"type":"`+kind+`","mesh":"demo","name":"all",`+specs[kind]+`}`)
	}
	return out
}

// crowd has 1,000 dataplanes of 50 services, each of which calls five others.
func crowd() map[string]*mesh.Networking {
	out := map[string]*mesh.Networking{}
	for i := range 1000 {
		n := serving(fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), fmt.Sprintf("s%d", i%50), mesh.ProtocolHTTP)
		for j := range 5 {
			n.Outbound = append(n.Outbound, mesh.Outbound{Port: uint32(10001 + j), Service: fmt.Sprintf("s%d", (i+j)%50)})
		}
		out[fmt.Sprintf("p%04d", i)] = n
	}
	return out
}

// BenchmarkPolicies asks about 1,000 dataplanes and one policy of each type: what is chosen for
// one dataplane, its rules, and the dataplanes for which one policy is chosen.
func BenchmarkPolicies(b *testing.B) {
	p := stored(b, mtls(""), crowd(), oneOfEach(b)...)
	// The planner of a mesh with connected proxies keeps its view; otherwise each question reads
	// the mesh anew.
	scope, err := p.Views.Mesh(b.Context(), "demo")
	if err != nil {
		b.Fatal(err)
	}
	defer scope.Release()
	for _, ask := range []struct {
		name  string
		about func(show func(any) error) error
	}{
		{"policies", func(show func(any) error) error { return p.Of(b.Context(), "demo", "p0500", false, show) }},
		{"explained", func(show func(any) error) error { return p.Of(b.Context(), "demo", "p0500", true, show) }},
		{"rules", func(show func(any) error) error { return p.Rules(b.Context(), "demo", "p0500", show) }},
		{"permitted", func(show func(any) error) error {
			return p.Chosen(b.Context(), trafficpermission.Kind, "demo", "all", show)
		}},
		{"timed", func(show func(any) error) error { return p.Chosen(b.Context(), timeout.Kind, "demo", "all", show) }},
		{"retried", func(show func(any) error) error { return p.Chosen(b.Context(), retry.Kind, "demo", "all", show) }},
	} {
		b.Run(ask.name, func(b *testing.B) {
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				if err := ask.about(func(doc any) error {
					text, err := json.Marshal(doc)
					size = len(text)
					return err
				}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}
