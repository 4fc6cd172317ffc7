package publish

import (
	"context"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/resource"
)

// foresee implements imagined.
func (i *imaginedZone) foresee(ctx context.Context, _ *Loop, room int) Foreseen {
	f, t := Foreseen{Scope: ZoneScope}, tally{}
	f.notFollowed(i.Err, Failure{})
	all, planners := i.plane.remembered()
	r := remembering[*view.Zone]{nodes: i.choose(all, room), held: all}
	f.Compared, f.Omitted = len(r.nodes), len(all)-len(r.nodes)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		proxyType, name, _ := mesh.ParseZoneNode(id)
		if i.Before.Proxy(proxyType, name) != nil && i.After.Proxy(proxyType, name) == nil {
			f.Gone = append(f.Gone, ZoneProxy(proxyType, name))
		}
	}
	r.plan = func(z *view.Zone) planned {
		these := planners
		planners = i.plane.fresh() // one of these may stop half-way
		out := these.plan(z, r.nodes)
		planners = these
		return out
	}
	f.Fates = r.foresee(ctx, &i.Imagined, Failure{}, t)
	f.complete(t)
	return f
}

// remembered copies what the connected proxies have, and what their planners remember.
func (p *zonePlane) remembered() (map[string]*resource.Set, zonePlanners) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.joined), p.planners.copied()
}

// choose returns the proxies that are compared. They differ in their types, and in where they listen.
func (i *imaginedZone) choose(all map[string]*resource.Set, room int) []string {
	typeOf := func(id string) string {
		proxyType, _, _ := mesh.ParseZoneNode(id)
		return proxyType
	}
	return choose(slices.Sorted(maps.Keys(all)), room, func(id string) bool {
		proxyType, name, _ := mesh.ParseZoneNode(id)
		return slices.Contains(i.Keys, model.Key{Kind: mesh.ZoneKind(proxyType).Name, Name: name})
	}, typeOf)
}

// plan plans some proxies. One that does not exist keeps what it has until it is turned away, and one
// that cannot listen where it is to keeps it, too.
func (ps zonePlanners) plan(z *view.Zone, nodes []string) planned {
	ps.update(z)
	out, count := planned{sets: map[string]*resource.Set{}, failures: map[string]lacking{}}, map[string]int{}
	for _, id := range nodes {
		proxyType, name, _ := mesh.ParseZoneNode(id)
		if z.Proxy(proxyType, name) == nil {
			continue
		}
		count[proxyType]++
		set, err := ps.set(z, id)
		if err != nil {
			out.failures[id] = lacking{[]failure{refusal(err)}, 1}
			continue
		}
		out.sets[id] = set
	}
	for proxyType, n := range count {
		out.failures[proxyType] = lacking{ps[proxyType].Failures(), n}
	}
	return out
}
