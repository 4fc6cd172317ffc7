package traffictrace

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

func TestGolden(t *testing.T) { policytest.Golden(t, Policy) }

// TestValidate checks the violations against the texts of the mesh API.
func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		want         []string
	}{
		{"valid", `"selectors":[{"match":{"version":"v1"}}],"conf":{"backend":"one that may come later"}`, nil},
		{"no conf", `"selectors":[{"match":{"mesh.io/service":"*"}}]`, nil},
		{"no selectors", `"conf":{}`, []string{`selectors: must have at least one element`}},
		{"no tags", `"selectors":[{},{"match":{"a":""}}]`, []string{`selectors[0].match: must have at least one tag`, `selectors[1].match["a"]: tag value must be non-empty`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, spec := policytest.Decode(t, Kind, []byte(`{"type":"TrafficTrace","mesh":"demo","name":"x",`+c.fields+`}`))
			var got []string
			for _, v := range Kind.Document.Validate(spec) {
				got = append(got, v.Path+": "+v.Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// selected returns the selection of a policy that names a backend, or none if it is empty.
func selected(t *testing.T, backend string, m *mesh.Mesh) *policy.Selection {
	t.Helper()
	conf := `{"backend":"` + backend + `"}`
	if backend == "" {
		conf = `{}`
	}
	text := `{"type":"TrafficTrace","mesh":"demo","name":"x","selectors":[{"match":{"mesh.io/service":"*"}}],"conf":` + conf + `}`
	s := &policy.Selection{Policies: policytest.Resource(t, Kind, []byte(text))}
	s.Facts = facts(policy.World{Mesh: m}, s.Policies)
	return s
}

// TestBackendThatCannotBeUsed: proxies send no spans, go on with everything else, and the
// reason is shown. Such a backend may have been stored before it was refused.
func TestBackendThatCannotBeUsed(t *testing.T) {
	one := func(b mesh.TracingBackend) *mesh.Mesh {
		b.Name = "one"
		return &mesh.Mesh{Tracing: &mesh.Tracing{Backends: []mesh.TracingBackend{b}}}
	}
	for _, c := range []struct {
		name, backend, problem string
		mesh                   *mesh.Mesh
	}{
		{"no mesh", "one", `no tracing backend "one"`, nil},
		{"no backends", "one", `no tracing backend "one"`, &mesh.Mesh{}},
		{"no default", "", "no default tracing backend", one(mesh.TracingBackend{Type: mesh.TracingZipkin})},
		{"another one", "two", `no tracing backend "two"`, one(mesh.TracingBackend{Type: mesh.TracingZipkin})},
		{"type", "one", `cannot be used (type: unknown backend type`, one(mesh.TracingBackend{Type: "x"})},
		{"URL", "one", `cannot be used (config.url: invalid URL)`, one(mesh.TracingBackend{Type: mesh.TracingZipkin, Conf: map[string]any{"url": "ftp://a:1"}})},
		{"version", "one", "which Envoy no longer speaks", one(mesh.TracingBackend{Type: mesh.TracingZipkin, Conf: map[string]any{"url": "http://a:1", "apiVersion": "httpJsonV1"}})},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := selected(t, c.backend, c.mesh)
			if got := s.Facts.(policy.Problematic).Problem(); !strings.Contains(got, c.problem) || !strings.HasSuffix(got, ": nothing is traced") {
				t.Errorf("problem is %q, want %q", got, c.problem)
			}
			d := policytest.NewDrafts(mesh.ProtocolHTTP, true)
			if err := d.Apply(Policy, s); err != nil || d.Inbound.HTTP.GetTracing() != nil || d.Outbound.HTTP.GetTracing() != nil {
				t.Errorf("spans are sent: %v", err)
			}
		})
	}
}

// TestFactsAreEqualUntilTheBackendChanges: facts are parts of keys, so equal ones must compare
// equal, and other backends play no part.
func TestFactsAreEqualUntilTheBackendChanges(t *testing.T) {
	first, other := policytest.Mesh(), policytest.Mesh()
	other.Tracing.Backends[1].Conf["url"] = "http://other:1"
	if selected(t, "", first).Facts != selected(t, "zipkin", other).Facts {
		t.Error("the same backend makes other facts")
	}
	if selected(t, "proto", first).Facts == selected(t, "proto", other).Facts {
		t.Error("another URL makes the same facts")
	}
}
