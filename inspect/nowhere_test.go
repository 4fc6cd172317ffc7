package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

// TestNowhere writes policies on inbounds that nobody has: a mistyped name protects
// nothing. Of those that are in force, and of policies on outbounds, nothing is said.
func TestNowhere(t *testing.T) {
	p := chosen(t)
	const demand = `"from":[{"targetRef":{"kind":"Mesh"},"default":{"config":{"global_credentials":true}}}]}}`
	const text = "no inbound of the mesh has this, so the policy is in force nowhere by it"
	token := func(target string) string {
		return `{"type":"MeshTokenAuth","mesh":"demo","name":"x","spec":{"targetRef":` + target + `,` + demand
	}
	for _, test := range []struct {
		name, kind, document string
		want                 []fault.Violation
	}{
		{"a service", "MeshTokenAuth", token(`{"kind":"MeshService","name":"web"}`), nil},
		{"a mistyped one", "MeshTokenAuth", token(`{"kind":"MeshService","name":"wbe"}`), []fault.Violation{{Path: "mesh.io/service=wbe", Message: text + `; did you mean "web"?`}}},
		{"one that may come", "MeshTokenAuth", token(`{"kind":"MeshService","name":"payments"}`), []fault.Violation{{Path: "mesh.io/service=payments", Message: text}}},
		{"tags", "MeshTokenAuth", token(`{"kind":"MeshSubset","tags":{"mesh.io/protocol":"http"}}`), nil},
		{"tags of nobody", "MeshTokenAuth", token(`{"kind":"MeshSubset","tags":{"version":"2"}}`), []fault.Violation{{Path: "version=2", Message: text}}},
		{"a mesh", "MeshTokenAuth", token(`{"kind":"Mesh"}`), nil},
		{"a permission", "TrafficPermission", `{"type":"TrafficPermission","mesh":"demo","name":"x","sources":[{"match":{"mesh.io/service":"nobody"}}],"destinations":[{"match":{"mesh.io/service":"*"}},{"match":{"mesh.io/service":"webb"}}]}`,
			[]fault.Violation{{Path: "mesh.io/service=webb", Message: text + `; did you mean "web"?`}}},
		{"an outbound", "Retry", `{"type":"Retry","mesh":"demo","name":"x","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"nobody"}}],"conf":{"http":{"numRetries":2}}}`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, k := range all.Kinds() {
				if k.Document.Type != test.kind {
					continue
				}
				spec := policytest.Resource(t, k, []byte(test.document))[0].Spec
				if diff := cmp.Diff(test.want, p.Nowhere(t.Context(), k, "demo", spec)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}
