package edge

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// changed lists what differs between two sets.
func changed(a, b *resource.Set) []string {
	var out []string
	for _, kind := range resource.Types {
		d := b.Diff(a, kind)
		for _, r := range d.Changed {
			out = append(out, r.Name)
		}
		for _, name := range d.Removed {
			out = append(out, "-"+name)
		}
	}
	return out
}

func manyRoutes(w *world, n int) {
	w.put(gateway.Services, id(1, 0), 1, serviceSpec("/s"))
	_, err := w.store.Update(w.ctx(), model.Config, func(tx store.Tx) error {
		for i := range n {
			_, err := tx.Create(&model.Resource{
				Kind: gateway.Routes, Scope: model.DefaultControlPlane, Name: id(2, i), Spec: routeSpec(id(1, 0), fmt.Sprintf("/r%d", i)),
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestOneRouteChangesOneResource(t *testing.T) {
	w := newWorld(t)
	manyRoutes(w, 1000)
	p := NewPlanner(testParams)
	before := p.Plan(w.state()).Set
	if again := p.Plan(w.state()).Set; again.Get(resource.Route, tableName) != before.Get(resource.Route, tableName) {
		t.Error("a table that did not change was built again")
	}
	w.put(gateway.Routes, id(2, 500), 1, routeSpec(id(1, 0), "/other"))
	after := p.Plan(w.state()).Set
	if diff := cmp.Diff([]string{tableName}, changed(before, after)); diff != "" {
		t.Errorf("changed resources (-want +got):\n%s", diff)
	}
	for _, req := range []struct{ path, want string }{
		{"/r499/x", "to " + id(2, 499) + " /s/x"}, {"/r999", "to " + id(2, 999) + " /s"},
		{"/other", "to " + id(2, 500) + " /s"}, {"/nowhere", "404 "},
	} {
		if got := evaluate(t, after, request{method: "GET", host: "x", path: req.path}); got != req.want {
			t.Errorf("%s: %s, want %s", req.path, got, req.want)
		}
	}
	var table routev3.RouteConfiguration
	if err := proto.Unmarshal(after.Get(resource.Route, tableName).Body, &table); err != nil {
		t.Fatal(err)
	}
	if table.VirtualHosts[0].Matcher == nil {
		t.Error("a thousand routes are a list")
	}
}

func TestEnvoyAcceptsTrees(t *testing.T) {
	w := newWorld(t)
	manyRoutes(w, 100)
	validate(t, NewPlanner(testParams).Plan(w.state()).Set)
}

func TestServiceChangeIsANewCluster(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, serviceSpec("/s"))
	w.put(gateway.Routes, id(2, 0), 1, routeSpec(id(1, 0), "/a"))
	p := NewPlanner(testParams)
	before := p.Plan(w.state()).Set
	s := serviceSpec("/s")
	s.Port = 9001
	w.put(gateway.Services, id(1, 0), 1, s)
	got := changed(before, p.Plan(w.state()).Set)
	if len(got) != 3 || !strings.HasPrefix(got[0], "service:"+id(1, 0)+":") || got[1] != "-"+strings.TrimPrefix(got[1], "-") || got[2] != tableName {
		t.Errorf("changed resources are %v, want a cluster, a removal and the table", got)
	}
	s = serviceSpec("/t")
	s.Port = 9001
	before = p.Plan(w.state()).Set
	w.put(gateway.Services, id(1, 0), 1, s)
	if diff := cmp.Diff([]string{tableName}, changed(before, p.Plan(w.state()).Set)); diff != "" {
		t.Errorf("a path of a service (-want +got):\n%s", diff)
	}
}

// TestOrderOfWritesIsInvisible writes the same resources in other orders.
func TestOrderOfWritesIsInvisible(t *testing.T) {
	var first *resource.Set
	for seed := range uint64(5) {
		w := newWorld(t)
		w.put(gateway.Services, id(1, 0), 1, serviceSpec("/s"))
		for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(100) {
			r := routeSpec(id(1, 0), fmt.Sprintf("/r%d", i%50), "/common")
			r.Hosts = []string{"B.test", fmt.Sprintf("h%d.test", i%3)}
			w.put(gateway.Routes, id(2, i), int64(i%7), r)
		}
		set := NewPlanner(testParams).Plan(w.state()).Set
		if first == nil {
			first = set
		}
		if got := changed(first, set); len(got) > 0 {
			t.Fatalf("seed %d: other bytes in %v", seed, got)
		}
	}
}

func TestPluginsReachRoutesOnly(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, serviceSpec(""))
	w.put(gateway.Routes, id(2, 0), 1, routeSpec(id(1, 0), "/a"))
	w.put(gateway.Routes, id(2, 1), 2, routeSpec("", "/b"))
	https := routeSpec(id(1, 0), "/c")
	https.Protocols = []string{"https"}
	w.put(gateway.Routes, id(2, 2), 3, https)
	p := NewPlanner(testParams)
	before := p.Plan(w.state()).Set
	w.put(gateway.Plugins, id(3, 0), 1, pluginSpec(t, "", "", nil))
	after := p.Plan(w.state()).Set
	if diff := cmp.Diff([]string{tableName}, changed(before, after)); diff != "" {
		t.Errorf("changed resources (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		req  request
		want string
	}{
		{request{path: "/a", scheme: "http"}, "to " + id(2, 0) + " / filtered"},
		{request{path: "/b", scheme: "http"}, "503 " + id(2, 1) + " filtered"},
		{request{path: "/c", scheme: "http"}, "426 " + id(2, 2)},
		{request{path: "/c", scheme: "https"}, "to " + id(2, 2) + " / filtered"},
		{request{path: "/d", scheme: "http"}, "404 "},
		{request{path: "/a/oauth2/token", scheme: "http", issuing: true}, "to oauth2 /a/oauth2/token"},
	} {
		if got := evaluate(t, after, c.req); got != c.want {
			t.Errorf("%+v: %s, want %s", c.req, got, c.want)
		}
	}
	if got := evaluate(t, before, request{path: "/a", issuing: true}); got != "to "+id(2, 0)+" /" {
		t.Errorf("without any chain: %s", got)
	}
}

func TestChain(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, serviceSpec(""))
	w.put(gateway.Routes, id(2, 0), 1, routeSpec(id(1, 0), "/a"))
	w.put(gateway.Consumers, id(4, 0), 1, &gateway.Consumer{Username: "guest", CustomID: "c"})
	w.put(gateway.Plugins, id(3, 0), 1, pluginSpec(t, id(2, 0), "", func(c *gateway.OAuth2Config) {
		c.AuthHeaderName, c.Realm, c.Anonymous, c.HideCredentials, c.GlobalCredentials = "X-Auth", "r", "guest", true, true
	}))
	g := w.state()
	body, err := chain.Encode(contract.Chain{Route: id(2, 0), Service: id(1, 0)}, chain.Effective(g, g.Scope(), id(2, 0), id(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := contract.ParseChain(body)
	if err != nil {
		t.Fatal(err)
	}
	want := &contract.Chain{Route: id(2, 0), Service: id(1, 0), Plugins: []contract.Plugin{{
		ID: id(3, 0), OAuth2: &contract.OAuth2{
			Header: "x-auth", Realm: "r", Global: true, HideCredentials: true, InBody: true,
			Anonymous: &contract.Anonymous{Configured: "guest", Consumer: &contract.Consumer{ID: id(4, 0), Username: "guest", CustomID: "c"}},
		},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("chain (-want +got):\n%s", diff)
	}
	// The store lets nobody delete the consumer, but a name may be used before anybody
	// has it.
	w.put(gateway.Plugins, id(3, 0), 2, pluginSpec(t, id(2, 0), "", func(c *gateway.OAuth2Config) { c.Anonymous = "nobody" }))
	g = w.state()
	body, err = chain.Encode(contract.Chain{Route: id(2, 0), Service: id(1, 0)}, chain.Effective(g, g.Scope(), id(2, 0), id(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err = contract.ParseChain(body); err != nil || got.Plugins[0].OAuth2.Anonymous == nil || got.Plugins[0].OAuth2.Anonymous.Consumer != nil {
		t.Errorf("a missing anonymous consumer is not said to be missing: %s, %v", body, err)
	}
}

// TestOnlyGatewaysIssue: a chain says that it issues only on the route of a gateway
// that has an OAuth server, and only with an oauth2 plugin.
func TestOnlyGatewaysIssue(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, serviceSpec(""))
	w.put(gateway.Routes, id(2, 0), 1, routeSpec(id(1, 0), "/a"))
	w.put(gateway.Routes, id(2, 1), 1, routeSpec(id(1, 0), "/b"))
	w.put(gateway.Plugins, id(3, 0), 1, pluginSpec(t, id(2, 0), "", func(*gateway.OAuth2Config) {}))
	w.put(gateway.Plugins, id(3, 1), 1, &gateway.Plugin{
		Name: gateway.PluginKeyAuth, Route: id(2, 1), Enabled: true, Config: []byte(`{"key_names":["apikey"],"key_in_header":true}`),
	})
	g := w.state()
	for name, c := range map[string]struct {
		base contract.Chain
		at   string
		want bool
	}{
		"gateway":             {contract.Chain{Route: "r", Issues: true}, id(2, 0), true},
		"sidecar":             {contract.Chain{Route: "r"}, id(2, 0), false},
		"gateway without one": {contract.Chain{Route: "r", Issues: true}, id(2, 1), false},
	} {
		body, err := chain.Encode(c.base, chain.Effective(g, g.Scope(), c.at, id(1, 0)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := contract.ParseChain(body); err != nil || got.Issues != c.want {
			t.Errorf("%s: %s, %v", name, body, err)
		}
	}
	for _, oauth := range []bool{true, false} {
		r, _ := g.Route(id(2, 0))
		s, _ := g.Service(id(1, 0))
		cell, err := buildRoute(routeKey{route: r, service: s, to: destination{cluster: "c"}, plugins: chain.Effective(g, g.Scope(), id(2, 0), id(1, 0)), oauth: oauth})
		if err != nil || cell.broken != nil {
			t.Fatal(err, cell.broken)
		}
		sent := string(bytes.Join(cell.chains, nil))
		if got := strings.Contains(sent, `"issues":true`); got != oauth || sent == "" {
			t.Errorf("a route with an OAuth server: %t, issues: %t", oauth, got)
		}
	}
}

// TestBrokenRoutesAreNeverWider checks that what cannot be planned refuses, or
// is left out, and is reported.
func TestBrokenRoutesAreNeverWider(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, serviceSpec(""))
	w.put(gateway.Routes, id(2, 0), 1, routeSpec(id(1, 0), "/broken"))
	w.put(gateway.Routes, id(2, 1), 1, routeSpec(id(1, 0), "/broken/below"))
	broken := pluginSpec(t, id(2, 0), "", nil)
	broken.Config = []byte(`{"auth_header_name":"a","misspelt":true}`)
	w.put(gateway.Plugins, id(3, 0), 1, broken)
	headers := routeSpec(id(1, 0), "/headers")
	headers.Headers = map[string][]string{"x": {"~*("}}
	w.put(gateway.Routes, id(2, 2), 1, headers)
	r := NewPlanner(testParams).Plan(w.state())
	for path, want := range map[string]string{
		"/broken": "503 " + id(2, 0), "/broken/below": "to " + id(2, 1) + " /", "/headers": "404 ",
	} {
		if got := evaluate(t, r.Set, request{path: path}); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if len(r.Failures) != 2 || r.Failures[0].Cell != "route "+id(2, 0) || r.Failures[1].Cell != "route "+id(2, 2) {
		t.Errorf("failures are %+v", r.Failures)
	}
}

// TestOAuthRouteCannotBeChosenByClients: nothing of a request selects that route before the
// filter has run, and the filter removes what clients say on every route.
func TestOAuthRouteCannotBeChosenByClients(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, serviceSpec(""))
	w.put(gateway.Routes, id(2, 0), 1, routeSpec(id(1, 0), "/a"))
	w.put(gateway.Plugins, id(3, 0), 1, pluginSpec(t, id(2, 0), "", nil))
	set := NewPlanner(testParams).Plan(w.state()).Set
	said := request{path: "/a", headers: map[string]string{}}
	for _, name := range contract.OAuthHeaders {
		said.headers[name] = id(3, 0)
		said.headers[strings.ReplaceAll(name, "-", "_")] = id(3, 0)
	}
	said.headers[contract.StateOAuth] = contract.StateHandedOver
	if got, want := evaluate(t, set, said), evaluate(t, set, request{path: "/a"}); got != want {
		t.Errorf("claims lead %s, others %s", got, want)
	}
	said.issuing = true
	if got := evaluate(t, set, said); !strings.Contains(got, contract.OAuthCluster) {
		t.Errorf("handed over, it leads %s", got)
	}
	params := testParams
	params.Filter = contract.ModeExtAuthz
	asked := NewPlanner(params).Plan(w.state()).Set
	if got := evaluate(t, asked, said); !strings.Contains(got, contract.OAuthCluster) {
		t.Errorf("handed over by an authorization service, it leads %s", got)
	}
	said.issuing = false
	if got := evaluate(t, asked, said); got != "503 " {
		t.Errorf("with a header alone it leads %s", got)
	}
	f, err := chain.Filter(contract.ForwardingPeer)
	if err != nil {
		t.Fatal(err)
	}
	if f.GetDisabled() {
		t.Error("the filter does not run on routes without a chain")
	}
}

func TestVerifiedUpstreamNeedsRoots(t *testing.T) {
	k := clusterKey{id: "x", protocol: "https", host: "up.test", port: 443, tls: tlsKey{name: "up.test", verify: true, depth: -1}}
	if _, err := serviceCluster(k); err == nil {
		t.Error("a cluster that must verify was built without roots")
	}
	k.tls.verify = false
	if _, err := serviceCluster(k); err != nil {
		t.Error(err)
	}
}

func TestCellsKeepTheLastGoodValue(t *testing.T) {
	c := plan.NewCells()
	built := 0
	get := func(key int) (string, bool, []plan.Failure) {
		c.Begin()
		v, ok := plan.Cell(c, "cell", key, func(k int) (string, error) {
			built++
			switch k {
			case 2:
				return "", errors.New("no")
			case 3:
				panic("boom")
			}
			return fmt.Sprint(k), nil
		})
		return v, ok, c.End()
	}
	for _, step := range []struct {
		key, built, failures int
		value                string
		ok                   bool
	}{
		{3, 1, 1, "", false}, {1, 2, 0, "1", true}, {1, 2, 0, "1", true}, {2, 3, 1, "1", true},
		{2, 3, 1, "1", true}, {3, 4, 1, "1", true}, {4, 5, 0, "4", true},
	} {
		v, ok, failures := get(step.key)
		if v != step.value || ok != step.ok || built != step.built || len(failures) != step.failures {
			t.Errorf("key %d: %q %t after %d builds with %v, want %+v", step.key, v, ok, built, failures, step)
		}
	}
}
