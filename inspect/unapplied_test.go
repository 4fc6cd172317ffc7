package inspect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/policy/faultinjection"
	"github.com/meshgate/meshgate/xds/policy/policytest"
	"github.com/meshgate/meshgate/xds/policy/timeout"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
)

// stored are the policies of the program over a mesh with dataplanes and policies.
func stored(t testing.TB, m *mesh.Mesh, dataplanes map[string]*mesh.Networking, texts ...string) *Policies {
	t.Helper()
	db := memstore.New()
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Update(t.Context(), model.Config, func(tx store.Tx) error {
		if _, err := tx.Create(&model.Resource{Kind: mesh.Meshes, Name: "demo", Spec: m}); err != nil {
			return err
		}
		for name, n := range dataplanes {
			if _, err := tx.Create(&model.Resource{Kind: mesh.Dataplanes, Scope: "demo", Name: name, Spec: &mesh.Dataplane{Networking: n}}); err != nil {
				return err
			}
		}
		for _, text := range texts {
			k := kindOf(t, text)
			p := policytest.Resource(t, k, []byte(text))[0]
			if _, err := tx.Create(&model.Resource{Kind: k, Scope: "demo", Name: p.Name, Spec: p.Spec}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return over(t, db, all.Kinds())
}

// serving is the networking of a dataplane that serves a service.
func serving(address, service, protocol string) *mesh.Networking {
	return &mesh.Networking{Address: address, Inbound: []mesh.Inbound{{
		Port: 8080, Tags: mesh.Tags{mesh.TagService: service, mesh.TagProtocol: protocol},
	}}}
}

// bound is the networking of a transparent proxy that reaches only some services.
func bound(address, service string, reachable ...string) *mesh.Networking {
	n := serving(address, service, mesh.ProtocolHTTP)
	n.TransparentProxying = &mesh.TransparentProxying{RedirectPortInbound: 15006, RedirectPortOutbound: 15001, ReachableServices: reachable}
	return n
}

// trouble knows one problem of each dataplane, and one of each policy there.
type trouble struct{}

func (trouble) Of(string, string) []string { return []string{"the proxy refused a cluster"} }

func (trouble) About(_, _ string, pol *policy.Policy, name string) []string {
	return []string{pol.Named(name) + ": a cluster"}
}

// listed returns the texts under a key of an answer.
func listed(doc any, key string) (out []string) {
	list, _ := doc.(map[string]any)[key].([]any)
	for _, one := range list {
		out = append(out, one.(string))
	}
	return out
}

const (
	faulty = `{"type":"FaultInjection","mesh":"demo","name":"faulty","sources":[{"match":{"mesh.io/service":"api"}}],"destinations":[{"match":{"mesh.io/service":"*","mesh.io/protocol":"http"}}],"conf":{"abort":{"percentage":1,"httpStatus":500}}}`
	limit  = `{"type":"RateLimit","mesh":"demo","name":"limit","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"*"}}],"conf":{"http":{"requests":1,"interval":"1s"}}}`
	permit = `{"type":"TrafficPermission","mesh":"demo","name":"permit","sources":[{"match":{"mesh.io/service":"api"}}],"destinations":[{"match":{"mesh.io/service":"web"}}]}`
	admits = `{"type":"MeshTrafficPermission","mesh":"demo","name":"admits","spec":{"targetRef":{"kind":"MeshService","name":"raw"},"from":[{"targetRef":{"kind":"Mesh"},"default":{"action":"Allow"}}]}}`
)

// TestErrorsAtPlaces: a place says which of the policies chosen there do nothing, also for a
// proxy that never connected. What a planner or a proxy found is beside it.
func TestErrorsAtPlaces(t *testing.T) {
	const certificates = "callers are known by their certificates, and the mesh has no mutual TLS"
	p := stored(t, &mesh.Mesh{}, map[string]*mesh.Networking{
		"web-1": serving("10.0.0.1", "web", mesh.ProtocolHTTP), "raw-1": serving("10.0.0.2", "raw", mesh.ProtocolTCP),
	}, faulty, limit, permit, admits)
	at := func(doc any) (out [][]string) {
		for _, item := range doc.(map[string]any)["items"].([]any) {
			out = append(out, listed(item, "errors"))
		}
		return out
	}
	of := func(dataplane string) any {
		return shown(t, func(show func(any) error) error { return p.Of(t.Context(), "demo", dataplane, false, show) })
	}
	faults, permission := "FaultInjection faulty: faulty is not applied: "+certificates, "TrafficPermission permit: permit is not applied: "+certificates
	if d := cmp.Diff([][]string{{faults, permission}}, at(of("web-1"))); d != "" {
		t.Errorf("an inbound of HTTP (-want +got):\n%s", d)
	}
	if d := cmp.Diff([][]string{{"RateLimit limit: not applied: the inbound speaks tcp"}}, at(of("raw-1"))); d != "" {
		t.Errorf("an inbound of TCP (-want +got):\n%s", d)
	}
	rules := func() any {
		return shown(t, func(show func(any) error) error { return p.Rules(t.Context(), "demo", "raw-1", show) })
	}
	if d := cmp.Diff([][]string{{"MeshTrafficPermission admits: admits is not applied: " + certificates}}, at(rules())); d != "" {
		t.Errorf("rules (-want +got):\n%s", d)
	}
	chosen := func(k *model.Kind, name string) any {
		return shown(t, func(show func(any) error) error { return p.Chosen(t.Context(), k, "demo", name, show) })
	}
	want := parsed(t, `{"total":1,"items":[{"kind":"SidecarDataplane","dataplane":{"mesh":"demo","name":"web-1"},"attachments":[
		{"type":"inbound","name":"10.0.0.1:8080:8080","service":"web","errors":["`+faults+`"]}]}]}`)
	if d := cmp.Diff(want, chosen(faultinjection.Kind, "faulty")); d != "" {
		t.Errorf("the dataplanes of a policy (-want +got):\n%s", d)
	}

	p.Problems = trouble{}
	for what, doc := range map[string]any{"policies": of("web-1"), "rules": rules()} {
		if d := cmp.Diff([]string{"the proxy refused a cluster"}, listed(doc, "errors")); d != "" {
			t.Errorf("%s of a proxy that refuses (-want +got):\n%s", what, d)
		}
	}
	one := chosen(trafficpermission.Kind, "permit").(map[string]any)["items"].([]any)[0]
	if d := cmp.Diff([]string{"TrafficPermission permit: a cluster"}, listed(one, "errors")); d != "" {
		t.Errorf("a policy that is refused (-want +got):\n%s", d)
	}

	sealed := stored(t, mtls(""), map[string]*mesh.Networking{"web-1": serving("10.0.0.1", "web", mesh.ProtocolHTTP)}, faulty, permit)
	doc := shown(t, func(show func(any) error) error { return sealed.Of(t.Context(), "demo", "web-1", false, show) })
	if d := cmp.Diff([][]string{nil}, at(doc)); d != "" {
		t.Errorf("with mutual TLS (-want +got):\n%s", d)
	}
}

// TestLeftOutServices: a policy for a service that a dataplane leaves out says so, on both sides.
// One for any service does not, and neither does one for a service to which a route leads.
func TestLeftOutServices(t *testing.T) {
	times := func(name, to string) string {
		return `{"type":"Timeout","mesh":"demo","name":"` + name + `","sources":[{"match":{"mesh.io/service":"web"}}],"destinations":[{"match":{"mesh.io/service":"` + to + `"}}],"conf":{"connectTimeout":"1s"}}`
	}
	const breaks = `{"type":"CircuitBreaker","mesh":"demo","name":"breaks","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"spare"}}],"conf":{"thresholds":{"maxConnections":1}}}`
	const leads = `{"type":"TrafficRoute","mesh":"demo","name":"leads","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"backend"}}],"conf":{"destination":{"mesh.io/service":"spare"}}}`
	p := stored(t, &mesh.Mesh{}, map[string]*mesh.Networking{
		"web-1": bound("10.0.0.1", "web", "backend"), "web-2": bound("10.0.0.2", "web"), "api-1": bound("10.0.0.3", "api", "backend"),
		"backend-1": serving("10.0.0.4", "backend", mesh.ProtocolHTTP), "spare-1": serving("10.0.0.5", "spare", mesh.ProtocolHTTP),
		"far-1": serving("10.0.0.6", "far", mesh.ProtocolHTTP),
	}, times("far", "far"), times("gone", "gone"), times("any", "*"), times("near", "backend"), breaks, leads)
	for name, want := range map[string][]string{
		"web-1": {"service far is left out by reachableServices of the dataplane, so what would be chosen for it is not in force: Timeout far"},
		"web-2": nil, "api-1": nil, "backend-1": nil,
	} {
		doc := shown(t, func(show func(any) error) error { return p.Of(t.Context(), "demo", name, false, show) })
		if d := cmp.Diff(want, listed(doc, "warnings")); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	doc := shown(t, func(show func(any) error) error { return p.Chosen(t.Context(), timeout.Kind, "demo", "far", show) })
	want := []string{"service far is left out by reachableServices of dataplanes for which the policy would be chosen, and it is not in force there: web-1"}
	if d := cmp.Diff(want, listed(doc, "warnings")); d != "" {
		t.Errorf("the dataplanes of the policy (-want +got):\n%s", d)
	}
	many := exclusion{"far": strings.Split("a b c d e f g", " ")}.sentences()
	if len(many) != 1 || !strings.HasSuffix(many[0], ": a, b, c, d, e and 2 more") {
		t.Errorf("many dataplanes: %q", many)
	}
}

// TestFieldsWithoutEffect: a place says which fields of its policies do nothing, whatever the
// destination is, also for a proxy that never connected; so does the policy.
func TestFieldsWithoutEffect(t *testing.T) {
	const breaks = `{"type":"CircuitBreaker","mesh":"demo","name":"breaks","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"backend"}}],"conf":{"detectors":{"localErrors":{}}}}`
	n := serving("10.0.0.1", "web", mesh.ProtocolHTTP)
	n.Outbound = []mesh.Outbound{{Port: 9000, Tags: mesh.Tags{mesh.TagService: "backend"}}}
	p := stored(t, &mesh.Mesh{}, map[string]*mesh.Networking{"web-1": n, "backend-1": serving("10.0.0.2", "backend", mesh.ProtocolHTTP)},
		`{"type":"TrafficRoute","mesh":"demo","name":"leads","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"*"}}],"conf":{"destination":{"mesh.io/service":"*"}}}`, breaks)
	want := []string{"CircuitBreaker breaks: conf.detectors.localErrors has no effect without conf.splitExternalAndLocalErrors"}
	doc := shown(t, func(show func(any) error) error { return p.Of(t.Context(), "demo", "web-1", false, show) })
	var got []string
	for _, item := range doc.(map[string]any)["items"].([]any) {
		got = append(got, listed(item, "errors")...)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the places (-want +got):\n%s", d)
	}
	doc = shown(t, func(show func(any) error) error {
		return p.Chosen(t.Context(), circuitbreaker.Kind, "demo", "breaks", show)
	})
	at := doc.(map[string]any)["items"].([]any)[0].(map[string]any)["attachments"].([]any)[0]
	if d := cmp.Diff(want, listed(at, "errors")); d != "" {
		t.Errorf("the policy (-want +got):\n%s", d)
	}
}
