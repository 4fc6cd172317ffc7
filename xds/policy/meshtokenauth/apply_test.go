package meshtokenauth

import (
	"context"
	"strings"
	"testing"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

const (
	pluginID  = "2c6ac1be-5e0e-4a5c-9f0b-0d7b0f6d7c11"
	serviceID = "2c6ac1be-5e0e-4a5c-9f0b-0d7b0f6d7c22"
	routeID   = "2c6ac1be-5e0e-4a5c-9f0b-0d7b0f6d7c33"
)

// plugged is a control plane with one plugin instance.
type plugged struct{ g *view.Gateway }

func (p plugged) Gateway(name string) (*view.Gateway, error) {
	if name == model.DefaultControlPlane {
		return p.g, nil
	}
	return nil, nil
}

func with(t *testing.T, plugin *gateway.Plugin) plugged {
	t.Helper()
	db := memstore.New()
	t.Cleanup(func() { _ = db.Close() })
	put := func(tx store.Tx, k *model.Kind, id string, spec any) error {
		_, err := tx.Create(&model.Resource{Kind: k, Scope: model.DefaultControlPlane, Name: id, Spec: spec})
		return err
	}
	_, err := db.Update(context.Background(), model.Config, func(tx store.Tx) error {
		if err := put(tx, gateway.Services, serviceID, &gateway.Service{Protocol: "http", Host: "127.0.0.1", Port: 9000, Enabled: true}); err != nil {
			return err
		}
		if err := put(tx, gateway.Routes, routeID, &gateway.Route{Protocols: []string{"http"}, Paths: []string{"/"}, Service: serviceID}); err != nil {
			return err
		}
		if plugin == nil {
			return nil
		}
		return put(tx, gateway.Plugins, pluginID, plugin)
	})
	if err != nil {
		t.Fatal(err)
	}
	var g *view.Gateway
	err = db.View(context.Background(), func(r store.Reader) (err error) {
		g, err = view.Load(model.DefaultControlPlane, r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return plugged{g}
}

func oauth2(edit func(*gateway.Plugin)) *gateway.Plugin {
	p := &gateway.Plugin{Name: gateway.PluginOAuth2, Enabled: true, Service: serviceID, Config: []byte(`{"auth_header_name":"Authorization"}`)}
	edit(p)
	return p
}

// selection returns the selection of a policy that names the plugin instance.
func selection(t *testing.T, o policy.Outside) *policy.Selection {
	t.Helper()
	text := `{"type":"MeshTokenAuth","mesh":"demo","name":"x","spec":{"targetRef":{"kind":"Mesh"},"from":[{"targetRef":{"kind":"Mesh"},"default":{"plugin":{"id":"` + pluginID + `"}}}]}}`
	s := &policy.Selection{Policies: policytest.Resource(t, Kind, []byte(text))}
	s.Facts = facts(policy.World{Outside: o}, s.Policies)
	return s
}

// applied returns the chain in the routes of an inbound, and the status that they answer
// themselves.
func applied(t *testing.T, s *policy.Selection) (c *contract.Chain, status uint32) {
	t.Helper()
	d := policytest.NewDrafts("http", true)
	if err := d.Apply(Policy, s); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Freeze(); err != nil {
		t.Fatal(err)
	}
	if !d.Inbound.NoOpaque || len(d.Inbound.Filters.Filters()) != 1 {
		t.Errorf("NoOpaque is %t, filters are %v", d.Inbound.NoOpaque, d.Inbound.Filters.Filters())
	}
	routes := d.InboundRoutes.Host.GetRoutes()
	if len(routes) == 1 {
		status = routes[0].GetDirectResponse().GetStatus()
	}
	packed := d.InboundRoutes.Host.GetTypedPerFilterConfig()[contract.FilterName]
	if packed == nil {
		return nil, status
	}
	var per filterv3.DynamicModuleFilterPerRoute
	var body wrapperspb.StringValue
	if err := packed.UnmarshalTo(&per); err != nil {
		t.Fatal(err)
	}
	if err := per.GetFilterConfig().UnmarshalTo(&body); err != nil {
		t.Fatal(err)
	}
	c, err := contract.ParseChain([]byte(body.GetValue()))
	if err != nil {
		t.Fatal(err)
	}
	return c, status
}

// TestPluginThatCannotBeEnforcedRefuses checks that every request is refused and the reason
// reported.
func TestPluginThatCannotBeEnforcedRefuses(t *testing.T) {
	for _, c := range []struct {
		name, problem string
		outside       policy.Outside
	}{
		{"no gateways", "control plane default does not exist", nil},
		{"control plane is missing", "control plane default does not exist", plugged{}},
		{"plugin is missing", "does not exist", with(t, nil)},
		{"plugin is disabled", "is disabled", with(t, oauth2(func(p *gateway.Plugin) { p.Enabled = false }))},
		{"another plugin", "is key-auth and not oauth2", with(t, oauth2(func(p *gateway.Plugin) { p.Name = "key-auth" }))},
		{"of no service", "belongs to no service", with(t, oauth2(func(p *gateway.Plugin) { p.Service = "" }))},
		{"unreadable", "cannot be told", with(t, oauth2(func(p *gateway.Plugin) { p.Config = []byte(`{}`) }))},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := selection(t, c.outside)
			if f, ok := s.Facts.(policy.Problematic); !ok || !strings.Contains(f.Problem(), c.problem) {
				t.Errorf("facts are %+v, want a problem with %q", s.Facts, c.problem)
			}
			if got, status := applied(t, s); got != nil || status != 503 {
				t.Errorf("the routes answer %d and carry %+v", status, got)
			}
		})
	}
}

// TestConfigThatCannotBeEnforcedRefuses: a policy may have been stored before such header
// names were refused. Its routes answer 503 and do not go without a check.
func TestConfigThatCannotBeEnforcedRefuses(t *testing.T) {
	text := `{"type":"MeshTokenAuth","mesh":"demo","name":"x","spec":{"targetRef":{"kind":"Mesh"},"from":[{"targetRef":{"kind":"Mesh"},"default":{"config":{"global_credentials":true,"auth_header_name":"X-Credential-Token"}}}]}}`
	name, spec := policytest.Decode(t, Kind, []byte(text))
	chosen := []*view.Policy{policytest.Of(Kind, name, spec)}
	s := &policy.Selection{Policies: chosen, Facts: Policy.Facts(policy.World{}, chosen)}
	if f, ok := s.Facts.(policy.Problematic); !ok || !strings.Contains(f.Problem(), "x-credential-token") {
		t.Errorf("facts are %+v", s.Facts)
	}
	if got, status := applied(t, s); got != nil || status != 503 {
		t.Errorf("the routes answer %d and carry %+v", status, got)
	}
}

// TestTokensAreOfThePluginsService: tokens belong to the service of the plugin or of its
// route.
func TestTokensAreOfThePluginsService(t *testing.T) {
	plain := contract.OAuth2{Header: "authorization", InBody: true}
	global := contract.OAuth2{Header: "authorization", Global: true, InBody: true}
	for _, c := range []struct {
		name    string
		edit    func(*gateway.Plugin)
		service string
		oauth2  contract.OAuth2
	}{
		{"service", func(*gateway.Plugin) {}, serviceID, plain},
		{"route", func(p *gateway.Plugin) { p.Service, p.Route = "", routeID }, serviceID, plain},
		{"none", func(p *gateway.Plugin) {
			p.Service, p.Config = "", []byte(`{"auth_header_name":"Authorization","global_credentials":true}`)
		}, "", global},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := selection(t, with(t, oauth2(c.edit)))
			if p := s.Facts.(policy.Problematic).Problem(); p != "" {
				t.Error(p)
			}
			got, status := applied(t, s)
			want := &contract.Chain{Route: "x", Service: c.service, Plugins: []contract.Plugin{{ID: pluginID, OAuth2: &c.oauth2}}}
			if diff := cmp.Diff(want, got); diff != "" || status != 0 {
				t.Errorf("status %d, chain (-want +got):\n%s", status, diff)
			}
		})
	}
}

// TestInlineConfig: an inline configuration needs no plugin instance.
func TestInlineConfig(t *testing.T) {
	text := `{"type":"MeshTokenAuth","mesh":"demo","name":"x","spec":{"targetRef":{"kind":"Mesh"},"from":[{"targetRef":{"kind":"Mesh"},"default":{"config":{"global_credentials":true,"auth_header_name":"X-Token","realm":"r","hide_credentials":true}}}]}}`
	got, status := applied(t, policytest.Select(t, Policy, []byte(text)))
	want := &contract.Chain{Route: "x", Plugins: []contract.Plugin{{ID: InlineID("x"), OAuth2: &contract.OAuth2{Header: "x-token", Realm: "r", Global: true, HideCredentials: true, InBody: true}}}}
	if diff := cmp.Diff(want, got); diff != "" || status != 0 {
		t.Errorf("status %d, chain (-want +got):\n%s", status, diff)
	}
}

// TestFactsAreEqualUntilThePluginChanges: facts are parts of keys, so equal ones must compare
// equal.
func TestFactsAreEqualUntilThePluginChanges(t *testing.T) {
	o := with(t, oauth2(func(*gateway.Plugin) {}))
	first, second := selection(t, o).Facts, selection(t, o).Facts
	if first != second {
		t.Error("the same plugin makes other facts")
	}
	if other := selection(t, with(t, oauth2(func(p *gateway.Plugin) { p.Enabled = false }))).Facts; first == other {
		t.Error("a disabled plugin makes the same facts")
	}
}
