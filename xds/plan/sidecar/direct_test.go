package sidecar_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/resource"
)

// accessing is a transparent proxy at 10.0.0.9 with direct access to some services, and an outbound
// of no name.
func accessing(services ...string) *mesh.Dataplane {
	d := transparent("10.0.0.9", "web", "http")
	d.Networking.TransparentProxying.DirectAccessServices = services
	d.Networking.TransparentProxying.ReachableServices = []string{"nothing"}
	return d
}

// accessed lists the instances to which a proxy has direct access.
func accessed(w *world, name string) (out []string) {
	for _, r := range w.planner.Set(name).All(resource.Listener) {
		if at, is := strings.CutPrefix(r.Name, "direct_access_"); is {
			out = append(out, at)
		}
	}
	return out
}

// accessingWorld has one such proxy and a backend.
func accessingWorld(t *testing.T, web *mesh.Dataplane) *world {
	t.Helper()
	w := newWorld(t)
	w.under(mesh.ModeStrict)
	w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("10.0.0.2", "backend", "http"))
	w.put(mesh.Dataplanes, meshName, "web-1", web)
	w.settle()
	w.planner.Join("web-1")
	w.settle()
	return w
}

func expectAccess(t *testing.T, w *world, want ...string) {
	t.Helper()
	if got := accessed(w, "web-1"); !slices.Equal(got, want) {
		t.Errorf("direct access to %q, want %q", got, want)
	}
}

// TestDirectAccessFollowsInstances: an instance that comes or goes is one listener more or less and
// changes nothing else. Whether it is ready does not matter: members of a database call each other
// before they are.
func TestDirectAccessFollowsInstances(t *testing.T) {
	for name, services := range map[string][]string{"a service": {"backend"}, "all": {mesh.AnyValue, "backend"}} {
		t.Run(name, func(t *testing.T) {
			w := accessingWorld(t, accessing(services...))
			expectAccess(t, w, "10.0.0.2:8080")
			before := w.planner.Set("web-1")
			second := dataplane("10.0.0.3", "backend", "http")
			second.Networking.Inbound[0].State = mesh.StateNotReady
			w.put(mesh.Dataplanes, meshName, "backend-2", second)
			w.settle()
			expectAccess(t, w, "10.0.0.2:8080", "10.0.0.3:8080")
			for _, url := range resource.Types {
				for _, r := range w.planner.Set("web-1").All(url) {
					if was := before.Get(url, r.Name); r.Name != "direct_access_10.0.0.3:8080" && (was == nil || was.Version != r.Version) {
						t.Errorf("%s %s is another", url, r.Name)
					}
				}
			}
			second.Networking.Inbound[0].State = ""
			w.put(mesh.Dataplanes, meshName, "backend-2", second)
			if changed := w.settle(); changed["web-1"] {
				t.Error("an instance that becomes ready changes the proxy")
			}
			w.drop(mesh.Dataplanes, "backend-1")
			w.settle()
			expectAccess(t, w, "10.0.0.3:8080")
			w.put(mesh.Dataplanes, meshName, "other-1", dataplane("10.0.0.4", "other", "tcp"))
			w.settle()
			if services[0] == mesh.AnyValue {
				expectAccess(t, w, "10.0.0.3:8080", "10.0.0.4:8080")
			} else {
				expectAccess(t, w, "10.0.0.3:8080")
			}
		})
	}
}

// TestDirectAccessIsNotToOneself: a connection that the proxy would pass on to itself has no
// listener, wherever somebody says that an instance is. What is not redirected as it leaves has no
// cluster.
func TestDirectAccessIsNotToOneself(t *testing.T) {
	web := accessing(mesh.AnyValue)
	web.Networking.AdvertisedAddress = "192.0.2.9"
	web.Networking.Inbound = append(web.Networking.Inbound, mesh.Inbound{Address: "10.0.1.9", Port: 8080, Tags: mesh.Tags{mesh.TagService: "web"}})
	w := accessingWorld(t, web)
	for i, at := range []struct {
		address string
		port    uint32
	}{{"10.0.0.9", 5432}, {"192.0.2.9", 5432}, {"10.0.1.9", 5432}, {"::ffff:10.0.0.9", 5433}, {"127.0.0.1", 15001}, {"10.9.9.9", 15006}, {"240.1.2.3", 80}, {"0.0.0.0", 90}, {"224.0.0.1", 90}} {
		d := dataplane(at.address, "evil", "tcp")
		d.Networking.Inbound[0].Port = at.port
		w.put(mesh.Dataplanes, meshName, "evil-"+string(rune('a'+i)), d)
	}
	w.settle()
	expectAccess(t, w, "10.0.0.2:8080")
	l := load(t, w.planner.Set("web-1").Get(resource.Listener, "direct_access_10.0.0.2:8080"), new(listenerv3.Listener))
	filters := l.GetFilterChains()[0].GetFilters()
	if l.GetBindToPort() == nil || l.GetBindToPort().GetValue() || len(filters) != 2 ||
		!bytes.Contains(filters[0].GetTypedConfig().GetValue(), []byte("@direct_access:backend:%DOWNSTREAM_DIRECT_LOCAL_PORT%")) || !bytes.Contains(filters[1].GetTypedConfig().GetValue(), []byte("@blackhole")) {
		t.Errorf("%v", l)
	}
}

// TestDirectAccessIsNotToIngresses: many services are behind an ingress, which is an instance of none.
func TestDirectAccessIsNotToIngresses(t *testing.T) {
	w := accessingWorld(t, accessing(mesh.AnyValue))
	w.put(mesh.ZoneIngresses, "", "west-in", &mesh.ZoneIngress{
		Zone: "west", Networking: &mesh.ZoneIngressNetworking{AdvertisedAddress: "10.0.7.7", AdvertisedPort: 10001},
		AvailableServices: []mesh.AvailableService{
			{Mesh: meshName, Instances: 1, Tags: mesh.Tags{mesh.TagService: "far"}}, {Mesh: meshName, Instances: 1, Tags: mesh.Tags{mesh.TagService: "farther"}},
		},
	})
	w.settle()
	expectAccess(t, w, "10.0.0.2:8080")
	if fs := w.planner.Failures("web-1"); len(fs) > 0 {
		t.Errorf("failures are %v", fs)
	}
}

// TestDirectAccessGivesWay: what an outbound has is the outbound's; of two services at one address
// the first is called, and the other is shown.
func TestDirectAccessGivesWay(t *testing.T) {
	web := accessing("backend", "database")
	web.Networking.Outbound = []mesh.Outbound{{Address: "10.0.0.2", Port: 8080, Tags: mesh.Tags{mesh.TagService: "backend"}}}
	w := accessingWorld(t, web)
	expectAccess(t, w)
	web.Networking.Outbound = nil
	w.put(mesh.Dataplanes, meshName, "web-1", web)
	w.put(mesh.Dataplanes, meshName, "database-1", dataplane("10.0.0.2", "database", "tcp"))
	w.settle()
	expectAccess(t, w, "10.0.0.2:8080")
	if !bytes.Contains(w.planner.Set("web-1").Get(resource.Listener, "direct_access_10.0.0.2:8080").Body, []byte("@direct_access:backend")) {
		t.Error("another service is called")
	}
	if why := failuresAt(w, "direct_access:database"); len(why) != 1 || !strings.Contains(why[0], "10.0.0.2:8080 is called as another service") {
		t.Errorf("%q", why)
	}
	w.drop(mesh.Dataplanes, "backend-1")
	w.settle()
	expectAccess(t, w, "10.0.0.2:8080")
	if why := failuresAt(w, "direct_access:database"); why != nil {
		t.Errorf("%q", why)
	}
}

func failuresAt(w *world, cell string) (out []string) {
	for _, f := range slices.Concat(w.planner.Failures("web-1"), w.planner.Unserved("web-1")) {
		if f.Cell == cell {
			out = append(out, f.Err.Error())
		}
	}
	return out
}

// TestDirectAccessDemandsTheService: the other end has to prove that it is the service, unless the
// mesh has no identities, or the instance has none yet.
func TestDirectAccessDemandsTheService(t *testing.T) {
	w := accessingWorld(t, accessing("backend"))
	demands := func(what string, yes bool) {
		t.Helper()
		own, clear := w.planner.Set("web-1").Get(resource.Cluster, "@direct_access:backend:15001"), w.planner.Set("web-1").Get(resource.Cluster, "@direct_access:15001")
		if (own != nil) != yes || (clear != nil) == yes || yes && !bytes.Contains(own.Body, []byte("spiffe://demo/backend")) {
			t.Errorf("%s: %v, %v", what, own != nil, clear != nil)
		}
	}
	demands("strict", true)
	w.put(mesh.Meshes, "", meshName, mtls(mesh.ModePermissive))
	w.settle()
	demands("permissive", false)
	w.planner.Secured("backend-1", true)
	w.settle()
	demands("permissive, with an identity", true)
	// Somebody without a proxy, who says to be at the same address, turns nobody to clear text.
	w.put(mesh.Dataplanes, meshName, "backend-2", dataplane("10.0.0.2", "backend", "http"))
	w.settle()
	demands("with another one at the address", true)
	w.put(mesh.Meshes, "", meshName, &mesh.Mesh{})
	w.settle()
	demands("without mutual TLS", false)
}

// TestIdleDirectAccess: what has no effect is said.
func TestIdleDirectAccess(t *testing.T) {
	web := accessing("backend", "nobody", "named")
	w := accessingWorld(t, web)
	w.put(mesh.Dataplanes, meshName, "named-1", dataplane("named.example", "named", "tcp"))
	w.settle()
	if why := failuresAt(w, "direct_access:nobody"); len(why) != 1 || why[0] != `no dataplane of the mesh serves "nobody"` {
		t.Errorf("%q", why)
	}
	if why := failuresAt(w, "direct_access:named"); len(why) != 1 || !strings.Contains(why[0], "are known by names") {
		t.Errorf("%q", why)
	}
	web.Networking.TransparentProxying.RedirectPortOutbound = 0
	w.put(mesh.Dataplanes, meshName, "web-1", web)
	w.settle()
	expectAccess(t, w)
	if why := failuresAt(w, "direct_access"); len(why) != 1 || !strings.Contains(why[0], "nothing is redirected") {
		t.Errorf("%q", why)
	}
}

// TestDirectAccessIsBounded: a proxy has so many listeners and no more, and says what it lacks.
func TestDirectAccessIsBounded(t *testing.T) {
	w := accessingWorld(t, accessing(mesh.AnyValue))
	many := dataplane("10.0.0.2", "backend", "tcp")
	for port := range uint32(sidecar.MaxDirect + 4) {
		many.Networking.Inbound = append(many.Networking.Inbound, mesh.Inbound{Port: 20000 + port, Tags: many.Networking.Inbound[0].Tags})
	}
	w.put(mesh.Dataplanes, meshName, "backend-1", many)
	w.settle()
	if n := len(accessed(w, "web-1")); n != sidecar.MaxDirect {
		t.Errorf("%d listeners", n)
	}
	if why := failuresAt(w, "direct_access"); len(why) != 1 || why[0] != "6 instances are left out: a proxy has direct access to 2000" { // with its own
		t.Errorf("%q", why)
	}
}
