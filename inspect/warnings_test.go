package inspect

import (
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
				}}
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
