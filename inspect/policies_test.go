package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/meshtrace"
	"github.com/meshgate/meshgate/xds/policy/policytest"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
)

// chosen returns the policies of the program for a mesh with one proxy. The proxy calls one
// service, and a route leads its calls elsewhere.
func chosen(t *testing.T) *Policies {
	return chosenIn(t, &mesh.Mesh{})
}

// chosenIn does what chosen does, with given settings of the mesh.
func chosenIn(t *testing.T, m *mesh.Mesh) *Policies {
	t.Helper()
	db := memstore.Open(memstore.Options{Now: func() time.Time { return time.Unix(0, 0) }})
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
	put(mesh.Meshes, "", "demo", m)
	put(mesh.Dataplanes, "demo", "web-1", &mesh.Dataplane{Networking: &mesh.Networking{
		Address:  "10.0.0.1",
		Inbound:  []mesh.Inbound{{Port: 8080, Tags: mesh.Tags{mesh.TagService: "web", mesh.TagProtocol: "http"}}},
		Outbound: []mesh.Outbound{{Port: 10001, Tags: mesh.Tags{mesh.TagService: "backend"}}},
	}})
	for _, text := range []string{
		`{"type":"TrafficRoute","mesh":"demo","name":"elsewhere","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"backend"}}],
		  "conf":{"destination":{"mesh.io/service":"spare"}}}`,
		`{"type":"Retry","mesh":"demo","name":"spare","sources":[{"match":{"mesh.io/service":"web"}}],"destinations":[{"match":{"mesh.io/service":"spare"}}],"conf":{"http":{"numRetries":2}}}`,
		`{"type":"MeshTokenAuth","mesh":"demo","name":"tokens","spec":{"targetRef":{"kind":"Mesh"},"from":[{"targetRef":{"kind":"Mesh"},"default":{"config":{"global_credentials":true}}}]}}`,
	} {
		k := kindOf(t, text)
		p := policytest.Resource(t, k, []byte(text))[0]
		put(k, "demo", p.Name, p.Spec)
	}
	return over(t, db, all.Kinds())
}

// over are the policies of the program over what is in a store.
func over(t testing.TB, db store.Store, kinds []*model.Kind) *Policies {
	t.Helper()
	views := view.New(db, kinds, slog.New(slog.DiscardHandler))
	t.Cleanup(views.Close)
	return &Policies{Views: views, Policies: all.Policies(), Latest: db.Revision, Turns: turns.Sized(1, 0)}
}

// shown returns what ask shows.
func shown(t *testing.T, ask func(show func(any) error) error) any {
	t.Helper()
	var raw []byte
	err := ask(func(doc any) (err error) {
		raw, err = json.Marshal(doc)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, string(raw))
}

func parsed(t *testing.T, text string) (out any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMetricsOfAProxy: the port at which a proxy is scraped needs a permission as any inbound does.
func TestMetricsOfAProxy(t *testing.T) {
	m := &mesh.Mesh{
		MTLS:    &mesh.MTLS{EnabledBackend: "a", Backends: []mesh.Authority{{Name: "a", Type: mesh.AuthorityBuiltin}}},
		Metrics: &mesh.Metrics{EnabledBackend: "p", Backends: []mesh.MetricsBackend{{Name: "p", Type: mesh.Prometheus}}},
	}
	mesh.Meshes.Document.Default(m)
	p := chosenIn(t, m)
	var got MatchedList
	if err := p.Of(t.Context(), "demo", "web-1", false, func(doc any) error { got = doc.(MatchedList); return nil }); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"inbound 8080 of web: no TrafficPermission is chosen, so everybody is refused",
		"inbound 5670 of dataplane-metrics: no TrafficPermission is chosen, so everybody is refused",
	}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var list WarnedList
	if err := p.Warnings(t.Context(), "demo", func(doc any) error { list = doc.(WarnedList); return nil }); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(list); !strings.Contains(text, "mesh.io/service=dataplane-metrics (1 inbounds): no TrafficPermission is chosen") {
		t.Error(text)
	}
}

// TestRules: a policy that itself says whom it is about is shown as a rule, with its defaults,
// and not among the other policies.
func TestRules(t *testing.T) {
	got := shown(t, func(show func(any) error) error { return chosen(t).Rules(t.Context(), "demo", "web-1", show) })
	want := parsed(t, `{"total":1,"items":[{"type":"clientSubset","name":"10.0.0.1:8080","service":"web","policyType":"MeshTokenAuth","subset":{},
		"conf":{"config":{"global_credentials":true,"auth_header_name":"authorization"}},"origins":[{"mesh":"demo","name":"tokens"}]}]}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// TestRulesByType: the same rules by the types of their policies, for the field that clients
// of other systems know.
func TestRulesByType(t *testing.T) {
	got := shown(t, func(show func(any) error) error { return chosen(t).RulesOf(t.Context(), "demo", "web-1", show) })
	want := parsed(t, `{"httpMatches":[],"resource":{"type":"Dataplane","mesh":"demo","name":"web-1"},"rules":[{"type":"MeshTokenAuth","fromRules":[{
		"inbound":{"name":"10.0.0.1:8080","tags":{"mesh.io/service":"web"}},
		"rules":[{"conf":{"config":{"global_credentials":true,"auth_header_name":"authorization"}},"origin":[{"type":"MeshTokenAuth","mesh":"demo","name":"tokens"}]}]}]}]}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	matchers := matchersOf(map[string]string{"version": "!1,!2", "team": "a"})
	if diff := cmp.Diff([]Matcher{{"team", "a", false}, {"version", "1", true}, {"version", "2", true}}, matchers); diff != "" {
		t.Errorf("matchers (-want +got):\n%s", diff)
	}
}

// TestRulesOfGateway: the rules of a MeshGateway are those of a proxy that it selects. There need
// not be one.
func TestRulesOfGateway(t *testing.T) {
	db := memstore.New()
	t.Cleanup(func() { _ = db.Close() })
	trace := func(name, service string) *model.Resource {
		text := `{"type":"MeshTrace","mesh":"demo","name":"` + name + `","spec":{"targetRef":{"kind":"MeshSubset","tags":{"mesh.io/service":"` + service + `"}},"default":{"sampling":{"overall":5}}}}`
		return &model.Resource{Kind: meshtrace.Kind, Scope: "demo", Name: name, Spec: policytest.Resource(t, meshtrace.Kind, []byte(text))[0].Spec}
	}
	for _, res := range []*model.Resource{
		{Kind: mesh.Meshes, Name: "demo", Spec: &mesh.Mesh{}}, trace("edges", "edge"), trace("others", "web"),
		{Kind: mesh.MeshGateways, Scope: "demo", Name: "gw", Spec: &mesh.MeshGateway{Selectors: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "edge"}}}}},
	} {
		if _, err := db.Update(t.Context(), model.Config, func(tx store.Tx) error { _, err := tx.Create(res); return err }); err != nil {
			t.Fatal(err)
		}
	}
	p := over(t, db, all.Kinds())
	got := shown(t, func(show func(any) error) error { return p.RulesOfGateway(t.Context(), "demo", "gw", show) })
	want := parsed(t, `{"httpMatches":[],"resource":{"type":"MeshGateway","mesh":"demo","name":"gw"},"rules":[{"type":"MeshTrace","proxyRule":{
		"conf":{"sampling":{"overall":5}},"origin":[{"type":"MeshTrace","mesh":"demo","name":"edges"}]}}]}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if err := p.RulesOfGateway(t.Context(), "demo", "none", func(any) error { return nil }); !fault.Is(err, fault.NotFound) {
		t.Errorf("a gateway that does not exist: %v", err)
	}
}

// TestServices: policies on services are chosen for the services that routes lead to. What is
// shown as in force includes the defaults.
func TestServices(t *testing.T) {
	got := shown(t, func(show func(any) error) error { return chosen(t).Of(t.Context(), "demo", "web-1", true, show) })
	const meta = `"mesh":"demo","creationTime":"1970-01-01T00:00:00Z","modificationTime":"1970-01-01T00:00:00Z"`
	want := parsed(t, `{"kind":"SidecarDataplane","total":2,"items":[
		{"type":"outbound","name":"127.0.0.1:10001","service":"backend","matchedPolicies":{"TrafficRoute":[{"type":"TrafficRoute","name":"elsewhere",`+meta+`}]},
		 "effective":{"TrafficRoute":{"destination":{"mesh.io/service":"spare"},"loadBalancer":{"roundRobin":{}}}}},
		{"type":"service","name":"spare","service":"spare","matchedPolicies":{"Retry":[{"type":"Retry","name":"spare",`+meta+`}]},
		 "effective":{"Retry":{"http":{"numRetries":2,"retryOn":["gateway_error","connect_failure","refused_stream"]}}}}]}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
}

// TestChosen: a kind that is not a policy has no proxies, and a missing dataplane is NotFound.
func TestChosen(t *testing.T) {
	p := chosen(t)
	got := shown(t, func(show func(any) error) error { return p.Chosen(t.Context(), mesh.Dataplanes, "demo", "x", show) })
	if diff := cmp.Diff(parsed(t, `{"total":0,"items":[]}`), got); diff != "" {
		t.Error(diff)
	}
	unshown := func(any) error {
		t.Error("something is shown of a dataplane that is gone")
		return nil
	}
	if err := p.Of(t.Context(), "demo", "gone", false, unshown); !fault.Is(err, fault.NotFound) {
		t.Errorf("a dataplane that is gone: %v", err)
	}
}

// TestTurns: with one turn, one caller chooses at a time, until its answer has been shown.
// Others are told to ask again, and find the turn free afterwards, whatever the result was.
func TestTurns(t *testing.T) {
	p := chosen(t)
	asks := map[string]func(show func(any) error) error{
		"of":            func(show func(any) error) error { return p.Of(t.Context(), "demo", "web-1", true, show) },
		"rules":         func(show func(any) error) error { return p.Rules(t.Context(), "demo", "web-1", show) },
		"rules by type": func(show func(any) error) error { return p.RulesOf(t.Context(), "demo", "web-1", show) },
		"chosen": func(show func(any) error) error {
			return p.Chosen(t.Context(), trafficroute.Kind, "demo", "elsewhere", show)
		},
		"warnings": func(show func(any) error) error { return p.Warnings(t.Context(), "demo", show) },
	}
	for what, ask := range asks {
		failed := errors.New("it cannot be shown")
		err := ask(func(any) error {
			for beside, other := range asks {
				if err := other(func(any) error { return nil }); !errors.Is(err, turns.ErrFull) {
					t.Errorf("%s beside %s: %v", beside, what, err)
				}
			}
			return failed
		})
		if !errors.Is(err, failed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, ask := range asks {
		if err := ask(func(any) error { return nil }); err != nil {
			t.Errorf("%s afterwards: %v", what, err)
		}
	}
}
