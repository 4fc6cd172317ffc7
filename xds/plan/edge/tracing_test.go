package edge

import (
	"strings"
	"testing"
)

// TestTracing sends spans where it is configured to, without paths, and nowhere else. If a
// collector cannot be reached safely, only the spans are lost.
func TestTracing(t *testing.T) {
	w := loadWorld(t, "testdata/basic.in.yaml")
	for name, test := range map[string]struct {
		tracing         Tracing
		roots           string
		traced, cluster bool
		failed          string
		want            []string
	}{
		"none": {},
		"plain": {tracing: Tracing{Collector: Endpoint{Host: "127.0.0.1", Port: 4318}, Path: "/v1/traces", Sample: 2.5}, traced: true, cluster: true,
			want: []string{"uri: http://127.0.0.1:4318/v1/traces", "max_path_tag_length: 0", "value: 2.5", "service_name: meshgate-gateway"}},
		"TLS": {tracing: Tracing{Collector: Endpoint{Host: "collector.example", Port: 443}, TLS: true, Path: "/otlp"}, roots: testParams.RootsFile, traced: true, cluster: true,
			want: []string{"uri: https://collector.example:443/otlp", "exact: collector.example"}},
		"IPv6": {tracing: Tracing{Collector: Endpoint{Host: "::1", Port: 4318}, Path: "/"}, traced: true, cluster: true,
			want: []string{"uri: http://[::1]:4318/"}},
		"TLS without authorities": {tracing: Tracing{Collector: Endpoint{Host: "collector.example", Port: 443}, TLS: true, Path: "/"}, traced: true,
			failed: "cluster tracing: the collector cannot be verified"},
	} {
		t.Run(name, func(t *testing.T) {
			params := testParams
			params.Tracing, params.RootsFile = test.tracing, test.roots
			result := NewPlanner(params).Plan(w.state())
			text := string(render(t, result))
			if got := strings.Contains(text, "envoy.tracers.opentelemetry"); got != test.traced {
				t.Errorf("traced: %t", got)
			}
			if got := strings.Contains(text, "name: tracing\n"); got != test.cluster {
				t.Errorf("a cluster of the collector: %t", got)
			}
			for _, want := range append(test.want, test.failed) {
				if !strings.Contains(text, want) {
					t.Errorf("no %q", want)
				}
			}
			if test.failed == "" {
				validate(t, result.Set)
			}
		})
	}
}
