package explain_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/inspect/explain"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
)

// TestGatewayOfAMeshAsSource: a client of a gateway is led through its listener to the service, or told
// what demands a token.
func TestGatewayOfAMeshAsSource(t *testing.T) {
	w := newWorld(t, "demo")
	document := func(k *model.Kind, name, text string) {
		_, spec, err := model.DecodeDocument(k, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		w.put(k, "demo", name, spec)
	}
	document(mesh.Dataplanes, "backend-1", `{"networking":{"address":"10.0.0.2","inbound":[{"port":8080,"servicePort":9080,"tags":{"mesh.io/service":"backend","mesh.io/protocol":"http"}}]}}`)
	document(mesh.Dataplanes, "edge-1", `{"networking":{"address":"10.0.0.1","gateway":{"type":"BUILTIN","tags":{"mesh.io/service":"edge"}}}}`)
	document(mesh.MeshGateways, "g", `{"selectors":[{"match":{"mesh.io/service":"edge"}}],"conf":{"listeners":[
		{"port":80,"protocol":"HTTP","hostname":"front.example","tags":{"door":"front"},"resources":{"connectionLimit":5}},{"port":80,"protocol":"HTTP"}]}}`)
	document(mesh.MeshGatewayRoutes, "r", `{"selectors":[{"match":{"mesh.io/service":"edge"}}],"conf":{"http":{"rules":[
		{"matches":[{"path":{"match":"PREFIX","value":"/"}}],"backends":[{"weight":1,"destination":{"mesh.io/service":"backend"}}]}]}}}`)
	document(meshtokenauth.Kind, "door", `{"spec":{"targetRef":{"kind":"MeshGateway","name":"g","tags":{"door":"front"}},"from":[{"targetRef":{"kind":"Mesh"},"default":{"config":{"global_credentials":true,"auth_header_name":"authorization"}}}]}}`)
	w.joined = []string{"backend-1", "edge-1"}
	w.plan()
	for _, c := range []struct {
		to, host, verdict, by string
	}{
		{"10.0.0.1:80", "other.example", explain.Allowed, ""},
		{"10.0.0.1:80", "front.example", explain.Refused, "door"},
		{"10.0.0.1:81", "front.example", explain.Refused, "edge-1"},
		{"backend", "front.example", explain.Unknown, ""},
	} {
		got := w.explain(explain.Question{Source: "edge-1", Destination: c.to, Host: c.host, Method: "GET", Path: "/x"})
		by := ""
		if b := got.Outcome.By; b != nil && len(b.Decided) > 0 {
			by = b.Decided[0].Name
		}
		if got.Outcome.Verdict != c.verdict || by != c.by {
			t.Errorf("%s at %s: %s by %q, want %s by %q: %s", c.host, c.to, got.Outcome.Verdict, by, c.verdict, c.by, got.Outcome.Text)
		}
	}
}
