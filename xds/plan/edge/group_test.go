package edge

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestGroupIsPlannedLikeOneControlPlane plans the same entities spread over two members,
// and in one control plane: a gateway is sent the same, but for whose a service is.
func TestGroupIsPlannedLikeOneControlPlane(t *testing.T) {
	apart, together := planOf(t, "a", "b"), planOf(t, "b", "b")
	if len(apart.Failures) != 0 || apart.Set == nil {
		t.Fatalf("the group is not planned: %+v", apart.Failures)
	}
	named, same := []byte(`"service_plane":"a"`), []byte(`"service_plane":"b"`)
	if !says(apart.Set, string(named)) || says(together.Set, string(named)) {
		t.Error("chains do not say whose their services are")
	}
	for _, typ := range []resource.TypeURL{resource.Cluster, resource.Endpoint, resource.Route, resource.Listener} {
		got, want := bodies(apart.Set, typ), bodies(together.Set, typ)
		for name := range got { // routes name chains by their contents
			got[name] = contents.ReplaceAllString(strings.ReplaceAll(got[name], string(named), string(same)), "a chain")
			want[name] = contents.ReplaceAllString(want[name], "a chain")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: a group is planned in another way than the same entities in one control plane (-one +group):\n%s", typ, diff)
		}
	}
	if alone := planOf(t, "a", "other"); apart.Set.Equal(alone.Set) {
		t.Error("the entities of a member make no difference")
	}
}

var contents = regexp.MustCompile(`[0-9a-f]{32}`)

func bodies(s *resource.Set, typ resource.TypeURL) map[string]string {
	out := map[string]string{}
	for _, r := range s.All(typ) {
		out[r.Name] = string(r.Body)
	}
	return out
}

// planOf plans the group of a and b, with what the two places hold.
func planOf(t *testing.T, first, second string) Result {
	t.Helper()
	var rows []*model.Resource
	for n, scope := range []string{first, second} {
		rows = append(rows,
			row(scope, gateway.Services, id(1, n), serviceSpec("/x")),
			row(scope, gateway.Routes, id(2, n), routeSpec(id(1, n), "/"+id(2, n))),
			row(scope, gateway.Plugins, id(3, n), pluginSpec(t, id(2, n), "", nil)),
			row(scope, gateway.Consumers, id(4, n), &gateway.Consumer{Username: id(4, n)}))
	}
	_, out := planned(t, rows...)
	return out
}

// planned plans the group of a and b with resources that are created one after another.
func planned(t *testing.T, rows ...*model.Resource) (*view.Gateway, Result) {
	t.Helper()
	s := memstore.New()
	defer func() { _ = s.Close() }()
	var g *view.Gateway
	for _, r := range rows { // one after the other: who was there first has a part
		if _, err := s.Update(context.Background(), model.Config, func(tx store.Tx) error {
			_, err := tx.Create(r)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.View(context.Background(), func(r store.Reader) (err error) {
		g, err = view.LoadSource("all", scopes.Union(r, "a", "b"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	out := NewPlanner(Params{Address: "127.0.0.1", HTTPPort: 8000, HTTPSPort: 8443}).Plan(g)
	if out.Set == nil {
		t.Fatalf("nothing is planned: %+v", out.Failures)
	}
	return g, out
}

func row(scope string, k *model.Kind, name string, spec any) *model.Resource {
	return &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
}

// says reports whether some resource of a set contains a text.
func says(s *resource.Set, text string) bool {
	for _, typ := range []resource.TypeURL{resource.Cluster, resource.Endpoint, resource.Route, resource.Listener} {
		for _, r := range s.All(typ) {
			if bytes.Contains(r.Body, []byte(text)) {
				return true
			}
		}
	}
	return false
}

// TestMembersNameTheirOwn plans what a names and does not have, while b has it. Nothing of
// b may serve a; with everything in a it does, which shows that the marks would be seen.
func TestMembersNameTheirOwn(t *testing.T) {
	secure := serviceSpec("/x")
	secure.Protocol, secure.CACertificates = "https", []string{id(9, 1)}
	called := serviceSpec("/x")
	called.Host = "orders.internal"
	for name, c := range map[string]struct {
		service *gateway.Service
		offers  func(scope string) []*model.Resource
		mark    string
	}{
		"upstream": {called, func(scope string) []*model.Resource {
			return []*model.Resource{
				row(scope, gateway.Upstreams, id(5, 1), &gateway.Upstream{Name: "Orders.internal", Slots: 100, HostHeader: "mark.test"}),
				row(scope, gateway.Targets, id(6, 1), &gateway.UpstreamTarget{Upstream: id(5, 1), Target: "10.6.6.6:80", Weight: 100}),
			}
		}, "mark.test"},
		"targets": {called, func(scope string) []*model.Resource {
			return []*model.Resource{
				row(scope, gateway.Upstreams, id(5, 1), &gateway.Upstream{Name: "orders.internal", Slots: 100}),
				row(scope, gateway.Targets, id(6, 1), &gateway.UpstreamTarget{Upstream: id(5, 1), Target: "10.6.6.6:80", Weight: 100}),
			}
		}, "10.6.6.6"},
		"authority": {secure, func(scope string) []*model.Resource {
			return []*model.Resource{row(scope, gateway.CACertificates, id(9, 1), &gateway.CACertificate{Cert: "authority-mark", CertDigest: "d"})}
		}, "authority-mark"},
		"global plugin": {serviceSpec("/x"), func(scope string) []*model.Resource {
			return []*model.Resource{row(scope, gateway.Plugins, id(3, 1), &gateway.Plugin{
				Name: gateway.PluginRequestTermination, Enabled: true, Config: []byte(`{"status_code":503,"message":"plugin-mark"}`),
			})}
		}, "plugin-mark"},
	} {
		t.Run(name, func(t *testing.T) {
			for scope, want := range map[string]bool{"a": true, "b": false} {
				rows := c.offers(scope)
				service := *c.service
				if scope == "b" && len(service.CACertificates) > 0 { // the store refuses references to nothing
					rows = append(rows, row("a", gateway.CACertificates, id(9, 1), &gateway.CACertificate{Cert: "other", CertDigest: "e"}))
				}
				rows = append(rows,
					row("a", gateway.Services, id(1, 1), &service),
					row("a", gateway.Routes, id(2, 1), routeSpec(id(1, 1), "/orders")))
				if _, out := planned(t, rows...); says(out.Set, c.mark) != want {
					t.Errorf("with what is in %s, a's service is planned with it: %t", scope, !want)
				}
			}
		})
	}
}

// TestServerNamesLeadToTheirOwnCertificate has the certificate of a's server name left out,
// because b had its id first: nobody is shown b's certificate for the name of a.
func TestServerNamesLeadToTheirOwnCertificate(t *testing.T) {
	_, out := planned(t,
		row("b", gateway.Certificates, id(7, 1), &gateway.Certificate{Cert: "b"}),
		row("b", gateway.SNIs, id(8, 2), &gateway.SNI{Name: "b.test", Certificate: id(7, 1)}),
		row("a", gateway.Certificates, id(7, 1), &gateway.Certificate{Cert: "a"}),
		row("a", gateway.SNIs, id(8, 1), &gateway.SNI{Name: "a.test", Certificate: id(7, 1)}))
	if !says(out.Set, "b.test") || says(out.Set, "a.test") {
		t.Errorf("server name of b: %t, of a: %t", says(out.Set, "b.test"), says(out.Set, "a.test"))
	}
}

// TestWhatIsLeftOutIsClosed has b make, first, what opens something if a does not have it.
// Requests of a are refused then; they neither pass unprotected nor go where others say.
func TestWhatIsLeftOutIsClosed(t *testing.T) {
	service, called := serviceSpec("/x"), serviceSpec("/x")
	called.Host = "orders.internal"
	of := func(s *gateway.Service) []*model.Resource {
		return []*model.Resource{
			row("a", gateway.Services, id(1, 1), s),
			row("a", gateway.Routes, id(2, 1), routeSpec(id(1, 1), "/orders")),
		}
	}
	ends := &gateway.Plugin{Name: gateway.PluginRequestTermination, Enabled: true, Config: []byte(`{"status_code":503}`)}
	bound := *ends
	bound.Consumer = id(4, 1)
	for name, rows := range map[string][]*model.Resource{
		"oauth2 plugin": append([]*model.Resource{
			row("b", gateway.Plugins, id(3, 1), ends),
			row("a", gateway.Plugins, id(3, 1), pluginSpec(t, "", "", nil)),
		}, of(service)...),
		"plugin of a consumer": append([]*model.Resource{
			row("b", gateway.Plugins, id(3, 1), ends),
			row("a", gateway.Consumers, id(4, 1), &gateway.Consumer{Username: "eve"}),
			row("a", gateway.Plugins, id(3, 1), &bound),
		}, of(service)...),
		"request-termination": append([]*model.Resource{
			row("b", gateway.Plugins, id(3, 1), ends),
			row("a", gateway.Plugins, id(3, 1), ends),
		}, of(service)...),
		"service": append([]*model.Resource{row("b", gateway.Services, id(1, 1), serviceSpec("/of-b"))}, of(service)...),
		"route": append([]*model.Resource{
			row("b", gateway.Services, id(1, 9), serviceSpec("/of-b")),
			row("b", gateway.Routes, id(2, 1), routeSpec(id(1, 9), "/b")),
		}, of(service)...),
		"upstream": append([]*model.Resource{
			row("b", gateway.Upstreams, id(5, 1), &gateway.Upstream{Name: "of-b", Slots: 100}),
			row("a", gateway.Upstreams, id(5, 1), &gateway.Upstream{Name: "orders.internal", Slots: 100}),
		}, of(called)...),
	} {
		t.Run(name, func(t *testing.T) {
			g, _ := planned(t, rows...)
			if n := len(g.LeftOut()); n != 1 {
				t.Fatalf("%d are left out: %+v", n, g.LeftOut())
			}
			p := NewPlanner(Params{Address: "127.0.0.1", HTTPPort: 8000})
			var found *routeCell
			for _, c := range p.routes(g, destinations(p, g)) {
				for _, w := range c.ways {
					if w.Path == "/orders" {
						found = c
					}
				}
			}
			if found == nil {
				t.Fatal("no way leads to the route: its requests go by others")
			}
			for _, w := range found.ways {
				if body := w.then.GetAction().GetTypedConfig().GetValue(); !bytes.Contains(body, []byte(misconfigured)) && !bytes.Contains(body, []byte("no Service found")) {
					t.Errorf("the route is not refused: %s", body)
				}
			}
		})
	}
}

func destinations(p *Planner, g *view.Gateway) map[string]destination {
	_, to := p.clusters(g, map[string]string{})
	return to
}
