package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

// TestNowhere writes policies that select nobody. A mistyped name protects nothing, lets
// nobody in, or leads nowhere. Policies that are in force cause no warning.
func TestNowhere(t *testing.T) {
	p := chosen(t)
	const demand = `"from":[{"targetRef":{"kind":"Mesh"},"default":{"config":{"global_credentials":true}}}]}}`
	const text = "no inbound of the mesh has this, so the policy is in force nowhere by it"
	const unreached = "no inbound of the mesh serves this and no outbound names it, so the policy is in force nowhere by it"
	retry := func(from, to string) string {
		return `{"type":"Retry","mesh":"demo","name":"x","sources":[{"match":{"mesh.io/service":"` + from + `"}}],"destinations":[{"match":{"mesh.io/service":"` + to + `"}}],"conf":{"http":{"numRetries":2}}}`
	}
	route := func(to, conf string) string {
		return `{"type":"TrafficRoute","mesh":"demo","name":"x","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"` + to + `"}}],"conf":{` + conf + `}}`
	}
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
			[]fault.Violation{
				{Path: "mesh.io/service=nobody", Message: "no proxy of the mesh has this, so the policy is about nobody by it"},
				{Path: "mesh.io/service=webb", Message: text + `; did you mean "web"?`},
			}},
		{"a permission for one that is there", "TrafficPermission", `{"type":"TrafficPermission","mesh":"demo","name":"x","sources":[{"match":{"mesh.io/service":"web","mesh.io/protocol":"*"}}],"destinations":[{"match":{"mesh.io/service":"web"}}]}`, nil},
		{"a target and a caller", "MeshTrafficPermission", `{"type":"MeshTrafficPermission","mesh":"demo","name":"x","spec":{"targetRef":{"kind":"MeshService","name":"webb"},"from":[{"targetRef":{"kind":"MeshService","name":"nobody"},"default":{"action":"Deny"}},{"targetRef":{"kind":"MeshServiceSubset","name":"web","tags":{"mesh.io/protocol":"http"}},"default":{"action":"Allow"}}]}}`,
			[]fault.Violation{
				{Path: "mesh.io/service=nobody", Message: "no proxy of the mesh has this, so the policy is about nobody by it"},
				{Path: "mesh.io/service=webb", Message: text + `; did you mean "web"?`},
			}},
		{"an outbound of nobody", "Retry", retry("web", "nobody"), []fault.Violation{{Path: "mesh.io/service=nobody", Message: unreached}}},
		{"an outbound that waits", "Retry", retry("*", "backend"), nil},
		{"a source of nobody", "Retry", retry("wbe", "backend"), []fault.Violation{
			{Path: "mesh.io/service=wbe", Message: `no proxy of the mesh has this, so the policy is in force nowhere by it; did you mean "web"?`},
		}},
		{"a route", "TrafficRoute", route("backend", `"destination":{"mesh.io/service":"web","mesh.io/protocol":"http"}`), nil},
		{"a route for nobody", "TrafficRoute", route("bakend", `"destination":{"mesh.io/service":"web"}`), []fault.Violation{{Path: "mesh.io/service=bakend", Message: unreached}}},
		{"a route to nobody", "TrafficRoute", route("backend", `"split":[{"weight":1,"destination":{"mesh.io/service":"web","version":"2"}},{"weight":0,"destination":{"mesh.io/service":"off"}}]`),
			[]fault.Violation{{Path: "mesh.io/service=web,version=2", Message: `no inbound of the mesh has this, so what is led here is not served`}}},
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
