package sidecar_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// ingressOf is an ingress of another zone with services of the mesh.
func ingressOf(zone, address string, services ...mesh.AvailableService) *mesh.ZoneIngress {
	for i := range services {
		services[i].Mesh = meshName
	}
	return &mesh.ZoneIngress{
		Zone: zone, Networking: &mesh.ZoneIngressNetworking{AdvertisedAddress: address, AdvertisedPort: 10001}, AvailableServices: services,
	}
}

func instancesOf(service string, n uint32, version string) mesh.AvailableService {
	return mesh.AvailableService{Tags: mesh.Tags{mesh.TagService: service, mesh.TagProtocol: "http", "version": version}, Instances: n}
}

// assigned is the assignment of a cluster of web-1.
func (w *world) assigned(t *testing.T, cluster string) *endpointv3.ClusterLoadAssignment {
	t.Helper()
	w.settle()
	r := w.planner.Set("web-1").Get(resource.Endpoint, cluster)
	if r == nil {
		return nil
	}
	var a endpointv3.ClusterLoadAssignment
	if err := proto.Unmarshal(r.Body, &a); err != nil {
		t.Fatal(err)
	}
	return &a
}

// TestRemote: services of other zones are endpoints at their ingresses.
func TestRemote(t *testing.T) {
	w := newWorld(t)
	pair("http")(w)
	w.under("STRICT")
	w.settle()
	w.planner.Join("web-1")
	endpoints := func() map[string]uint32 {
		out := map[string]uint32{}
		for _, l := range w.assigned(t, "backend").GetEndpoints() {
			for _, e := range l.GetLbEndpoints() {
				out[l.GetLocality().GetZone()+" "+e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()] = e.GetLoadBalancingWeight().GetValue()
			}
		}
		return out
	}
	same := func(want map[string]uint32) {
		t.Helper()
		got := endpoints()
		if len(got) != len(want) {
			t.Fatalf("endpoints are %v, want %v", got, want)
		}
		for k, v := range want {
			if got[k] != v {
				t.Fatalf("endpoints are %v, want %v", got, want)
			}
		}
	}
	w.put(mesh.ZoneIngresses, "", "own", ingressOf("", "10.0.0.1", instancesOf("backend", 7, "v1")))
	same(map[string]uint32{"east 127.0.0.2": 1})
	w.put(mesh.ZoneIngresses, "", "north", ingressOf("north", "10.0.0.9", instancesOf("backend", 3, "v1"), instancesOf("backend", 2, "v2")))
	same(map[string]uint32{"east 127.0.0.2": 1, "north 10.0.0.9": 5})
	// Two addresses of one zone lead to the same instances; two ingresses at one address are one.
	w.put(mesh.ZoneIngresses, "", "north-2", ingressOf("north", "10.0.0.8", instancesOf("backend", 5, "v1")))
	w.put(mesh.ZoneIngresses, "", "north-3", ingressOf("north", "10.0.0.8", instancesOf("backend", 5, "v1")))
	same(map[string]uint32{"east 127.0.0.2": 2, "north 10.0.0.8": 5, "north 10.0.0.9": 5})
	off := false
	w.put(mesh.Zones, "", "north", &mesh.Zone{Enabled: &off})
	same(map[string]uint32{"east 127.0.0.2": 1})
	w.drop(mesh.Dataplanes, "backend-1")
	same(nil)
	w.put(mesh.Zones, "", "north", &mesh.Zone{})
	same(map[string]uint32{"north 10.0.0.8": 5, "north 10.0.0.9": 5})
	// Without mutual TLS an ingress would not know what a connection is for.
	w.put(mesh.Meshes, "", meshName, &mesh.Mesh{})
	same(nil)
	w.under("PERMISSIVE")
	same(map[string]uint32{"north 10.0.0.8": 5, "north 10.0.0.9": 5})
	for _, name := range []string{"north", "north-2", "north-3"} {
		w.dropIn("", mesh.ZoneIngresses, name)
	}
	same(nil)
}

// TestThroughEgress: in a mesh with routing.zoneEgress, services of other zones are endpoints at the
// egresses of the own one, and at none if there is none.
func TestThroughEgress(t *testing.T) {
	w := newWorld(t)
	pair("http")(w)
	near := dataplane("127.0.0.2", "backend", "http")
	near.Networking.Inbound[0].Tags[mesh.TagZone] = "west" // where web is
	w.put(mesh.Dataplanes, meshName, "backend-1", near)
	through := func(yes, aware bool) {
		m := &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin", Mode: "STRICT"}}}}
		m.Routing = &mesh.Routing{ZoneEgress: yes, LocalityAwareLoadBalancing: aware}
		w.put(mesh.Meshes, "", meshName, m)
	}
	through(true, false)
	w.settle()
	w.planner.Join("web-1")
	same := func(want map[string]uint32) {
		t.Helper()
		got := map[string]uint32{}
		for _, l := range w.assigned(t, "backend").GetEndpoints() {
			for _, e := range l.GetLbEndpoints() {
				got[fmt.Sprint(l.GetPriority(), " ", e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())] = e.GetLoadBalancingWeight().GetValue()
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("endpoints are %v, want %v", got, want)
		}
	}
	missing := func() (n int) {
		for _, f := range w.planner.Unserved("web-1") {
			if strings.Contains(f.Err.Error(), "no egress of the zone leads to \"backend\"") && !f.Awaited {
				n++
			}
		}
		return n
	}
	egress := func(zone, address string) *mesh.ZoneEgress {
		return &mesh.ZoneEgress{Zone: zone, Networking: &mesh.ZoneEgressNetworking{Address: address, Port: 10002}}
	}
	same(map[string]uint32{"0 127.0.0.2": 1})
	if missing() > 0 {
		t.Error("an egress is missing although nothing is in other zones")
	}
	w.put(mesh.ZoneIngresses, "", "north", ingressOf("north", "10.0.0.9", instancesOf("backend", 3, "v1"), instancesOf("backend", 2, "v2")))
	same(map[string]uint32{"0 127.0.0.2": 1})
	if missing() != 1 {
		t.Errorf("%d notes say that an egress is missing", missing())
	}
	w.put(mesh.ZoneEgresses, "", "theirs", egress("north", "10.0.1.9"))
	w.put(mesh.ZoneEgresses, "", "named", egress("", "egress.example"))
	early := egress("", "10.0.1.1")
	early.SetLabels(map[string]string{mesh.LabelOwner: mesh.OwnerAgent, mesh.LabelStarting: "true"})
	w.put(mesh.ZoneEgresses, "", "out-1", early)
	same(map[string]uint32{"0 127.0.0.2": 1})
	w.put(mesh.ZoneEgresses, "", "out-1", egress("", "10.0.1.1"))
	same(map[string]uint32{"0 127.0.0.2": 1, "0 10.0.1.1": 5})
	if missing() > 0 {
		t.Error("an egress is missing although there is one")
	}
	w.put(mesh.ZoneEgresses, "", "out-2", egress("", "10.0.1.2"))
	same(map[string]uint32{"0 127.0.0.2": 2, "0 10.0.1.1": 5, "0 10.0.1.2": 5})
	through(true, true)
	same(map[string]uint32{"0 127.0.0.2": 2, "1 10.0.1.1": 5, "1 10.0.1.2": 5})
	through(false, false)
	same(map[string]uint32{"0 127.0.0.2": 1, "0 10.0.0.9": 5})
	through(true, false)
	w.drop(mesh.Dataplanes, "backend-1")
	same(map[string]uint32{"0 10.0.1.1": 5, "0 10.0.1.2": 5})
	for _, name := range []string{"out-1", "out-2"} {
		w.dropIn("", mesh.ZoneEgresses, name)
	}
	same(map[string]uint32{})
}

// TestLeavesByEgress: a service outside a mesh with routing.zoneEgress is called through the egresses
// of the zone, by mutual TLS, and not at all without one. Its proxies have none of its keys.
func TestLeavesByEgress(t *testing.T) {
	w := newWorld(t)
	pair("http")(w)
	through := func(yes bool) {
		w.put(mesh.Meshes, "", meshName, &mesh.Mesh{
			MTLS:    &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin", Mode: "PERMISSIVE"}}},
			Routing: &mesh.Routing{ZoneEgress: yes},
		})
	}
	through(true)
	w.put(mesh.ExternalServices, meshName, "backend", presenting("mail.example:443", "backend", ""))
	w.settle()
	w.planner.Join("web-1")
	const cluster = "backend@zoneegress"
	addresses := func() (out []string) {
		for _, l := range w.assigned(t, cluster).GetEndpoints() {
			for _, e := range l.GetLbEndpoints() {
				out = append(out, e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
			}
		}
		return out
	}
	missing := func() bool {
		return slices.ContainsFunc(w.planner.Unserved("web-1"), func(f plan.Failure) bool {
			return strings.Contains(f.Err.Error(), `no egress of the zone leads to "backend" outside the mesh`) && !f.Awaited
		})
	}
	keys := func() (n int) {
		for _, name := range w.planner.Set("web-1").Secrets() {
			if _, is := mesh.ParseExternalClient(name); is {
				n++
			}
		}
		return n
	}
	if at := addresses(); len(at) > 0 || !missing() || keys() > 0 {
		t.Errorf("without an egress it is called at %v, said %v, with %d keys", at, missing(), keys())
	}
	var c clusterv3.Cluster
	if err := proto.Unmarshal(w.planner.Set("web-1").Get(resource.Cluster, cluster).Body, &c); err != nil {
		t.Fatal(err)
	}
	if text := c.String(); !strings.Contains(text, "spiffe://"+meshName+"/zoneegress") || len(c.GetTransportSocketMatches()) > 0 || strings.Contains(text, "mail.example") {
		t.Errorf("the cluster is %s", text)
	}
	w.put(mesh.ZoneEgresses, "", "out", &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: "10.0.1.1", Port: 10002}})
	if at := addresses(); !slices.Equal(at, []string{"10.0.1.1"}) || missing() || keys() > 0 {
		t.Errorf("with an egress it is called at %v, said %v, with %d keys", at, missing(), keys())
	}
	through(false)
	if a := w.assigned(t, cluster); a != nil || keys() != 1 {
		t.Errorf("called directly: %v, with %d keys", a, keys())
	}
}
