package sidecar_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
	"github.com/meshgate/meshgate/xds/resource"
)

// guardedListeners are those of a gateway of which some are told apart by their tags.
const guardedListeners = `
  - {port: 18080, protocol: HTTP, hostname: front.example, tags: {door: front}}
  - {port: 18080, protocol: HTTP, hostname: back.example, tags: {door: back}}
  - {port: 18081, protocol: TCP, tags: {door: front}}
`

// tokensAt demands a token at a target.
func tokensAt(name, target, demand string) string {
	return fmt.Sprintf("type: MeshTokenAuth\nmesh: demo\nname: %s\nspec:\n  targetRef: %s\n  from: [{targetRef: {kind: Mesh}, default: %s}]\n", name, target, demand)
}

const (
	anyToken   = "{config: {global_credentials: true, realm: demo}}"
	noPlugin   = "{plugin: {id: 2c6ac1be-5e0e-4a5c-9f0b-0d7b0f6d7c11}}"
	wholeDoor  = "{kind: MeshGateway, name: g}"
	frontDoor  = "{kind: MeshGateway, name: g, tags: {door: front}}"
	everywhere = "{kind: Mesh}"
)

// atHosts says of each host of a gateway what is done with a request without a token: "demanded",
// the status of an answer to everything, or "open".
func atHosts(t *testing.T, set *resource.Set) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, v := range tableOf(t, set, edgeTable).GetVirtualHosts() {
		switch {
		case v.GetTypedPerFilterConfig()[contract.FilterName] != nil:
			out[v.GetName()] = "demanded"
		case len(v.GetRoutes()) == 1:
			out[v.GetName()] = fmt.Sprint(v.GetRoutes()[0].GetDirectResponse().GetStatus())
		default:
			out[v.GetName()] = "open"
		}
	}
	return out
}

// TestTokensAtListeners: a MeshTokenAuth for a gateway is in force at the listeners that it selects, one
// for proxies is not, and what cannot be checked refuses. The listeners stay, so that it is in force on
// connections that are open.
func TestTokensAtListeners(t *testing.T) {
	const front, back = "front.example", "back.example"
	for _, c := range []struct {
		name     string
		policies []string
		want     map[string]string
		told     string
	}{
		{"none", nil, map[string]string{front: "open", back: "open"}, ""},
		{"whole gateway", []string{tokensAt("a", wholeDoor, anyToken)}, map[string]string{front: "demanded", back: "demanded"}, "not applied: the listener speaks TCP"},
		{"by tags", []string{tokensAt("a", frontDoor, anyToken)}, map[string]string{front: "demanded", back: "open"}, "not applied: the listener speaks TCP"},
		{"more tags are stronger", []string{tokensAt("a", frontDoor, noPlugin), tokensAt("b", wholeDoor, anyToken)}, map[string]string{front: "503", back: "demanded"}, "every request is refused"},
		{"another gateway", []string{tokensAt("a", "{kind: MeshGateway, name: h}", anyToken)}, map[string]string{front: "open", back: "open"}, ""},
		{"the whole mesh", []string{tokensAt("a", everywhere, anyToken)}, map[string]string{front: "open", back: "open"}, ""},
		{"the service of the gateway", []string{tokensAt("a", "{kind: MeshService, name: edge}", anyToken)}, map[string]string{front: "open", back: "open"}, ""},
		{"the service with the tags", []string{tokensAt("a", "{kind: MeshSubset, tags: {door: front}}", anyToken)}, map[string]string{front: "open", back: "open"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := entered(t, all.Policies())
			w.gateway(t, guardedListeners)
			w.settle()
			before := w.planner.Set("edge-1").Get(resource.Listener, "gateway:127.0.0.51:18080")
			for _, text := range c.policies {
				w.apply(t, text)
				w.settle()
			}
			set := w.planner.Set("edge-1")
			got := atHosts(t, set)
			for host, want := range c.want {
				if got[host] != want {
					t.Errorf("%s is %q, want %q", host, got[host], want)
				}
			}
			if set.Get(resource.Listener, "gateway:127.0.0.51:18080") != before {
				t.Error("the listener changed, so open connections would go on without the check")
			}
			if failures := fmt.Sprint(w.planner.Failures("edge-1")); c.told == "" && failures != "[]" || !strings.Contains(failures, c.told) {
				t.Errorf("failures are %s, want %q", failures, c.told)
			}
			for _, text := range c.policies {
				w.drop(meshtokenauth.Kind, strings.Fields(text)[5])
			}
			w.settle()
			if got := atHosts(t, w.planner.Set("edge-1")); got[front] != "open" || got[back] != "open" {
				t.Errorf("without the policies the hosts are %v", got)
			}
		})
	}
}

// TestBareGatewayRefuses: an Envoy without the filter would refuse a listener that names it, so its routes
// refuse where tokens are demanded, and nowhere else.
func TestBareGatewayRefuses(t *testing.T) {
	w := entered(t, all.Policies())
	w.gateway(t, guardedListeners)
	w.apply(t, tokensAt("a", frontDoor, anyToken))
	w.planner.Bare("edge-1", true)
	w.settle()
	set := w.planner.Set("edge-1")
	if got := atHosts(t, set); got["front.example"] != "503" || got["back.example"] != "open" {
		t.Errorf("the hosts are %v", got)
	}
	if slices.Contains(filtersAt(t, set, "gateway:127.0.0.51:18080"), contract.FilterName) {
		t.Error("the listener names the filter")
	}
	w.planner.Bare("edge-1", false)
	w.settle()
	if got := atHosts(t, w.planner.Set("edge-1")); got["front.example"] != "demanded" {
		t.Errorf("with the filter the hosts are %v", got)
	}
}

// filtersAt names the HTTP filters of the first chain of a listener.
func filtersAt(t *testing.T, set *resource.Set, name string) (out []string) {
	t.Helper()
	l := load(t, set.Get(resource.Listener, name), new(listenerv3.Listener))
	filters := l.GetFilterChains()[0].GetFilters()
	m := new(hcmv3.HttpConnectionManager)
	if err := filters[len(filters)-1].GetTypedConfig().UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	for _, f := range m.GetHttpFilters() {
		out = append(out, f.GetName())
	}
	return out
}

// slowly are all policies, of which MeshTokenAuth waits while something is being read.
func slowly(reading func() bool) []*policy.Policy {
	policies := all.Policies()
	for i, p := range policies {
		if p.Kind == meshtokenauth.Kind {
			slow := *p
			slow.Facts = func(w policy.World, chosen []*view.Policy) any {
				if reading() {
					return beingRead{}
				}
				return p.Facts(w, chosen)
			}
			policies[i] = &slow
		}
	}
	return policies
}

// TestListenersWaitForTheCheck: a gateway is not planned a refusal because something has not been read
// yet. It keeps what it has, and one that has nothing waits.
func TestListenersWaitForTheCheck(t *testing.T) {
	policies := slowly(func() bool { return true })
	w := entered(t, policies)
	before := w.planner.Set("edge-1")
	w.apply(t, tokensAt("a", wholeDoor, anyToken))
	w.replan()
	if f := w.planner.Failures("edge-1"); w.planner.Set("edge-1") != before || len(f) != 1 || !f[0].Kept {
		t.Errorf("what it had is not kept: %+v", f)
	}
	planner := sidecar.New(policies, nil, logged, w.state())
	planner.Join("edge-1")
	planner.Plan()
	if planner.Set("edge-1") != nil || planner.Awaits("edge-1") != "it is being read" {
		t.Errorf("it begins with %v and waits for %q", planner.Set("edge-1"), planner.Awaits("edge-1"))
	}
	w.gateway(t, "  - {port: 18081, protocol: TCP}\n")
	planner.Update(w.state(), nil, true)
	planner.Plan()
	if planner.Set("edge-1") == nil || planner.Awaits("edge-1") != "" {
		t.Errorf("it waits for %q, which makes no difference to connections of TCP", planner.Awaits("edge-1"))
	}
}

// TestOnlyItsHostsWait: while something is being read for one listener of a gateway, its hosts stay as
// they are, and those that are new or lead elsewhere are closed. All others go on changing.
func TestOnlyItsHostsWait(t *testing.T) {
	reading := true
	w := entered(t, slowly(func() bool { return reading }))
	to := func(name, service string, hosts ...string) {
		t.Helper()
		w.gatewayRoute(t, name, "  http:\n    hostnames: ["+strings.Join(hosts, ", ")+"]\n    rules:\n    - matches: [{path: {match: PREFIX, value: /}}]\n      backends: [{weight: 1, destination: {mesh.io/service: "+service+"}}]\n")
	}
	more := strings.Replace(guardedListeners, "front.example", "\"*.front.example\"", 1)
	w.gateway(t, more)
	to("backend", "backend", "a.front.example", "back.example")
	to("ledger", "backend", "b.front.example")
	w.settle()
	leadsTo := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for _, v := range tableOf(t, w.planner.Set("edge-1"), edgeTable).GetVirtualHosts() {
			last := v.GetRoutes()[len(v.GetRoutes())-1]
			to := fmt.Sprint(last.GetDirectResponse().GetStatus())
			if last.GetRoute() != nil {
				to, _, _ = strings.Cut(last.GetRoute().GetCluster(), "-")
			}
			if v.GetTypedPerFilterConfig()[contract.FilterName] != nil {
				to = "with a token to " + to
			}
			got[v.GetName()] = to
		}
		if delete(got, "*.front.example"); !maps.Equal(got, want) {
			t.Errorf("the hosts lead to %v, want %v", got, want)
		}
	}
	leadsTo(map[string]string{"a.front.example": "backend", "b.front.example": "backend", "back.example": "backend"})
	w.apply(t, tokensAt("a", frontDoor, anyToken))
	w.gateway(t, more+"  - {port: 18080, protocol: HTTP, hostname: new.example, tags: {door: front}}\n")
	to("backend", "ledger", "a.front.example", "back.example", "new.example")
	w.settle()
	leadsTo(map[string]string{"a.front.example": "503", "b.front.example": "backend", "back.example": "ledger", "new.example": "503"})
	if f := fmt.Sprint(w.planner.Failures("edge-1")); w.planner.Awaits("edge-1") != "" || strings.Count(f, "it is being read") != 2 {
		t.Errorf("it waits for %q as a whole; failures are %s", w.planner.Awaits("edge-1"), f)
	}
	reading = false
	w.planner.Update(w.state(), nil, true)
	w.settle()
	const proved = "with a token to "
	leadsTo(map[string]string{"a.front.example": proved + "ledger", "b.front.example": proved + "backend", "back.example": "ledger", "new.example": proved + "ledger"})
}

// TestCheckThatFailsCloses: a listener does not go on without a check that cannot be made, neither where
// the routes cannot be made nor where the policy panics.
func TestCheckThatFailsCloses(t *testing.T) {
	for name, fail := range map[string]func(p *policy.Policy){
		"routes": func(p *policy.Policy) {
			p.ListenerRoutes = func(*draft.Routes, *policy.Selection) error { return errors.New("a mistake") }
		},
		"panic": func(p *policy.Policy) { p.Facts = func(policy.World, []*view.Policy) any { panic("a mistake") } },
	} {
		t.Run(name, func(t *testing.T) {
			policies := all.Policies()
			for i, p := range policies {
				if p.Kind == meshtokenauth.Kind {
					bad := *p
					fail(&bad)
					policies[i] = &bad
				}
			}
			w := entered(t, policies)
			w.apply(t, tokensAt("a", wholeDoor, anyToken))
			w.settle()
			set := w.planner.Set("edge-1")
			if name == "panic" {
				if l := set.Get(resource.Listener, "gateway:127.0.0.51:18080"); l != nil {
					t.Error("it listens")
				}
			} else if got := atHosts(t, set); len(got) != 1 || got[edgeTable] != "503" {
				t.Errorf("the hosts are %v", got)
			}
			if f := fmt.Sprint(w.planner.Failures("edge-1")); !strings.Contains(f, "a mistake") {
				t.Errorf("failures are %s", f)
			}
		})
	}
}

// guardedEntrance is a gateway of which one listener demands tokens, and another cannot.
func guardedEntrance(w *world) {
	entranceOfAll(w)
	w.apply(w.t.(*testing.T), tokensAt("tokens", wholeDoor, anyToken))
}
