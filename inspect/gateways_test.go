package inspect

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/faultinjection"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
	"github.com/meshgate/meshgate/xds/policy/ratelimit"
	"github.com/meshgate/meshgate/xds/policy/timeout"
	"github.com/meshgate/meshgate/xds/policy/trafficlog"
)

// doors returns the policies for a mesh with a builtin gateway, its routes and some policies.
func doors(t *testing.T) *Policies {
	t.Helper()
	db := memstore.Open(memstore.Options{Now: func() time.Time { return time.Unix(0, 0) }})
	t.Cleanup(func() { _ = db.Close() })
	put := func(k *model.Kind, scope, name, members string) {
		t.Helper()
		_, spec, err := model.DecodeDocument(k, []byte(members))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	const (
		toEdge = `"selectors":[{"match":{"mesh.io/service":"edge"}}]`
		edge   = `"sources":[{"match":{"mesh.io/service":"edge"}}]`
	)
	put(mesh.Meshes, "", "demo", `{}`)
	put(mesh.Dataplanes, "demo", "edge-1", `{"networking":{"address":"10.0.0.1","gateway":{"type":"BUILTIN","tags":{"mesh.io/service":"edge"}}}}`)
	put(mesh.MeshGateways, "demo", "g", `{`+toEdge+`,"conf":{"listeners":[{"port":80,"protocol":"HTTP"},{"port":80,"protocol":"HTTP","hostname":"a.example"},{"port":81,"protocol":"TCP"}]}}`)
	put(mesh.MeshGatewayRoutes, "demo", "r", `{`+toEdge+`,"conf":{"http":{"hostnames":["a.example"],"rules":[
		{"matches":[{"path":{"match":"PREFIX","value":"/"}},{"method":"GET"}],"backends":[{"destination":{"mesh.io/service":"backend","version":"v1"}},{"destination":{"mesh.io/service":"backend"}}],
		 "filters":[{"mirror":{"percentage":1,"backend":{"destination":{"mesh.io/service":"shadow"}}}}]}]}}}`)
	put(mesh.MeshGatewayRoutes, "demo", "tcp", `{`+toEdge+`,"conf":{"tcp":{"rules":[{"backends":[{"destination":{"mesh.io/service":"db"}}]}]}}}`)
	put(timeout.Kind, "demo", "v1", `{`+edge+`,"destinations":[{"match":{"mesh.io/service":"backend","version":"v1"}}],"conf":{"connectTimeout":"1s"}}`)
	put(faultinjection.Kind, "demo", "f", `{`+edge+`,"destinations":[{"match":{"mesh.io/service":"shadow"}}],"conf":{"abort":{"httpStatus":503,"percentage":1}}}`)
	put(ratelimit.Kind, "demo", "l", `{`+edge+`,"destinations":[{"match":{"mesh.io/service":"db"}}],"conf":{"http":{"requests":1,"interval":"1s"}}}`)
	put(trafficlog.Kind, "demo", "log", `{`+edge+`,"destinations":[{"match":{"mesh.io/service":"*"}}]}`)
	put(meshtokenauth.Kind, "demo", "tokens", `{"spec":{"targetRef":{"kind":"MeshGateway","name":"g"},"from":[{"targetRef":{"kind":"Mesh"},"default":{"config":{"global_credentials":true}}}]}}`)
	return over(t, db, all.Kinds())
}

const metaOfGateways = `"mesh":"demo","creationTime":"1970-01-01T00:00:00Z","modificationTime":"1970-01-01T00:00:00Z"`

// TestPoliciesOfAGateway: each distinct destination is shown once, mirrors included, with what is
// chosen by all of its tags.
func TestPoliciesOfAGateway(t *testing.T) {
	p := doors(t)
	got := shown(t, func(show func(any) error) error { return p.Of(t.Context(), "demo", "edge-1", false, show) })
	want := parsed(t, `{"kind":"MeshGatewayDataplane","gateway":{"mesh":"demo","name":"g"},"policies":{"TrafficLog":{"type":"TrafficLog","name":"log",`+metaOfGateways+`}},"listeners":[
		{"port":80,"protocol":"HTTP","hosts":[{"hostName":"*","routes":[]},{"hostName":"a.example","routes":[{"route":"r","destinations":[
			{"tags":{"mesh.io/service":"backend"},"policies":{}},
			{"tags":{"mesh.io/service":"backend","version":"v1"},"policies":{"Timeout":{"type":"Timeout","name":"v1",`+metaOfGateways+`}}},
			{"tags":{"mesh.io/service":"shadow"},"policies":{"FaultInjection":{"type":"FaultInjection","name":"f",`+metaOfGateways+`}}}]}]}]},
		{"port":81,"protocol":"TCP","hosts":[{"hostName":"*","routes":[{"route":"tcp","destinations":[
			{"tags":{"mesh.io/service":"db"},"policies":{"RateLimit":{"type":"RateLimit","name":"l",`+metaOfGateways+`}}}]}]}]}]}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
	if effective := shown(t, func(show func(any) error) error { return p.Of(t.Context(), "demo", "edge-1", true, show) }); cmp.Equal(want, effective) {
		t.Error("what is in force is not shown")
	}
}

// TestGatewaysOfPolicies: a policy is shown with the destinations that it won, or with nothing but
// the gateway if it is for all of it.
func TestGatewaysOfPolicies(t *testing.T) {
	p := doors(t)
	const at = `"kind":"MeshGatewayDataplane","dataplane":{"mesh":"demo","name":"edge-1"},"gateway":{"mesh":"demo","name":"g"}`
	for kind, want := range map[*model.Kind]string{
		timeout.Kind: `{"total":1,"items":[{` + at + `,"listeners":[{"port":80,"protocol":"HTTP","hosts":[{"hostName":"a.example","routes":[
			{"route":"r","destinations":[{"mesh.io/service":"backend","version":"v1"}]}]}]}]}]}`,
		trafficlog.Kind: `{"total":1,"items":[{` + at + `}]}`,
		meshtokenauth.Kind: `{"total":1,"items":[{` + at + `,"attachments":[{"type":"listener","name":"10.0.0.1:80:*","service":"edge"},
			{"type":"listener","name":"10.0.0.1:80:a.example","service":"edge"},
			{"type":"listener","name":"10.0.0.1:81:*","service":"edge","errors":["MeshTokenAuth tokens: not applied: the listener speaks TCP"]}]}]}`,
	} {
		name := map[*model.Kind]string{timeout.Kind: "v1", trafficlog.Kind: "log", meshtokenauth.Kind: "tokens"}[kind]
		got := shown(t, func(show func(any) error) error { return p.Chosen(t.Context(), kind, "demo", name, show) })
		if diff := cmp.Diff(parsed(t, want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind.Name, diff)
		}
	}
}

// TestRulesOfListeners: what is demanded at the listeners of a gateway is among its rules, with why it
// is not in force.
func TestRulesOfListeners(t *testing.T) {
	p := doors(t)
	const rule = `"type":"clientSubset","service":"edge","policyType":"MeshTokenAuth","subset":{},"conf":{"config":{"auth_header_name":"authorization","global_credentials":true}},"origins":[{"mesh":"demo","name":"tokens"}]`
	want := parsed(t, `{"total":3,"items":[{"name":"10.0.0.1:80:*",`+rule+`},{"name":"10.0.0.1:80:a.example",`+rule+`},
		{"name":"10.0.0.1:81:*",`+rule+`,"errors":["MeshTokenAuth tokens: not applied: the listener speaks TCP"]}]}`)
	got := shown(t, func(show func(any) error) error { return p.Rules(t.Context(), "demo", "edge-1", show) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// TestListenersThatDoNotExist: a policy for listeners of a gateway that there are not is in force nowhere.
func TestListenersThatDoNotExist(t *testing.T) {
	p := doors(t)
	const text = "no gateway of the mesh has such a listener, so the policy is in force nowhere by it"
	for ref, want := range map[string][]fault.Violation{
		`{"kind":"MeshGateway","name":"g"}`:                     nil,
		`{"kind":"MeshGateway","name":"gg"}`:                    {{Path: "MeshGateway gg", Message: text + fault.Meant("gg", []string{"g"})}},
		`{"kind":"MeshGateway","name":"g","tags":{"door":"x"}}`: {{Path: "MeshGateway g door=x", Message: text}},
	} {
		_, spec, err := model.DecodeDocument(meshtokenauth.Kind, []byte(`{"spec":{"targetRef":`+ref+`,"from":[{"targetRef":{"kind":"Mesh"}}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, p.Nowhere(t.Context(), meshtokenauth.Kind, "demo", spec)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", ref, diff)
		}
	}
}

// TestGateways: a MeshGateway is for gateways that it selects, and a route for those that have an
// entry of it.
func TestGateways(t *testing.T) {
	p := doors(t)
	for name, c := range map[string]struct {
		kind  *model.Kind
		total float64
	}{"g": {mesh.MeshGateways, 1}, "r": {mesh.MeshGatewayRoutes, 1}, "tcp": {mesh.MeshGatewayRoutes, 1}, "none": {mesh.MeshGateways, 0}} {
		got := shown(t, func(show func(any) error) error { return p.Gateways(t.Context(), c.kind, "demo", name, show) })
		if total := got.(map[string]any)["total"]; total != c.total {
			t.Errorf("%s is for %v, want %v", name, total, c.total)
		}
	}
}
