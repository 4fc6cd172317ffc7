package sidecar

import (
	"net/netip"

	"github.com/meshgate/meshgate/xds/naming"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
)

// known makes the table of the host names by which the proxies of a reach know their outbounds,
// and lists the names that lead elsewhere.
func known(hosts map[string]netip.Addr, left []selection.LeftOut) (out part) {
	r, err := plan.Freeze(resource.Cluster, naming.Cluster, naming.Encode(hosts))
	out.keep(&out.clusters, nil, naming.Cluster, r, err)
	for i := range left {
		out.failures = append(out.failures, plan.Failure{Cell: naming.Cluster, Err: &left[i]})
	}
	return out
}

// renamed marks the reaches that include every service, if a name has another address, or if
// VirtualOutbounds say something else.
func (p *Planner) renamed() {
	for _, r := range p.reaches {
		if r.shape.Everything {
			r.relist = true
			p.moved[r] = struct{}{}
		}
	}
}
