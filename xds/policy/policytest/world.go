package policytest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// backends are tracing backends of each type.
func backends() *mesh.Tracing {
	backend := func(name, kind string, sampling *float64, conf map[string]any) mesh.TracingBackend {
		return mesh.TracingBackend{Name: name, Type: kind, Sampling: sampling, Conf: conf}
	}
	return &mesh.Tracing{DefaultBackend: "zipkin", Backends: []mesh.TracingBackend{
		backend("zipkin", mesh.TracingZipkin, nil, map[string]any{"url": "http://zipkin.example:9411/api/v2/spans"}),
		backend("proto", mesh.TracingZipkin, new(12.5), map[string]any{
			"url": "https://[::1]:9411", "apiVersion": mesh.ZipkinProto, "traceId128bit": true, "sharedSpanContext": false,
		}),
		backend("v1", mesh.TracingZipkin, nil, map[string]any{"url": "http://zipkin.example:9411/api/v1/spans", "apiVersion": mesh.ZipkinJSONV1}),
		backend("off", mesh.TracingZipkin, new(0.0), map[string]any{"url": "http://zipkin.example:9411/api/v2/spans"}),
		backend("datadog", mesh.TracingDatadog, nil, map[string]any{"address": "127.0.0.1", "port": float64(8126), "splitService": true}),
		backend("otlp", mesh.TracingOpenTelemetry, nil, map[string]any{"endpoint": "otel.example:4317"}),
		backend("otlp-https", mesh.TracingOpenTelemetry, nil, map[string]any{"endpoint": "https://otel.example:4318"}),
	}}
}

// sinks are logging backends of each type.
func sinks() *mesh.Logging {
	return &mesh.Logging{DefaultBackend: "file", Backends: []mesh.LoggingBackend{
		{Name: "file", Type: mesh.LoggingFile, Conf: map[string]any{"path": "/logs/mesh.log"}},
		{
			Name: "tcp", Type: mesh.LoggingTCP, Conf: map[string]any{"address": "192.0.2.1:5000"},
			Format: `100%% %REQ(x-user?user-agent):32% %MESH_NAME% %MESH_SOURCE_SERVICE%->%MESH_DESTINATION_SERVICE% ` +
				`%MESH_SOURCE_ADDRESS% %MESH_SOURCE_ADDRESS_WITHOUT_PORT% %MESH_TRAFFIC_DIRECTION%`,
		},
	}}
}

// contributed returns what a policy adds to a proxy, by type and name.
func contributed(t *testing.T, p *policy.Policy, s *policy.Selection) map[string]json.RawMessage {
	t.Helper()
	out := map[string]json.RawMessage{}
	all, err := contributions(p, s)
	if err != nil {
		t.Error(err)
	}
	for _, n := range all {
		what := map[resource.TypeURL]string{resource.Cluster: "cluster", resource.Listener: "listener", resource.Secret: "secret"}[n.t]
		out[what+" "+n.m.GetName()] = body(t, n.m)
	}
	return out
}

// FreezeContributions makes resources from what a policy adds to a proxy.
func FreezeContributions(p *policy.Policy, s *policy.Selection) error {
	_, err := contributions(p, s)
	return err
}

// contributions returns what a policy adds. The error says also what of it does not freeze.
func contributions(p *policy.Policy, s *policy.Selection) (all []named, err error) {
	d := &draft.Contribution{Mesh: meshName}
	for _, edit := range []func(*draft.Contribution, *policy.Selection) error{p.Contribute, p.Add} {
		if edit != nil {
			err = errors.Join(err, edit(d, s))
		}
	}
	for _, c := range d.Clusters {
		all = append(all, named{resource.Cluster, c})
	}
	for _, l := range d.Listeners {
		all = append(all, named{resource.Listener, l})
	}
	for _, x := range d.Secrets {
		all = append(all, named{resource.Secret, x})
	}
	for _, n := range all {
		_, failed := plan.Freeze(n.t, n.m.GetName(), n.m)
		err = errors.Join(err, failed)
	}
	return all, err
}
