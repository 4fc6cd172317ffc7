package sidecar

import (
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/resource"
)

// cells are the memories of all builders.
type cells struct {
	splits         *memo[splitKey, *draft.Split]
	clusters       *memo[clusterKey, *resource.Resource]
	locals         *memo[localKey, *resource.Resource]
	assignments    *memo[assignmentKey, *resource.Resource]
	outbounds      *memo[outboundKey, *resource.Resource]
	outboundRoutes *memo[outboundRoutesKey, *resource.Resource]
	builtinRoutes  *memo[builtinRouteKey, *routev3.Route]
	builtinTables  *memo[builtinTableKey, *resource.Resource]
	builtins       *memo[builtinListenerKey, *resource.Resource]
	chains         *memo[inboundKey, *chains]
	inboundRoutes  *memo[inboundRoutesKey, *resource.Resource]
	listeners      *memo[listenerKey, *resource.Resource]
	redirects      *memo[passKey, *resource.Resource]
	originals      *memo[redirectKey, *resource.Resource]
	probings       *memo[probeRoutesKey, *resource.Resource]
	probes         *memo[probeKey, *resource.Resource]
	directs        *memo[directKey, *resource.Resource]
	accesses       *memo[accessKey, *resource.Resource]
	contributions  *memo[contributionKey, *contribution]
	patches        *memo[patchKey, patchedResource]

	// all holds each of them, for sweeps.
	all []sweeper
}

// sweeper is a memory of any kind of cells.
type sweeper interface {
	crowded() bool
	sweep(since uint64)
}

// newCells returns empty memories.
func newCells() (c cells) {
	begin(&c, &c.splits)
	begin(&c, &c.clusters)
	begin(&c, &c.locals)
	begin(&c, &c.assignments)
	begin(&c, &c.outbounds)
	begin(&c, &c.outboundRoutes)
	begin(&c, &c.builtinRoutes)
	begin(&c, &c.builtinTables)
	begin(&c, &c.builtins)
	begin(&c, &c.chains)
	begin(&c, &c.inboundRoutes)
	begin(&c, &c.listeners)
	begin(&c, &c.redirects)
	begin(&c, &c.originals)
	begin(&c, &c.probings)
	begin(&c, &c.probes)
	begin(&c, &c.directs)
	begin(&c, &c.accesses)
	begin(&c, &c.contributions)
	begin(&c, &c.patches)
	return c
}

// begin makes a memory, which is swept with the others. A memory that nobody begins is nil and
// cannot be used.
func begin[K comparable, V any](c *cells, m **memo[K, V]) {
	*m = newMemo[K, V]()
	c.all = append(c.all, *m)
}

// sweep forgets the cells that nobody uses, if there are many in any memory. Classes ask for
// their cells only when they are built. So everything in use is asked for once before.
func (p *Planner) sweep() {
	if !slices.ContainsFunc(p.cells.all, sweeper.crowded) {
		return
	}
	p.round++
	for _, r := range p.reaches {
		for _, o := range r.outbounds {
			p.buildOutbound(o)
		}
		p.stand(r)
	}
	for _, class := range p.classes {
		p.redirected(class)
		p.probing(class, &part{})
		p.contributed(class.picks(p), nil)
		for _, in := range class.inbounds {
			p.buildInbound(class, in)
		}
	}
	for _, x := range p.proxies {
		p.buildOwn(x)
		p.repatch(x)
	}
	for _, m := range p.cells.all {
		m.sweep(p.round)
	}
}
