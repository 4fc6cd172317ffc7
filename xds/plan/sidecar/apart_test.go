package sidecar_test

import (
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/bootstrap"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestServicesNamedLikeOtherClusters: whatever a service is called, the cluster with its name
// is the one that leads to it. No other cluster has a name that a service could have.
// Otherwise requests for a service could go to the configuration's socket, to the workload, or
// wherever the client wanted.
func TestServicesNamedLikeOtherClusters(t *testing.T) {
	subset := sidecar.ClusterName(mesh.Tags{mesh.TagService: "backend", "version": "v1"})
	for _, service := range []string{
		"ads_cluster", "blackhole", "localhost:9080", "outbound:passthrough:ipv4", "inbound:passthrough:ipv4", bootstrap.ADSCluster, subset,
	} {
		t.Run(service, func(t *testing.T) {
			if len(mesh.ValidateTags("", mesh.Tags{mesh.TagService: service})) > 0 {
				return // no service can have this name
			}
			w := newWorld(t)
			w.put(mesh.Dataplanes, meshName, "other-1", dataplane("127.0.0.2", service, "tcp"))
			w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.3", "backend", "http"))
			web := dataplane("127.0.0.4", "web", "http", service, "backend")
			web.Networking.TransparentProxying = &mesh.TransparentProxying{RedirectPortInbound: 15006, RedirectPortOutbound: 15001, ReachableServices: []string{service, "backend"}}
			w.put(mesh.Dataplanes, meshName, "web-1", web)
			closed := &mesh.Mesh{Networking: &mesh.Outbounds{Outbound: &struct {
				Passthrough *bool `json:"passthrough,omitempty"`
			}{new(bool)}}}
			w.put(mesh.Meshes, "", meshName, closed)
			set := w.joined("web-1")
			if f := w.planner.Failures("web-1"); len(f) > 0 {
				t.Errorf("failures are %v", f)
			}
			for _, r := range set.All(resource.Cluster) {
				c := &clusterv3.Cluster{}
				if err := proto.Unmarshal(r.Body, c); err != nil {
					t.Fatal(err)
				}
				leads := c.GetType() == clusterv3.Cluster_EDS
				if named := slices.Contains([]string{service, "backend"}, r.Name); named != leads {
					t.Errorf("the cluster %s is of type %s", r.Name, c.GetType())
				}
				if !leads && len(mesh.ValidateTags("", mesh.Tags{mesh.TagService: r.Name})) == 0 {
					t.Errorf("a service can be called %s", r.Name)
				}
			}
			for _, name := range []string{bootstrap.ADSCluster, subset} {
				if set.Get(resource.Cluster, name) != nil {
					t.Errorf("%s is the cluster of a service", name)
				}
			}
			for _, r := range set.All(resource.Listener) {
				if m := mentionsOf(r); r.Name == "outbound:passthrough:ipv4" && slices.Contains(m.clusters, service) {
					t.Errorf("%s leads to the service", r.Name)
				}
			}
		})
	}
}
