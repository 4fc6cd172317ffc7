package sidecar_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/naming"
	"github.com/meshgate/meshgate/xds/resource"
)

// virtualOutbound names what a selector matches by its service and version.
func virtualOutbound(host, port string, selector mesh.Tags) *mesh.VirtualOutbound {
	v := &mesh.VirtualOutbound{Selectors: []mesh.Selector{{Match: selector}}, Conf: &mesh.VirtualOutboundConf{
		Host: host, Port: port, Parameters: []mesh.NameParameter{{Name: "s", TagKey: mesh.TagService}},
	}}
	if strings.Contains(host, ".v}}") {
		v.Conf.Parameters = append(v.Conf.Parameters, mesh.NameParameter{Name: "v", TagKey: "version"})
	}
	return v
}

// known returns the host names that a proxy is told, and checks that it listens for each address.
func known(t *testing.T, set *resource.Set) map[string]string {
	t.Helper()
	table, err := naming.Decode(set.Get(resource.Cluster, naming.Cluster).Body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for host, a := range table {
		out[host] = a.String()
		if !slices.ContainsFunc(set.All(resource.Listener), func(r *resource.Resource) bool { return strings.HasPrefix(r.Name, "outbound:"+a.String()+":") }) {
			t.Errorf("nothing listens for %s at %s", host, a)
		}
	}
	return out
}

// TestHostNamesOfProxies: names follow what there is and what is stored; each step is held against
// a plan from nothing.
func TestHostNamesOfProxies(t *testing.T) {
	w := newWorld(t)
	backend := dataplane("127.0.0.2", "backend", "http")
	backend.Networking.Inbound[0].Tags["version"] = "v1"
	w.put(mesh.Dataplanes, meshName, "backend-1", backend)
	w.put(mesh.Dataplanes, meshName, "any-1", transparent("127.0.0.3", "any", "http"))
	w.put(mesh.Dataplanes, meshName, "few-1", bound("127.0.0.4", "few", "backend"))
	w.joined("any-1", "few-1")
	first := func(host string) string { return mesh.FirstAddress(host).String() }
	all := map[string]string{"backend.mesh": first("backend.mesh"), "any.mesh": first("any.mesh"), "few.mesh": first("few.mesh")}
	store := func(host, a string) {
		w.put(mesh.Addresses, meshName, host, &mesh.Address{Address: a})
		all[host] = a
	}
	hold := func(what string, lacking ...string) {
		t.Helper()
		w.settle()
		want := maps.Clone(all)
		for _, host := range lacking {
			delete(want, host)
		}
		if diff := cmp.Diff(want, known(t, w.planner.Set("any-1"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		maps.DeleteFunc(want, func(host, _ string) bool { return !strings.Contains(host, "backend") })
		if diff := cmp.Diff(want, known(t, w.planner.Set("few-1"))); diff != "" {
			t.Errorf("%s, who reaches backend alone (-want +got):\n%s", what, diff)
		}
	}
	hold("without stored addresses")
	for host := range all {
		store(host, all[host])
	}
	w.settle()
	before := w.planner.Set("any-1")
	hold("the same addresses, stored")
	if w.planner.Set("any-1") != before {
		t.Error("storing the addresses changes something")
	}
	w.put(mesh.VirtualOutbounds, meshName, "x", virtualOutbound("{{.v}}.{{.s}}.shop", "8080", mesh.Tags{mesh.TagService: "backend"}))
	hold("a name that has no address yet")
	store("v1.backend.shop", "240.0.0.9")
	hold("a name that has one")
	w.drop(mesh.VirtualOutbounds, "x")
	w.put(mesh.VirtualOutbounds, meshName, "renamed", virtualOutbound("{{.v}}.{{.s}}.shop", "8080", mesh.Tags{mesh.TagService: "backend"}))
	hold("another VirtualOutbound gives it")
	second := dataplane("127.0.0.5", "backend", "http")
	second.Networking.Inbound[0].Tags["version"] = "v2"
	w.put(mesh.Dataplanes, meshName, "backend-2", second)
	store("v2.backend.shop", "240.0.0.10")
	hold("another version")
	w.drop(mesh.Dataplanes, "backend-2")
	hold("that version is gone", "v2.backend.shop")
	delete(all, "v2.backend.shop")
	w.drop(mesh.VirtualOutbounds, "renamed")
	hold("no VirtualOutbound gives it", "v1.backend.shop")
	if _, err := netip.ParseAddr(all["backend.mesh"]); err != nil {
		t.Error(err)
	}
}

// TestLeftOutIsShown: of two VirtualOutbounds that give one name, the second one is shown at the
// proxies that would have it.
func TestLeftOutIsShown(t *testing.T) {
	w := newWorld(t)
	for i, service := range []string{"a", "b"} {
		w.put(mesh.Dataplanes, meshName, service+"-1", dataplane("127.0.0."+string(rune('5'+i)), service, "http"))
	}
	w.put(mesh.Dataplanes, meshName, "any-1", transparent("127.0.0.3", "any", "http"))
	w.put(mesh.VirtualOutbounds, meshName, "x", virtualOutbound("shop.example", "80", mesh.Tags{mesh.TagService: "a"}))
	w.put(mesh.VirtualOutbounds, meshName, "y", virtualOutbound("shop.example", "80", mesh.Tags{mesh.TagService: "b"}))
	w.joined("any-1")
	var got []string
	for _, f := range w.planner.Failures("any-1") {
		got = append(got, f.Cell+": "+f.Err.Error())
	}
	want := []string{`@names: VirtualOutbound "y" also gives the name shop.example:80 to mesh.io/service=b; there the name leads to mesh.io/service=a`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}
