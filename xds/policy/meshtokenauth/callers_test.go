package meshtokenauth

import (
	"errors"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

// sealed is a mesh with mutual TLS.
var sealed = &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca"}}}}

// divided returns what policies make of the routes of an inbound, by what the callers' names
// in the routes are: "demanded", "refused", "forbidden" or "open".
func divided(t *testing.T, m *mesh.Mesh, specs ...string) (out map[string]string, s *policy.Selection) {
	t.Helper()
	s = &policy.Selection{}
	for _, spec := range specs {
		name, decoded := policytest.Decode(t, Kind, []byte(`{"type":"MeshTokenAuth","mesh":"demo","name":"x","spec":`+spec+`}`))
		s.Policies = append(s.Policies, policytest.Of(Kind, name, decoded))
	}
	slices.SortStableFunc(s.Policies, Policy.Order)
	s.Facts = Policy.Facts(policy.World{Mesh: m}, s.Policies)
	d := policytest.NewDrafts("http", true)
	if err := errors.Join(d.Apply(Policy, s), d.Callers(Policy, s), d.Demand(Policy, s)); err != nil {
		t.Fatal(err)
	}
	out = map[string]string{}
	for _, r := range d.InboundRoutes.Host.GetRoutes() {
		var who []string
		for _, h := range r.GetMatch().GetHeaders() {
			who = append(who, strings.Trim(h.GetStringMatch().GetContains(), ";"))
		}
		out[strings.Join(who, " ")] += state(d.InboundRoutes.Host, r) + " "
	}
	return out, s
}

func state(host *routev3.VirtualHost, r *routev3.Route) string {
	demanded := r.GetTypedPerFilterConfig()[contract.FilterName] != nil || host.GetTypedPerFilterConfig()[contract.FilterName] != nil
	switch status := r.GetDirectResponse().GetStatus(); {
	case status == 503:
		return "refused"
	case status == 403:
		return "forbidden"
	case demanded:
		return "demanded"
	}
	return "open"
}

// TestWhoIsForgottenIsRefused: no route of any caller is without a check, whatever items there
// are. The sample routes are two.
func TestWhoIsForgottenIsRefused(t *testing.T) {
	const config, missing = `{"config":{"global_credentials":true}}`, `{"plugin":{"id":"2c6ac1be-5e0e-4a5c-9f0b-0d7b0f6d7c11"}}`
	item := func(ref, demand string) string { return `{"targetRef":` + ref + `,"default":` + demand + `}` }
	from := func(items ...string) string {
		return `{"targetRef":{"kind":"Mesh"},"from":[` + strings.Join(items, ",") + `]}`
	}
	const all, web, team, gone = `{"kind":"Mesh"}`, `{"kind":"MeshService","name":"web"}`, `{"kind":"MeshSubset","tags":{"team":"a"}}`, `{"kind":"MeshGateway","name":"web"}`
	const isWeb, isTeam = "URI=mesh://mesh.io/service/web", "URI=mesh://team/a"
	for _, c := range []struct {
		name  string
		specs []string
		want  map[string]string
	}{
		{"everybody", []string{from(item(all, config))}, map[string]string{"": "demanded demanded "}},
		{"one caller", []string{from(item(web, config))}, map[string]string{isWeb: "demanded demanded ", "": "forbidden forbidden "}},
		{"one and the others", []string{from(item(all, config), item(web, missing))}, map[string]string{isWeb: "refused refused ", "": "demanded demanded "}},
		{"the last item is for everybody", []string{from(item(web, missing), item(all, config))}, map[string]string{"": "demanded demanded "}},
		{"two policies", []string{from(item(web, config)), `{"targetRef":` + web + `,"from":[` + item(team, missing) + `]}`}, map[string]string{isTeam: "refused refused ", isWeb: "demanded demanded ", "": "forbidden forbidden "}},
		{"an unreadable caller", []string{from(item(all, config), item(gone, config))}, map[string]string{"": "refused "}},
		{"an unreadable demand", []string{from(item(all, config), item(web, `{}`))}, map[string]string{isWeb: "refused refused ", "": "demanded demanded "}},
		{"no items", []string{`{"targetRef":{"kind":"Mesh"}}`}, map[string]string{"": "forbidden forbidden "}},
		{"no spec", []string{`null`}, map[string]string{"": "forbidden forbidden "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := divided(t, sealed, c.specs...)
			if len(got) != len(c.want) {
				t.Errorf("routes are %v, want %v", got, c.want)
			}
			for who, want := range c.want {
				if got[who] != want {
					t.Errorf("%q is %q, want %q", who, got[who], want)
				}
			}
		})
	}
}

// TestProblemsNameTheCallers: a demand that cannot be checked is reported with the callers
// that it refuses, and one that nobody can meet because there are no certificates, too.
func TestProblemsNameTheCallers(t *testing.T) {
	const spec = `{"targetRef":{"kind":"Mesh"},"from":[{"targetRef":{"kind":"Mesh"},"default":{"config":{"global_credentials":true}}},
		{"targetRef":{"kind":"MeshService","name":"web"},"default":%}]}`
	for demand, c := range map[string]struct {
		mesh *mesh.Mesh
		want string
	}{
		`{"plugin":{"id":"2c6ac1be-5e0e-4a5c-9f0b-0d7b0f6d7c11"}}`: {sealed, "control plane default does not exist: every request of mesh.io/service=web is refused"},
		`{"config":{"global_credentials":true}}`:                   {&mesh.Mesh{}, "callers are known by their certificates, and the mesh has no mutual TLS: nobody is taken for mesh.io/service=web"},
		`{"config":{"global_credentials":true,"realm":"r"}}`:       {sealed, ""},
	} {
		_, s := divided(t, c.mesh, strings.Replace(spec, "%", demand, 1))
		if got := s.Facts.(policy.Problematic).Problem(); got != c.want {
			t.Errorf("the problem is %q, want %q", got, c.want)
		}
	}
}

// TestTooManyCallers: more callers than can be told apart are an error, which closes the
// routes.
func TestTooManyCallers(t *testing.T) {
	s := &policy.Selection{}
	for i := range 5 {
		var items []string
		for j := range 64 {
			items = append(items, `{"targetRef":{"kind":"MeshService","name":"s`+string(rune('a'+i))+strings.Repeat("x", j)+`"},"default":{"config":{"global_credentials":true}}}`)
		}
		name, spec := policytest.Decode(t, Kind, []byte(`{"type":"MeshTokenAuth","mesh":"demo","name":"x","spec":{"targetRef":{"kind":"Mesh"},"from":[`+strings.Join(items, ",")+`]}}`))
		s.Policies = append(s.Policies, []*view.Policy{policytest.Of(Kind, name, spec)}...)
	}
	s.Facts = Policy.Facts(policy.World{Mesh: sealed}, s.Policies)
	d := policytest.NewDrafts("http", true)
	if err := errors.Join(d.Apply(Policy, s), d.Demand(Policy, s)); err == nil {
		t.Error("no error")
	}
}
