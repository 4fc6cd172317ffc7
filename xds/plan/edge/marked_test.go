package edge

import (
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// TestEveryRouteSaysWhatItHas covers each kind of route that a table has: with a chain and
// without, guards, answers before the plugins, answers in the place of a service, the OAuth
// server's, and the one for what nothing matches. The filter refuses the requests of a route
// that says nothing. [tableOf] requires the same of every table in these tests.
func TestEveryRouteSaysWhatItHas(t *testing.T) {
	w := loadWorld(t, "testdata/basic.in.yaml")
	w.put(gateway.Routes, id(2, 99), 99, routeSpec("", "/without/a/service"))
	table := tableOf(t, NewPlanner(testParams).Plan(w.state()).Set)
	chained, without := 0, map[string]bool{}
	for _, r := range routesOf(t, table) {
		if mark(r) != contract.NoChain {
			chained++
			continue
		}
		why := r.GetMetadata().GetFilterMetadata()[contract.MetadataNamespace].GetFields()[contract.MetaReason].GetStringValue()
		if r.Name == contract.OAuthCluster {
			why = r.Name
		}
		without[why] = true
	}
	if chained < 2 {
		t.Errorf("%d routes have a chain", chained)
	}
	for _, why := range []contract.Reason{"", contract.ReasonMethod, contract.ReasonPath, contract.ReasonNoRoute, contract.ReasonHTTPSRequired, contract.ReasonNoService, contract.OAuthCluster} {
		if !without[string(why)] {
			t.Errorf("there is no route %q without a chain", why)
		}
	}
}

// eachSays requires that every route of a table names a chain that the table carries, or says
// that it has none.
func eachSays(t tb, table *routev3.RouteConfiguration) {
	t.Helper()
	chains := map[[16]byte][]byte{}
	if table.TypedPerFilterConfig[contract.FilterName] != nil {
		chains = encodedChains(t, table)
	}
	for _, r := range routesOf(t, table) {
		said := saidBy(t, r)
		if said != nil && chains[said.Content] == nil {
			t.Fatalf("route %s names a chain that its table does not carry", r.Name)
		}
	}
}

// routesOf lists all routes of a table.
func routesOf(t tb, table *routev3.RouteConfiguration) (all []*routev3.Route) {
	t.Helper()
	for _, v := range table.VirtualHosts {
		all = append(all, v.Routes...)
		everyAction(v.Matcher, func(c *xdscorev3.TypedExtensionConfig) {
			m, err := c.TypedConfig.UnmarshalNew()
			if err != nil {
				t.Fatal(err)
			}
			switch m := m.(type) {
			case *routev3.Route:
				all = append(all, m)
			case *routev3.RouteList:
				all = append(all, m.Routes...)
			default:
				t.Fatalf("%T leads nowhere", m)
			}
		})
	}
	return all
}
