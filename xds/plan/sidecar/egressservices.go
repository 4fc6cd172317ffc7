package sidecar

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
)

// egressServices are the services outside a mesh that is left through the egresses of its zone.
// Callers prove to an egress who they are and say by the server name which service they mean. What
// the service demands is the egress's business ([Exits]), and so are the keys that are presented
// to it. While there is no egress, the cluster is empty, and nothing is called past it.
type egressServices struct{ externalServices }

// Find implements [DestinationKind].
func (egressServices) Find(m *view.Mesh, service string) view.Destination {
	if l := m.Located(mesh.ExternalServices, service); l != nil && m.LeavesByEgress() {
		return l
	}
	return nil
}

// Inline implements [DestinationKind].
func (egressServices) Inline(mesh.Tags, view.Destination) bool { return false }

// Transport implements [DestinationKind].
func (egressServices) Transport(a Around, _ mesh.Tags, _ view.Destination) Transport {
	return Transport{Mutual: true, Life: a.Life()}
}

// Mark implements [marking].
func (egressServices) Mark(Transport) string { return apart + mesh.EgressService }

// Confides implements [confiding].
func (egressServices) Confides(Transport) []string { return nil }

// Keeps implements [DestinationKind].
func (egressServices) Keeps(_ Around, was, _ Transport) bool { return was.Mutual }

// Cluster implements [DestinationKind].
func (egressServices) Cluster(d *draft.Cluster, in ClusterInput) error {
	if err := discover(d.Proto, in); err != nil {
		return err
	}
	socket, err := upstreamTLS(in.Mesh, in.Tags, mesh.EgressService)
	if err != nil {
		return err
	}
	d.Proto.TransportSocket = socket
	life := durationpb.New(in.Transport.Life)
	d.HTTP.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{MaxConnectionDuration: life, MaxStreamDuration: life}
	return nil
}

// byEgress reports whether a kind, by its place in the list, is that of services that are called
// through egresses.
func (p *Planner) byEgress(kind int) bool {
	_, is := p.kinds[kind].(egressServices)
	return is
}

// leaving are the egresses through which a service outside is called, which all lead there.
func leaving(list string) (out []*endpointv3.LocalityLbEndpoints) {
	_, group := throughEgress([]Shared{{Endpoint: &view.Endpoint{Ingress: egressPlace}, Weight: 1}}, egressesIn(list))
	if group != nil {
		out = append(out, group)
	}
	return out
}
