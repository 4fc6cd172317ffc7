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

// byEndpoint is what a transport has of its own in a permissive mesh: each endpoint of
// the service is spoken to as it can be.
type byEndpoint struct{}

// Transport implements [DestinationKind]: mutual TLS always while the mesh is strict, and
// while it is not towards every proxy that can. The others decide for themselves alone, so
// that a Dataplane without a proxy, which many may register, turns nobody else's
// connections to clear text.
func (meshServices) Transport(a Around, _ mesh.Tags, _ view.Destination) Transport {
	switch {
	case a.Strict():
		return Transport{Mutual: true, Life: a.Life()}
	case a.Permissive():
		return Transport{Life: a.Life(), Own: byEndpoint{}}
	}
	return Transport{}
}

// Clear implements [clearing].
func (meshServices) Clear(a Around, d view.Destination) string {
	if !a.Permissive() {
		return ""
	}
	var out []string
	all := endpointsOf(d)
	for i := range all {
		if all[i].Ingress == "" && !a.Secured(all[i].Dataplane) {
			out = append(out, all[i].Dataplane)
		}
	}
	return namesOf(out)
}

// Keeps implements [DestinationKind]. Under strict mutual TLS no cluster stays that would
// send requests in clear, to whoever is there.
func (meshServices) Keeps(a Around, was, _ Transport) bool { return !a.Strict() || was.Mutual }

// Cluster implements [DestinationKind].
func (meshServices) Cluster(d *draft.Cluster, in ClusterInput) error {
	byEach := in.Transport.Own == byEndpoint{}
	if err := discover(d.Proto, in); err != nil || !in.Transport.Mutual && !byEach {
		return err
	}
	socket, err := upstreamTLS(in.Mesh, in.Tags, in.Tags.Service())
	if err != nil {
		return err
	}
	d.Proto.TransportSocket = socket
	if byEach {
		if d.Proto.TransportSocketMatches, err = inClear(); err != nil {
			return err
		}
	}
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
