package sidecar

import (
	"cmp"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// assignmentKey holds everything that an assignment is made of.
type assignmentKey struct {
	name, tags string
	// destination has the endpoints. It is nil if nobody serves the service.
	destination view.Destination
	// clear are its dataplanes that are called in clear text, as namesOf joins them.
	clear string
	// far says that connections to other zones can be made: what is there is told by mutual TLS
	// which service a connection is for.
	far bool
	// through says that what is in other zones is called through the egresses of the own one, which
	// are listed as [egresses] does.
	through  bool
	egresses string
	// outside says that the egresses are all: the destination is called through them alone.
	outside bool
	// aware says that the mesh prefers near endpoints. local is then the zone of the proxy.
	aware bool
	local string
}

// assignment lists the endpoints of a destination, grouped by zone. It returns an assignment
// even if there are no endpoints, because a cluster without one would wait for it.
func assignment(k assignmentKey) (*resource.Resource, error) {
	a, err := members(k)
	if err != nil {
		return nil, err
	}
	return plan.Freeze(resource.Endpoint, a.ClusterName, a)
}

// named reports whether an endpoint of a destination has a name for an address.
func named(tags mesh.Tags, d view.Destination) bool {
	return d != nil && d.ByName() && slices.ContainsFunc(d.Members(), func(e view.Endpoint) bool {
		return e.Ready && !e.IsIP() && mesh.Matches(tags, e.Tags)
	})
}

func members(k assignmentKey) (*endpointv3.ClusterLoadAssignment, error) {
	tags := tagsOf(k.tags)
	a := &endpointv3.ClusterLoadAssignment{ClusterName: k.name}
	if k.outside {
		a.Endpoints = leaving(k.egresses)
		return a, nil
	}
	clearOnes := namesIn(k.clear)
	type place struct {
		zone  string
		clear bool
	}
	places := map[place]*endpointv3.LocalityLbEndpoints{}
	all := Shares(tags, endpointsOf(k.destination), k.far)
	if k.through {
		var egress *endpointv3.LocalityLbEndpoints
		if all, egress = throughEgress(all, egressesIn(k.egresses)); egress != nil {
			if k.aware {
				egress.Priority = 1
			}
			a.Endpoints = append(a.Endpoints, egress)
		}
	}
	for _, e := range all {
		_, clearly := slices.BinarySearch(clearOnes, e.Dataplane)
		at := place{e.Tags[mesh.TagZone], clearly}
		l := places[at]
		if l == nil {
			l = localityOf(at.zone, clearly)
			if k.aware && at.zone != k.local {
				l.Priority = 1
			}
			places[at] = l
			a.Endpoints = append(a.Endpoints, l)
		}
		endpoint, err := assigned(e.Endpoint)
		if err != nil {
			return nil, err
		}
		if clearly {
			mark(endpoint)
		}
		endpoint.LoadBalancingWeight.Value = e.Weight
		l.LbEndpoints = append(l.LbEndpoints, endpoint)
		l.LoadBalancingWeight.Value += e.Weight
	}
	near := func(l *endpointv3.LocalityLbEndpoints) uint32 { return l.GetPriority() }
	slices.SortStableFunc(a.Endpoints, func(x, y *endpointv3.LocalityLbEndpoints) int {
		in, other := x.GetLocality(), y.GetLocality()
		return cmp.Or(cmp.Compare(near(x), near(y)), cmp.Compare(in.GetZone(), other.GetZone()), cmp.Compare(in.GetSubZone(), other.GetSubZone()))
	})
	contiguous(a.Endpoints)
	return a, nil
}

// localityOf returns a group of endpoints without members. Endpoints in clear text form a group
// of their own within their zone. If only the mark of an endpoint changed, Envoy would keep its
// open connections; an endpoint that moves to another group is made again.
func localityOf(zone string, clearly bool) *endpointv3.LocalityLbEndpoints {
	l := &endpointv3.LocalityLbEndpoints{LoadBalancingWeight: wrapperspb.UInt32(0)}
	if zone != "" || clearly {
		l.Locality = &corev3.Locality{Zone: zone}
	}
	if clearly {
		l.Locality.SubZone = clearText
	}
	return l
}

func endpointsOf(d view.Destination) []view.Endpoint {
	if d == nil {
		return nil
	}
	return d.Members()
}

// contiguous renumbers priorities from 0, because Envoy refuses an assignment that skips one.
func contiguous(ls []*endpointv3.LocalityLbEndpoints) {
	if len(ls) > 0 && ls[0].GetPriority() > 0 {
		for _, l := range ls {
			l.Priority = 0
		}
	}
}

// assigned returns one endpoint. Its tags, except the service, are metadata by which subsets
// are chosen.
func assigned(e *view.Endpoint) (*endpointv3.LbEndpoint, error) {
	out := lbEndpoint(e.Address, e.Port)
	out.LoadBalancingWeight = wrapperspb.UInt32(1)
	tags := map[string]any{}
	for k, v := range e.Tags {
		// Behind an ingress are instances with various tags.
		if k != mesh.TagService && (e.Ingress == "" || k == mesh.TagZone) {
			tags[k] = v
		}
	}
	if len(tags) == 0 {
		return out, nil
	}
	s, err := structpb.NewStruct(tags)
	if err != nil {
		return nil, err
	}
	out.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.lb": s}}
	return out, nil
}

// protocolOf returns the best protocol that all endpoints of some destinations speak. Every
// grpc endpoint also speaks http2, and all speak tcp. An endpoint without a protocol is tcp.
func protocolOf(protocols []string) string {
	common := ""
	for _, p := range protocols {
		switch {
		case common == "" || common == p:
			common = p
		case isHTTP2(common) && isHTTP2(p):
			common = mesh.ProtocolHTTP2
		default:
			return mesh.ProtocolTCP
		}
	}
	if !mesh.IsHTTP(common) {
		return mesh.ProtocolTCP
	}
	return common
}

func isHTTP2(p string) bool { return p == mesh.ProtocolGRPC || p == mesh.ProtocolHTTP2 }
