package sidecar_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/e2e/few"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
	"github.com/meshgate/meshgate/xds/resource"
)

// small is a random mesh in plain terms.
type small struct {
	proxies map[string]workload
	// splits holds the weights of v1 and v2 of a service, permits the permitted callers.
	splits  map[string][2]uint32
	permits map[string]string
	// open says that the permission for everybody exists, too.
	open bool
}

type workload struct{ service, version, calls string }

func (s *small) address(name string) string {
	return fmt.Sprintf("127.1.0.%d", 1+slices.Index(slices.Sorted(maps.Keys(s.proxies)), name))
}

// reaches is a naive reading of the requirement: "client > address weight" for all endpoints
// that get requests, with "refused" if they do not answer them.
func (s *small) reaches() (out []string) {
	for client, c := range s.proxies {
		weights := map[string]uint32{"v1": 1, "v2": 1}
		if w, ok := s.splits[c.calls]; ok {
			weights = map[string]uint32{"v1": w[0], "v2": w[1]}
			if w[0] == 0 {
				weights["v2"] = 1 // it gets everything
			}
		}
		allowed, named := s.permits[c.calls]
		ok := named && (allowed == mesh.AnyValue || allowed == c.service) || !named && s.open
		for server, d := range s.proxies {
			if d.service == c.calls && weights[d.version] > 0 {
				out = append(out, line(client, s.address(server), weights[d.version], ok))
			}
		}
	}
	slices.Sort(out)
	return out
}

func line(client, address string, weight uint32, ok bool) string {
	text := fmt.Sprintf("%s > %s weight %d", client, address, weight)
	if !ok {
		text += " refused"
	}
	return text
}

// TestConfigurationSaysWhatTheMeshSays follows the configuration of every client from its
// listener to the permissions of the servers.
func TestConfigurationSaysWhatTheMeshSays(t *testing.T) {
	few.UnderRace(t, 25)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.t = rt
		s := draw(rt)
		s.store(w)
		w.settle()
		for name := range s.proxies {
			w.planner.Join(name)
		}
		w.settle()
		if diff := cmp.Diff(s.reaches(), s.walk(t, w)); diff != "" {
			rt.Fatalf("reached (-by the requirement +by the configuration):\n%s", diff)
		}
	})
}

func draw(t *rapid.T) *small {
	services := []string{"a", "b", "c"}
	s := &small{proxies: map[string]workload{}, splits: map[string][2]uint32{}, permits: map[string]string{}, open: rapid.Bool().Draw(t, "open")}
	one := rapid.SampledFrom(services)
	for i := range rapid.IntRange(1, 5).Draw(t, "proxies") {
		s.proxies[fmt.Sprintf("p%d", i)] = workload{one.Draw(t, "service"), rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version"), one.Draw(t, "calls")}
	}
	for _, name := range services {
		if rapid.Bool().Draw(t, "split") {
			s.splits[name] = [2]uint32{rapid.Uint32Range(0, 3).Draw(t, "v1"), rapid.Uint32Range(1, 3).Draw(t, "v2")}
		}
		if rapid.Bool().Draw(t, "permission") {
			s.permits[name] = rapid.SampledFrom([]string{"a", "b", mesh.AnyValue}).Draw(t, "from")
		}
	}
	return s
}

func (s *small) store(w *world) {
	w.under(mesh.ModeStrict)
	for _, d := range all.Defaults() {
		if d.Kind == trafficpermission.Kind && !s.open {
			w.drop(d.Kind, d.Prefix+meshName)
		}
	}
	for name, p := range s.proxies {
		d := dataplane(s.address(name), p.service, "http", p.calls)
		d.Networking.Inbound[0].Tags["version"] = p.version
		w.put(mesh.Dataplanes, meshName, name, d)
	}
	for service, weights := range s.splits {
		w.put(trafficroute.Kind, meshName, "split-"+service, split(service, weights[:]...))
	}
	for service, source := range s.permits {
		w.put(trafficpermission.Kind, meshName, "permit-"+service, permission(source, service))
	}
}

// walk follows the configuration: listener, routes, clusters, endpoints, and on the other side
// listener, routes, permission.
func (s *small) walk(t *testing.T, w *world) (out []string) {
	servers := map[string]*resource.Set{}
	for name := range s.proxies {
		servers[s.address(name)] = w.planner.Set(name)
	}
	for client, c := range s.proxies {
		set := w.planner.Set(client)
		host := hostOf(t, set, "outbound:127.0.0.1:10001")
		if host == nil {
			continue // nobody serves what it calls
		}
		for cluster, weight := range targets(host) {
			a := load(t, set.Get(resource.Endpoint, cluster), new(endpointv3.ClusterLoadAssignment))
			for _, l := range a.GetEndpoints() {
				for _, e := range l.GetLbEndpoints() {
					at := e.GetEndpoint().GetAddress().GetSocketAddress()
					inbound := hostOf(t, servers[at.GetAddress()], fmt.Sprintf("inbound:%s:%d", at.GetAddress(), at.GetPortValue()))
					out = append(out, line(client, at.GetAddress(), weight, admits(t, inbound, mesh.SPIFFE(meshName, c.service))))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// hostOf returns the virtual host behind a listener, or nil if the listener is not for HTTP.
func hostOf(t *testing.T, set *resource.Set, listener string) *routev3.VirtualHost {
	l := load(t, set.Get(resource.Listener, listener), new(listenerv3.Listener))
	m := new(hcmv3.HttpConnectionManager)
	if packed := l.GetFilterChains()[0].GetFilters()[0].GetTypedConfig(); !packed.MessageIs(m) {
		return nil
	} else if err := packed.UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	return load(t, set.Get(resource.Route, m.GetRds().GetRouteConfigName()), new(routev3.RouteConfiguration)).GetVirtualHosts()[0]
}

func targets(host *routev3.VirtualHost) map[string]uint32 {
	out := map[string]uint32{}
	for _, r := range host.GetRoutes() {
		if c := r.GetRoute().GetCluster(); c != "" {
			out[c] = 1
		}
		for _, c := range r.GetRoute().GetWeightedClusters().GetClusters() {
			out[c.GetName()] = c.GetWeight().GetValue()
		}
	}
	return out
}

// admits reports whether the permission of a virtual host lets an identity pass.
func admits(t *testing.T, host *routev3.VirtualHost, identity string) bool {
	per := new(httprbacv3.RBACPerRoute)
	if err := host.GetTypedPerFilterConfig()["envoy.filters.http.rbac"].UnmarshalTo(per); err != nil {
		t.Fatal(err)
	}
	rules := per.GetRbac().GetRules()
	if rules == nil || rules.GetAction() != rbacv3.RBAC_ALLOW {
		t.Fatal("no rules: everybody may pass")
	}
	for _, p := range rules.GetPolicies() {
		for _, who := range p.GetPrincipals() {
			name := who.GetAuthenticated().GetPrincipalName()
			if x := name.GetExact(); x != "" && x == identity {
				return true
			}
			if x := name.GetPrefix(); x != "" && strings.HasPrefix(identity, x) {
				return true
			}
		}
	}
	return false
}
