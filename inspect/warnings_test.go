package inspect

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// mtls returns a mesh with mutual TLS.
func mtls(mode string) *mesh.Mesh {
	return &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Mode: mode}}}}
}

// TestWarnings: a warning that was given when a policy was written is shown as long as it
// applies. Inbounds that refuse everybody because no permission is chosen are shown, too.
func TestWarnings(t *testing.T) {
	const policies = `{"type":"TrafficRoute","mesh":"demo","name":"elsewhere","warnings":["mesh.io/service=spare: no inbound of the mesh has this, so what is led here is not served"]},
		{"type":"Retry","mesh":"demo","name":"spare","warnings":["mesh.io/service=spare: no inbound of the mesh serves this and no outbound names it, so the policy is in force nowhere by it"]}`
	for _, test := range []struct {
		name  string
		mesh  *mesh.Mesh
		lacks string
	}{
		{"without mutual TLS", &mesh.Mesh{}, ""},
		{"strict", mtls(""), "no TrafficPermission is chosen, so everybody is refused"},
		{"permissive", mtls(mesh.ModePermissive), "no TrafficPermission is chosen, so every caller is refused that comes with a certificate of the mesh"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := chosenIn(t, test.mesh)
			got := shown(t, func(show func(any) error) error { return p.Warnings(t.Context(), "demo", show) }).(map[string]any)
			byType := map[string]any{}
			for _, item := range got["items"].([]any) {
				byType[item.(map[string]any)["type"].(string)] = item
			}
			want := map[string]any{}
			for _, item := range parsed(t, "["+policies+"]").([]any) {
				want[item.(map[string]any)["type"].(string)] = item
			}
			if test.lacks != "" {
				want["TrafficPermission"] = map[string]any{"type": "TrafficPermission", "mesh": "demo", "warnings": []any{
					"mesh.io/protocol=http,mesh.io/service=web (1 inbounds): " + test.lacks,
				}, "refusing": []any{"mesh.io/protocol=http,mesh.io/service=web (1 inbounds): " + test.lacks}}
			}
			if diff := cmp.Diff(want, byType); diff != "" || got["total"] != float64(len(want)) {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			of := shown(t, func(show func(any) error) error { return p.Of(t.Context(), "demo", "web-1", false, show) }).(map[string]any)
			var wanted any
			if test.lacks != "" {
				wanted = []any{"inbound 8080 of web: " + test.lacks}
			}
			if diff := cmp.Diff(wanted, of["warnings"]); diff != "" {
				t.Errorf("the policies of the proxy (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRefusing: an inbound refuses everybody if no permission is chosen for it, and also if the
// chosen one names no caller that exists, even if a worse one would admit everybody.
func TestRefusing(t *testing.T) {
	const inbound = "mesh.io/service=web (1 inbounds): "
	const barred = inbound + "this is chosen, and no proxy of the mesh is among its sources, so everybody is refused"
	permission := func(name, from, to string) string {
		return `{"type":"TrafficPermission","mesh":"demo","name":"` + name + `","sources":` + from + `,"destinations":[{"match":{"mesh.io/service":"` + to + `"}}]}`
	}
	permits := func(name, to, from, action string) string {
		at := `{"kind":"Mesh"}`
		if to != "" {
			at = `{"kind":"MeshService","name":"` + to + `"}`
		}
		return `{"type":"MeshTrafficPermission","mesh":"demo","name":"` + name + `","spec":{"targetRef":` + at + `,"from":[{"targetRef":{"kind":"MeshService","name":"` + from + `"},"default":{"action":"` + action + `"}}]}}`
	}
	const nobody, gateway, everybody = `[{"match":{"mesh.io/service":"egde"}}]`, `[{"match":{"mesh.io/service":"edge"}}]`, `[{"match":{"mesh.io/service":"*"}}]`
	for _, test := range []struct {
		name     string
		policies []string
		want     map[string][]string
	}{
		{"none", nil, map[string][]string{"": {inbound + "no TrafficPermission is chosen, so everybody is refused"}}},
		{"one from nobody", []string{permission("a", nobody, "web")}, map[string][]string{"a": {barred}}},
		{"a better one from nobody", []string{permission("a", nobody, "web"), permission("b", everybody, "*")}, map[string][]string{"a": {barred}}},
		{"one from a proxy", []string{permission("a", gateway, "web")}, map[string][]string{}},
		{"one from nobody and a proxy", []string{permission("a", `[{"match":{"mesh.io/service":"egde"}},{"match":{"mesh.io/service":"edge"}}]`, "web")}, map[string][]string{}},
		{"one from tags that two proxies have", []string{permission("a", `[{"match":{"mesh.io/service":"edge","zone":"1"}}]`, "web")}, map[string][]string{"a": {barred}}},
		{"one from everybody", []string{permission("a", everybody, "*")}, map[string][]string{}},
		{"a target that admits nobody", []string{permission("a", everybody, "*"), permits("m", "web", "edge", "Deny")}, map[string][]string{
			"m": {inbound + "this is chosen, and admits no proxy of the mesh, so everybody is refused"},
		}},
		{"a target that admits a proxy that does not exist", []string{permits("m", "web", "egde", "Allow")}, map[string][]string{
			"m": {inbound + "this is chosen, and admits no proxy of the mesh, so everybody is refused"},
		}},
		{"a target that admits a proxy", []string{permission("a", nobody, "web"), permits("m", "web", "edge", "Allow")}, map[string][]string{}},
		{"two of which the weaker admits a proxy", []string{permits("m", "web", "egde", "Allow"), permits("n", "", "edge", "Allow")}, map[string][]string{}},
		{"a target elsewhere", []string{permits("m", "edge", "edge", "Allow")}, map[string][]string{"": {inbound + "no TrafficPermission is chosen, so everybody is refused"}}},
		{"a worse one from nobody", []string{permission("a", nobody, "*"), permission("b", everybody, "web")}, map[string][]string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := abroad(t, test.policies...)
			var list WarnedList
			if err := p.Warnings(t.Context(), "demo", func(doc any) error {
				list = doc.(WarnedList)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			got := map[string][]string{}
			for _, w := range list.Items {
				if len(w.Refusing) > 0 {
					got[w.Name] = w.Refusing
				}
				if rest := w.Warnings[len(w.Warnings)-len(w.Refusing):]; !slices.Equal(rest, w.Refusing) {
					t.Errorf("%q refuses, and is not among the warnings %q", w.Refusing, w.Warnings)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("who is refused (-want +got):\n%s", diff)
			}
		})
	}
}
