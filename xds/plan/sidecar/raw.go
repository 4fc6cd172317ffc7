package sidecar

import (
	"fmt"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// The raw stage patches finished tables of a proxy, one resource after another. A patch is a
// cell of a selection and a resource, so that shared resources are patched once for all
// proxies.

// raw lists the types that the raw stage patches, with constructors of their messages.
var raw = []struct {
	t     resource.TypeURL
	proto func() message
}{
	{resource.Cluster, func() message { return new(clusterv3.Cluster) }},
	{resource.Listener, func() message { return new(listenerv3.Listener) }},
	{resource.Route, func() message { return new(routev3.RouteConfiguration) }},
}

type message interface {
	proto.Message
	GetName() string
}

// patchKey is everything that a patched resource is made from.
type patchKey struct {
	policy    *policy.Policy
	selection *policy.Selection
	resource  *resource.Resource
}

// finished is a table after the raw stage, with what it was made from.
type finished struct {
	base, table *resource.Table
	choices     *policy.Choices
	failures    []plan.Failure
}

// finish applies the raw stage to the tables of a proxy.
func (p *Planner) finish(x *proxy, tables map[resource.TypeURL]*resource.Table) (failures []plan.Failure) {
	if x.finished == nil {
		x.finished = map[resource.TypeURL]finished{}
	}
	for _, kind := range raw {
		f := x.finished[kind.t]
		if f.base != tables[kind.t] || f.choices != x.class.proxy {
			was := f.table
			f = finished{base: tables[kind.t], choices: x.class.proxy}
			f.table = was.Become(p.patchAll(x.class.proxy, kind.t, f.base, &f.failures))
			x.finished[kind.t] = f
		}
		tables[kind.t] = f.table
		failures = append(failures, f.failures...)
	}
	return failures
}

// repatch asks for the cells of the raw stage again, so that they are not forgotten.
func (p *Planner) repatch(x *proxy) {
	for t, f := range x.finished {
		var ignored []plan.Failure
		p.patchAll(f.choices, t, f.base, &ignored)
	}
}

// patchAll returns the resources of a table after all policies have patched it and added to
// it.
func (p *Planner) patchAll(chosen *policy.Choices, t resource.TypeURL, base *resource.Table, failures *[]plan.Failure) []*resource.Resource {
	all := resource.Assemble(map[resource.TypeURL]*resource.Table{t: base}, nil).All(t)
	for i, pol := range p.policies {
		s := chosen.At(i)
		if s == nil {
			continue
		}
		fail := func(cell string, err error) {
			*failures = append(*failures, plan.Failure{Cell: cell, Err: fmt.Errorf("%s %s: %w", pol.Kind.Document.Type, s.Policies[0].Name, err)})
		}
		if pol.Add != nil {
			added, err := of(p.cells.contributions, p.round, contributionKey{p.facts.mesh, pol, s, true}, callForContribution)
			if err != nil {
				fail("additions", err)
			} else {
				all = over(all, added.of(t))
			}
		}
		if pol.Patch == nil {
			continue
		}
		var kept []*resource.Resource
		for _, r := range all {
			out, err := of(p.cells.patches, p.round, patchKey{pol, s, r}, patched)
			if err != nil {
				fail(r.Name, fmt.Errorf("nothing passes here: %w", err))
				out = shut(r)
			}
			if out != nil {
				kept = append(kept, out)
			}
		}
		all = kept
	}
	return all
}

func (c *contribution) of(t resource.TypeURL) []*resource.Resource {
	switch t {
	case resource.Cluster:
		return c.clusters
	case resource.Listener:
		return c.listeners
	}
	return nil
}

// over adds resources, replacing those with the same names.
func over(all, more []*resource.Resource) []*resource.Resource {
	if len(more) == 0 {
		return all
	}
	out := slices.Clone(more)
	for _, r := range all {
		if !slices.ContainsFunc(more, func(o *resource.Resource) bool { return o.Name == r.Name }) {
			out = append(out, r)
		}
	}
	return out
}

// patched returns a resource after a patch: the same resource if the patch changes nothing, or
// nil if the patch removes it.
func patched(k patchKey) (*resource.Resource, error) {
	d := &draft.Finished{Origin: originOf(k.resource)}
	for _, kind := range raw {
		if kind.t == k.resource.Type {
			d.Proto = kind.proto()
		}
	}
	if err := proto.Unmarshal(k.resource.Body, d.Proto); err != nil {
		return nil, err
	}
	if err := k.policy.Patch(d, k.selection); err != nil || d.Removed {
		return nil, err
	}
	if m, ok := d.Proto.(message); !ok || m.GetName() != k.resource.Name {
		return nil, fmt.Errorf("a patch must not rename %s", k.resource.Name)
	}
	r, err := plan.Freeze(k.resource.Type, k.resource.Name, d.Proto)
	if err != nil {
		return nil, err
	}
	if r.Version == k.resource.Version {
		return k.resource, nil
	}
	r.Plugins = k.resource.Plugins
	return r, nil
}

// shut returns the replacement of a resource that cannot be patched, or nil. A cluster needs
// none, because requests to a missing cluster are answered with 503. Missing routes would be
// waited for. A missing listener would let connections pass at a transparent proxy.
func shut(r *resource.Resource) *resource.Resource {
	var out *resource.Resource
	var err error
	switch r.Type {
	case resource.Route:
		out, err = closedRoutes(inboundRoutesKey{name: r.Name})
	case resource.Listener:
		out, err = closedListener(r)
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	return out
}

// closedListener listens on the address of another listener and ends every connection.
func closedListener(r *resource.Resource) (*resource.Resource, error) {
	l := new(listenerv3.Listener)
	if err := proto.Unmarshal(r.Body, l); err != nil {
		return nil, err
	}
	end, err := packFilter(tcpFilter, &tcpv3.TcpProxy{StatPrefix: statName(r.Name), ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: nowhere}})
	if err != nil {
		return nil, err
	}
	return plan.Freeze(resource.Listener, r.Name, &listenerv3.Listener{
		Name: r.Name, Address: l.GetAddress(), TrafficDirection: l.GetTrafficDirection(), BindToPort: l.GetBindToPort(), EnableReusePort: l.GetEnableReusePort(),
		FilterChains: []*listenerv3.FilterChain{{Name: "closed", Filters: []*listenerv3.Filter{end}}},
	})
}

// originOf tells from the name of a resource what it is for. No service can have a name that
// misleads it: every cluster that does not simply stand for a service has a mark.
func originOf(r *resource.Resource) string {
	name, marked := strings.CutPrefix(r.Name, apart)
	switch {
	case marked == (r.Type == resource.Cluster) && isPassthrough(name):
		return draft.OriginTransparent
	case r.Type == resource.Cluster && strings.HasPrefix(r.Name, localPrefix):
		return draft.OriginInbound
	case draft.IsMarked(r.Name):
		return draft.OriginContributed
	case r.Type != resource.Cluster && strings.HasPrefix(r.Name, inboundPrefix):
		return draft.OriginInbound
	}
	return draft.OriginOutbound
}
