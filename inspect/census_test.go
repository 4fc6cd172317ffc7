package inspect

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

// outsideKind is the kind of resources that say where a service beyond the mesh is.
var outsideKind = &model.Kind{
	Name: "Outside", Path: "outsides", Scoping: model.Mesh, Class: model.Config, New: func() any { return new(outsideSpec) },
	Document: &model.Document{Type: "Outside", Singular: "outside", Plural: "outsides"},
}

type outsideSpec struct {
	Tags mesh.Tags `json:"tags"`
}

// Locates implements view.Locating.
func (s *outsideSpec) Locates() []view.Endpoint {
	return []view.Endpoint{{Address: "mail.example", Port: 443, Tags: s.Tags, Ready: true}}
}

// kindOf returns the kind of a document of a policy.
func kindOf(t testing.TB, text string) *model.Kind {
	t.Helper()
	var head struct{ Type string }
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		t.Fatal(err)
	}
	for _, k := range all.Kinds() {
		if k.Document.Type == head.Type {
			return k
		}
	}
	t.Fatalf("there is no policy of type %q", head.Type)
	return nil
}

// abroad is a mesh with mutual TLS, some policies, a service, and a gateway to it and to
// whatever else there is, of which nobody names an outbound. mail is beyond it, and so would a
// second web be.
func abroad(t *testing.T, policies ...string) *Policies {
	t.Helper()
	db := memstore.New()
	t.Cleanup(func() { _ = db.Close() })
	put := func(k *model.Kind, scope, name string, spec any) {
		t.Helper()
		if _, err := db.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	put(mesh.Meshes, "", "demo", mtls(""))
	put(mesh.Dataplanes, "demo", "web-1", &mesh.Dataplane{Networking: &mesh.Networking{
		Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: 8080, Tags: mesh.Tags{mesh.TagService: "web"}}},
		TransparentProxying: &mesh.TransparentProxying{RedirectPortOutbound: 15001},
	}})
	put(mesh.Dataplanes, "demo", "edge-1", &mesh.Dataplane{Networking: &mesh.Networking{
		Address: "10.0.0.2", Gateway: &mesh.Gateway{Type: mesh.GatewayBuiltin, Tags: mesh.Tags{mesh.TagService: "edge"}},
		Outbound: []mesh.Outbound{{Port: 10001, Tags: mesh.Tags{mesh.TagService: "web"}}},
	}})
	put(outsideKind, "demo", "mail", &outsideSpec{mesh.Tags{mesh.TagService: "mail", "version": "1"}})
	put(outsideKind, "demo", "web", &outsideSpec{mesh.Tags{mesh.TagService: "web", "version": "2"}})
	for _, text := range policies {
		k := kindOf(t, text)
		res := policytest.Resource(t, k, []byte(text))[0]
		put(k, "demo", res.Name, res.Spec)
	}
	return over(t, db, append(all.Kinds(), outsideKind))
}

// TestNowhereBeyondInbounds: policies on connections are in force towards what nobody
// serves with an inbound, and by gateways, which have none.
func TestNowhereBeyondInbounds(t *testing.T) {
	const inForce = ": no inbound of the mesh serves this and no outbound names it, so the policy is in force nowhere by it"
	const led = ": no inbound of the mesh has this, so what is led here is not served"
	about := func(kind, from, to, conf string) string {
		return `{"type":"` + kind + `","mesh":"demo","name":"x","sources":[{"match":{"mesh.io/service":"` + from + `"}}],"destinations":[{"match":{"mesh.io/service":"` + to + `"}}]` + conf + `}`
	}
	const retry = `,"conf":{"http":{"numRetries":2}}`
	leads := func(to string) string { return `,"conf":{"destination":{"mesh.io/service":` + to + `}}` }
	for _, test := range []struct {
		name, kind, document string
		want                 []string
	}{
		{"a destination beyond the mesh", "Retry", about("Retry", "*", "mail", retry), nil},
		{"a mistyped one", "Retry", about("Retry", "*", "mial", retry), []string{"mesh.io/service=mial" + inForce + `; did you mean "mail"?`}},
		{"led beyond the mesh", "TrafficRoute", about("TrafficRoute", "*", "web", leads(`"mail"`)), nil},
		{"led to tags beyond the mesh", "TrafficRoute", about("TrafficRoute", "*", "web", leads(`"mail","version":"1"`)), nil},
		{"led to other tags", "TrafficRoute", about("TrafficRoute", "*", "web", leads(`"mail","version":"2"`)), []string{"mesh.io/service=mail,version=2" + led}},
		{"led to a mistyped one", "TrafficRoute", about("TrafficRoute", "*", "web", leads(`"mial"`)), []string{"mesh.io/service=mial" + led + `; did you mean "mail"?`}},
		{"led to what inbounds hide", "TrafficRoute", about("TrafficRoute", "*", "web", leads(`"web","version":"2"`)), []string{"mesh.io/service=web,version=2" + led}},
		{"a gateway as a source", "Retry", about("Retry", "edge", "web", retry), nil},
		{"a mistyped one", "Retry", about("Retry", "egde", "web", retry),
			[]string{`mesh.io/service=egde: no proxy of the mesh has this, so the policy is in force nowhere by it; did you mean "edge"?`}},
		{"a gateway that is permitted", "TrafficPermission", about("TrafficPermission", "edge", "web", ""), nil},
		{"a mistyped one", "TrafficPermission", about("TrafficPermission", "egde", "web", ""),
			[]string{`mesh.io/service=egde: no proxy of the mesh has this, so the policy is about nobody by it; did you mean "edge"?`}},
		{"a permission beyond the mesh", "TrafficPermission", about("TrafficPermission", "web", "mial", ""),
			[]string{"mesh.io/service=mial: no inbound of the mesh has this, so the policy is in force nowhere by it"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := abroad(t)
			for _, k := range all.Kinds() {
				if k.Document.Type != test.kind {
					continue
				}
				spec := policytest.Resource(t, k, []byte(test.document))[0].Spec
				if diff := cmp.Diff(test.want, sentences(p.Nowhere(t.Context(), k, "demo", spec))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}
