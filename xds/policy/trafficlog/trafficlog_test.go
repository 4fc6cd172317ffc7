package trafficlog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

func TestGolden(t *testing.T) { policytest.Golden(t, Policy) }

const everybody = `"sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"*"}}]`

// TestValidate checks the violations against the texts of the mesh API.
func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		want         []string
	}{
		{"valid", everybody + `,"conf":{"backend":"one that may come later"}`, nil},
		{"no conf", everybody, nil},
		{"nothing", `"conf":{}`, []string{`sources: must have at least one element`, `destinations: must have at least one element`}},
		{"more than a service", `"sources":[{"match":{"mesh.io/service":"*","v":"1"}}],"destinations":[{"match":{"mesh.io/service":"*","v":"1"}}]`, []string{
			`destinations[0].match: must consist of exactly one tag "mesh.io/service"`, `destinations[0].match["v"]: tag "v" is not allowed`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, spec := policytest.Decode(t, Kind, []byte(`{"type":"TrafficLog","mesh":"demo","name":"x",`+c.fields+`}`))
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
	s := &policy.Selection{Policies: policytest.Resource(t, Kind, []byte(`{"type":"TrafficLog","mesh":"demo","name":"x",`+everybody+`,"conf":`+conf+`}`))}
	s.Facts = facts(policy.World{Mesh: m}, s.Policies)
	return s
}

// TestBackendThatCannotBeUsed: proxies log nothing, go on with everything else, and the reason is
// shown. Such a backend may have been stored before it was refused.
func TestBackendThatCannotBeUsed(t *testing.T) {
	one := func(b mesh.LoggingBackend) *mesh.Mesh {
		b.Name = "one"
		return &mesh.Mesh{Logging: &mesh.Logging{Backends: []mesh.LoggingBackend{b}}}
	}
	file := map[string]any{"path": "/logs/a.log"}
	for _, c := range []struct {
		name, backend, problem string
		mesh                   *mesh.Mesh
	}{
		{"no mesh", "one", `no logging backend "one"`, nil},
		{"no default", "", "no default logging backend", one(mesh.LoggingBackend{Type: mesh.LoggingFile, Conf: file})},
		{"another one", "two", `no logging backend "two"`, one(mesh.LoggingBackend{Type: mesh.LoggingFile, Conf: file})},
		{"type", "one", `cannot be used (type: unknown backend type`, one(mesh.LoggingBackend{Type: "x"})},
		{"path", "one", `cannot be used (config.path: cannot be empty)`, one(mesh.LoggingBackend{Type: mesh.LoggingFile})},
		{"format", "one", `%FILE_CONTENT% is no operator`, one(mesh.LoggingBackend{Type: mesh.LoggingFile, Conf: file, Format: "%FILE_CONTENT(/etc/passwd)%"})},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := selected(t, c.backend, c.mesh)
			if got := s.Facts.(policy.Problematic).Problem(); !strings.Contains(got, c.problem) || !strings.HasSuffix(got, ": nothing is logged") {
				t.Errorf("problem is %q, want %q", got, c.problem)
			}
			d := policytest.NewDrafts(mesh.ProtocolHTTP, true)
			if err := d.Apply(Policy, s); err != nil || len(d.Outbound.HTTP.GetAccessLog()) > 0 {
				t.Errorf("something is logged: %v", err)
			}
		})
	}
}

// TestFactsAreEqualUntilTheBackendChanges: facts are parts of keys, so equal ones must compare
// equal, and other backends play no part.
func TestFactsAreEqualUntilTheBackendChanges(t *testing.T) {
	first, other := policytest.Mesh(), policytest.Mesh()
	other.Logging.Backends[1].Conf["address"] = "192.0.2.9:1"
	if selected(t, "", first).Facts != selected(t, "file", other).Facts {
		t.Error("the same backend makes other facts")
	}
	if selected(t, "tcp", first).Facts == selected(t, "tcp", other).Facts {
		t.Error("another address makes the same facts")
	}
}
