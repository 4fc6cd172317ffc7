package publish

import (
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/egress"
	"github.com/meshgate/meshgate/xds/plan/ingress"
	"github.com/meshgate/meshgate/xds/plan/passing"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// zonePlanner plans the proxies of one type.
type zonePlanner interface {
	Update(z *view.Zone)
	Set(address string, port uint32) (*resource.Set, error)
	Failures() []failure
	// Behind returns the meshes of which the proxies keep what they had, because these cannot be planned
	// or read. Only what proves or judges who somebody is matters: a mesh must not withdraw a root
	// meanwhile.
	Behind() []string
	// copied returns a planner that remembers the same and is used independently.
	copied() zonePlanner
}

// ingresses and egresses are the planners of the product.
type (
	ingresses struct{ *passing.Planner }
	egresses  struct{ *egress.Planner }
)

// Behind implements [zonePlanner]. Ingresses have no roots and no certificates of any mesh.
func (ingresses) Behind() []string { return nil }

func (p ingresses) copied() zonePlanner { return ingresses{p.Copy()} }

func (p egresses) copied() zonePlanner { return egresses{p.Copy()} }

// zonePlanners are those of the types of proxies of a zone.
type zonePlanners map[string]zonePlanner

// newZonePlanners returns planners that know nothing.
func newZonePlanners(policies []*policy.Policy) zonePlanners {
	return zonePlanners{mesh.ProxyIngress: ingresses{ingress.New()}, mesh.ProxyEgress: egresses{egress.New(policies)}}
}

func (ps zonePlanners) copied() zonePlanners {
	out := make(zonePlanners, len(ps))
	for proxyType, p := range ps {
		out[proxyType] = p.copied()
	}
	return out
}

func (ps zonePlanners) update(z *view.Zone) {
	for _, p := range ps {
		p.Update(z)
	}
}

// set returns the set of a proxy in the state that was taken last. A panic is an error of this proxy
// alone: making a set changes nothing that others have.
func (ps zonePlanners) set(z *view.Zone, id string) (*resource.Set, error) {
	proxyType, name, _ := mesh.ParseZoneNode(id)
	proxy := z.Proxy(proxyType, name)
	if proxy == nil {
		return nil, fault.New(fault.NotFound, "zone %s %s does not exist in this zone; create it first", proxyType, name)
	}
	var set *resource.Set
	var err error
	if failed := guard(func() { set, err = ps[proxyType].Set(proxy.Listens()) }); failed != nil {
		err = failed
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the configuration of zone %s %s cannot be made: %s", proxyType, name, err)
	}
	return set, nil
}

// refusal is the failure of a proxy of which the set cannot be made: it keeps its last one.
func refusal(err error) failure { return failure{Cell: "listener", Err: err, Kept: true} }
