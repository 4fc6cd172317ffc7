package edge

import (
	"bytes"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/resource"
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
	if filter := map[string]string{extAuthz{}.tableName(): contract.ExtAuthzFilter, golang{}.tableName(): contract.GolangFilter}[table.Name]; filter != "" {
		for _, r := range routesOf(t, table) {
			if r.TypedPerFilterConfig[filter] == nil {
				t.Fatalf("route %s of %s says nothing to %s", r.Name, table.Name, filter)
			}
		}
		return
	}
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

// TestTablesOfModes: the table of one mode is not that of another one. A gateway that refuses
// the listeners of a mode that it does not have keeps its own, and must not get a table in
// which they find no chains.
func TestTablesOfModes(t *testing.T) {
	named := map[string]contract.Mode{}
	for _, mode := range []contract.Mode{contract.ModeModule, contract.ModeExtAuthz, contract.ModeGolang} {
		params := testParams
		params.Filter = mode
		set := NewPlanner(params).Plan(loadWorld(t, "testdata/modes.yaml").state()).Set
		table := tableOf(t, set)
		if other, taken := named[table.Name]; taken {
			t.Errorf("%s and %s both name their table %s", mode, other, table.Name)
		}
		named[table.Name] = mode
		for _, l := range set.All(resource.Listener) {
			// Its length stands before the name, so no longer one passes for it.
			if !bytes.Contains(l.Body, append([]byte{byte(len(table.Name))}, table.Name...)) {
				t.Errorf("%s: listener %s does not subscribe to %s", mode, l.Name, table.Name)
			}
		}
	}
}
