package sidecar

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
)

// In a mesh with routing.zoneEgress, an instance in another zone is called through an egress of the
// own zone, by the same server name and under the same demands as at an ingress: the egress passes
// the connection on. While there is no egress, nothing in other zones is called.

// egresses lists the egresses of the zone of a mesh, one on each line.
func egresses(m *view.Mesh) string {
	var b strings.Builder
	for _, at := range m.Egresses() {
		b.WriteString(at.String())
		b.WriteByte('\n')
	}
	return b.String()
}

func egressesIn(list string) (out []netip.AddrPort) {
	for line := range strings.Lines(list) {
		out = append(out, netip.MustParseAddrPort(strings.TrimSuffix(line, "\n")))
	}
	return out
}

// maxShare bounds the weight of one egress, because Envoy adds weights up in 32 bits.
const maxShare = 1 << 20

// egressPlace is the sub-zone of egresses. What they lead to may be in several zones.
const egressPlace = "egress"

// throughEgress replaces the endpoints in other zones by the egresses at some addresses. Each gets
// the same part of their weight. There is no group if there is nothing in other zones, or no egress.
func throughEgress(all []Shared, at []netip.AddrPort) (near []Shared, group *endpointv3.LocalityLbEndpoints) {
	far := uint32(0)
	for _, e := range all {
		if e.Ingress == "" {
			near = append(near, e)
		} else {
			far = min(far+min(e.Weight, maxShare), maxShare)
		}
	}
	n := uint32(len(at)) //nolint:gosec // proxies are few
	if far == 0 || n == 0 {
		return near, nil
	}
	common := gcd(far, n)
	for i := range near {
		near[i].Weight *= n / common
	}
	group = &endpointv3.LocalityLbEndpoints{
		Locality: &corev3.Locality{SubZone: egressPlace}, LoadBalancingWeight: wrapperspb.UInt32(n * (far / common)),
	}
	for _, a := range at {
		e := lbEndpoint(a.Addr().String(), uint32(a.Port()))
		e.LoadBalancingWeight = wrapperspb.UInt32(far / common)
		group.LbEndpoints = append(group.LbEndpoints, e)
	}
	return near, group
}

func gcd(a, b uint32) uint32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// isElsewhere reports whether instances of a destination that some tags select are in other zones.
func isElsewhere(tags mesh.Tags, d view.Destination) bool {
	return slices.ContainsFunc(endpointsOf(d), func(e view.Endpoint) bool {
		return e.Ingress != "" && e.Ready && mesh.Matches(tags, e.Tags)
	})
}

// passThrough has what is in other zones called through the egresses, if the mesh wants that, and
// notes if there is none.
func (p *Planner) passThrough(o *outbound, k *assignmentKey, tags mesh.Tags) {
	if !p.facts.through || !k.far || !isElsewhere(tags, k.destination) {
		return
	}
	k.through, k.egresses = true, p.facts.egresses
	if k.egresses == "" {
		o.idle = append(o.idle, plan.Failure{
			Cell: o.cell(),
			Err:  fmt.Errorf("the mesh has routing.zoneEgress, and no egress of the zone leads to %q in other zones", tags.Service()),
		})
	}
}

// leaveBy has a service outside the mesh called through the egresses, if its kind is called so, and
// notes if there is none.
func (p *Planner) leaveBy(o *outbound, k *assignmentKey, tags mesh.Tags, kind int) {
	if !p.byEgress(kind) {
		return
	}
	k.outside, k.egresses = true, p.facts.egresses
	if k.egresses == "" {
		o.idle = append(o.idle, plan.Failure{
			Cell: o.cell(),
			Err:  fmt.Errorf("the mesh has routing.zoneEgress, and no egress of the zone leads to %q outside the mesh", tags.Service()),
		})
	}
}
