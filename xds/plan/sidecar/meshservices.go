package sidecar

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
)

// meshServices are the services that dataplanes of the mesh serve.
type meshServices struct{}

// Kind implements [DestinationKind].
func (meshServices) Kind() *model.Kind { return mesh.Dataplanes }

// Find implements [DestinationKind].
func (meshServices) Find(m *view.Mesh, service string) view.Destination {
	if s := m.Service(service); s != nil {
		return s
	}
	return nil
}

// Inline implements [DestinationKind]: an assignment carries addresses alone, so names
// are in the cluster.
func (meshServices) Inline(tags mesh.Tags, d view.Destination) bool { return named(tags, d) }

// Transport implements [DestinationKind]: mutual TLS always while the mesh is strict, and
// while it is not as soon as every proxy of the service can.
func (meshServices) Transport(a Around, d view.Destination) Transport {
	if a.Strict() || a.Permissive() && allSecured(a, endpointsOf(d)) {
		return Transport{Mutual: true, Life: a.Life()}
	}
	return Transport{}
}

func allSecured(a Around, endpoints []view.Endpoint) bool {
	for i := range endpoints {
		if !a.Secured(endpoints[i].Dataplane) {
			return false
		}
	}
	return len(endpoints) > 0
}

// Keeps implements [DestinationKind]. Under strict mutual TLS no cluster stays that would
// send requests in clear, to whoever is there.
func (meshServices) Keeps(a Around, was, _ Transport) bool { return !a.Strict() || was.Mutual }

// Cluster implements [DestinationKind].
func (meshServices) Cluster(d *draft.Cluster, in ClusterInput) error {
	if err := discover(d.Proto, in); err != nil || !in.Transport.Mutual {
		return err
	}
	socket, err := upstreamTLS(in.Mesh, in.Tags)
	if err != nil {
		return err
	}
	d.Proto.TransportSocket = socket
	life := durationpb.New(in.Transport.Life)
	d.HTTP.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{MaxConnectionDuration: life, MaxStreamDuration: life}
	return nil
}

// Lead implements [DestinationKind]: workloads are asked what the caller asked.
func (meshServices) Lead(mesh.Tags, view.Destination) any { return nil }

// Route implements [DestinationKind].
func (meshServices) Route(*draft.Target, any) error { return nil }

// discover says how the cluster finds its endpoints. With names among them Envoy
// resolves all, again every five seconds; a change of them is a change of the
// cluster.
func discover(c *clusterv3.Cluster, in ClusterInput) error {
	if in.Members == nil {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
		c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{EdsConfig: plan.ADS()}
		return nil
	}
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
	c.DnsLookupFamily = clusterv3.Cluster_V4_PREFERRED
	c.LoadAssignment = in.Members
	var err error
	c.TypedDnsResolverConfig, err = plan.Resolver()
	return err
}
