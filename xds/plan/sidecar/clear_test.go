package sidecar_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/resource"
)

// lead has the endpoints of a cluster be at an address.
func lead(b *bootstrapv3.Bootstrap, name string, to net.Addr) {
	for _, c := range b.StaticResources.Clusters {
		if c.GetName() == name {
			move(c.GetLoadAssignment(), to)
		}
	}
}

func move(a *endpointv3.ClusterLoadAssignment, to net.Addr) {
	for _, l := range a.GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			e.GetEndpoint().Address = at(to)
		}
	}
}

// TestOneDataplaneTurnsNobodyToClearText: who registers a Dataplane of a service in a
// PERMISSIVE mesh, and never connects, has callers speak to it in clear text and to
// nobody else.
func TestOneDataplaneTurnsNobodyToClearText(t *testing.T) {
	w := newWorld(t)
	pair("http")(w)
	w.under(mesh.ModePermissive)
	w.planner.Secured("backend-1", true)
	before := w.joined("web-1")
	w.put(mesh.Dataplanes, meshName, "thief-1", dataplane("127.0.0.66", "backend", "http"))
	w.settle()
	after := w.planner.Set("web-1")
	if before.Get(resource.Cluster, "backend") != after.Get(resource.Cluster, "backend") {
		t.Error("the cluster is another one")
	}
	if cluster(t, after, "backend").GetTransportSocket() == nil {
		t.Error("the cluster has no TLS")
	}
	for address, want := range map[string]bool{"127.0.0.2": false, "127.0.0.66": true} {
		if got := inClear(t, after, address); got != want {
			t.Errorf("%s is spoken to in clear text: %t", address, got)
		}
	}
	w.planner.Secured("thief-1", true)
	w.settle()
	if inClear(t, w.planner.Set("web-1"), "127.0.0.66") {
		t.Error("who can is not spoken to by TLS")
	}
}

// TestEndpointsBeyondTheMeshAreNotMarked: what no dataplane serves is spoken to as its kind
// says, whatever the mode of the mesh.
func TestEndpointsBeyondTheMeshAreNotMarked(t *testing.T) {
	for _, mode := range []string{mesh.ModeStrict, mesh.ModePermissive} {
		w := abroad(t)
		w.under(mode)
		w.settle()
		for _, service := range []string{"mail@by-name", "maps@by-name"} {
			localities := cluster(t, w.planner.Set("web-1"), service).GetLoadAssignment().GetEndpoints()
			if len(localities) != 1 || len(localities[0].GetLbEndpoints()) != 1 {
				t.Fatalf("%s: %s has %v", mode, service, localities)
			}
			if z := localities[0].GetLocality().GetSubZone(); z != "" {
				t.Errorf("%s: the host of %s is in the part %q of its zone", mode, service, z)
			}
			if m := localities[0].GetLbEndpoints()[0].GetMetadata().GetFilterMetadata(); m["envoy.transport_socket_match"] != nil {
				t.Errorf("%s: the host of %s is marked: %v", mode, service, m)
			}
		}
	}
}

// inClear reports whether an endpoint of backend is marked.
func inClear(t *testing.T, set *resource.Set, address string) bool {
	t.Helper()
	for _, l := range load(t, set.Get(resource.Endpoint, "backend"), new(endpointv3.ClusterLoadAssignment)).GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			if e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress() == address {
				return e.GetMetadata().GetFilterMetadata()["envoy.transport_socket_match"].GetFields()["clear"].GetBoolValue()
			}
		}
	}
	t.Fatalf("%s is no endpoint", address)
	return false
}

// TestSecuredEndpointsChangeToTLS: as soon as a proxy has confirmed its identity, the
// connections to it in clear text end, and the next are by TLS. Asked of a real Envoy
// that follows assignments.
func TestSecuredEndpointsChangeToTLS(t *testing.T) {
	w := newWorld(t)
	pair("http")(w)
	w.under(mesh.ModePermissive)
	set := w.joined("web-1")
	b := static(t, set)
	b.StaticResources.Secrets = newCertifier().secrets("web")
	server := must(net.Listen("tcp", "127.0.0.1:0"))
	defer func() { _ = server.Close() }() // it may be closed already
	file := filepath.Join(t.TempDir(), "endpoints.json")
	say := func(set *resource.Set) {
		a := load(t, set.Get(resource.Endpoint, "backend"), new(endpointv3.ClusterLoadAssignment))
		move(a, server.Addr())
		replace(t, file, a)
	}
	say(set)
	for _, c := range b.StaticResources.Clusters {
		if c.GetName() == "backend" {
			follow(c, file)
			c.TypedExtensionProtocolOptions = nil // HTTP/1.1, which this server speaks
		}
	}
	b.Node = &corev3.Node{Id: "test", Cluster: "test"}
	client := dialed(t, runAt(t, b, webOutbound))
	replies := bufio.NewReader(client)
	ask := func() {
		if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: backend\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	plain := must(server.Accept())
	defer func() { _ = plain.Close() }() // it may have ended
	requests := bufio.NewReader(plain)
	if _, err := http.ReadRequest(requests); err != nil {
		t.Fatalf("who has no identity is not spoken to in clear text: %v", err)
	}
	if _, err := io.WriteString(plain, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := http.ReadResponse(replies, nil); err != nil || answer.Body.Close() != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("the answer is %v, %v", answer, err)
	}
	w.planner.Secured("backend-1", true)
	w.settle()
	say(w.planner.Set("web-1"))
	if err := plain.SetReadDeadline(deadline()); err != nil {
		t.Fatal(err)
	}
	if _, err := requests.ReadByte(); err != io.EOF {
		t.Fatalf("the connection in clear text is kept: %v", err)
	}
	ask()
	secured := must(server.Accept())
	defer func() { _ = secured.Close() }() // nobody answers it
	first := make([]byte, 1)
	if _, err := io.ReadFull(secured, first); err != nil || first[0] != 0x16 {
		t.Errorf("who has an identity is spoken to by %q, %v", first, err)
	}
}

// follow has a cluster take its endpoints from a file.
func follow(c *clusterv3.Cluster, file string) {
	c.ClusterDiscoveryType, c.LoadAssignment = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}, nil
	c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{
		ResourceApiVersion: corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{
			PathConfigSource: &corev3.PathConfigSource{Path: file},
		},
	}}
}

// replace puts a resource into a file in one step.
func replace(t *testing.T, file string, m proto.Message) {
	t.Helper()
	packed := must(anypb.New(m))
	text := must(protojson.Marshal(&discoveryv3.DiscoveryResponse{TypeUrl: packed.TypeUrl, Resources: []*anypb.Any{packed}, VersionInfo: fmt.Sprint(len(packed.Value))}))
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}
