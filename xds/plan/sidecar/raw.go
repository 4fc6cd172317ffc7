package sidecar

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/netip"
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
	// added says that the policy itself has made the resource.
	added bool
}

// finished is a table after the raw stage, with what it was made from.
type finished struct {
	base, table *resource.Table
	choices     *policy.Choices
	failures    []plan.Failure
	// removed are the resources that the stage removed.
	removed []*resource.Resource
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
			f.table = was.Become(p.patchAll(x, x.class.proxy, kind.t, f.base, &f.failures))
			for _, r := range resourcesOf(kind.t, f.base) {
				if f.table.Get(r.Name) == nil {
					f.removed = append(f.removed, r)
				}
			}
			x.finished[kind.t] = f
		}
		tables[kind.t] = f.table
		p.unasked(x, &f, kind.t, tables)
		failures = append(failures, f.failures...)
	}
	return failures
}

// unasked drops what nothing asks for after resources were removed: the assignments of clusters,
// and the route tables of listeners. Otherwise the proxy would be sent every change of endpoints
// that it cannot call.
func (p *Planner) unasked(x *proxy, f *finished, t resource.TypeURL, tables map[resource.TypeURL]*resource.Table) {
	var drop []string
	switch t {
	case resource.Cluster:
		for _, r := range f.removed {
			if tables[resource.Endpoint].Get(r.Name) != nil {
				drop = append(drop, r.Name)
			}
		}
		tables[resource.Endpoint] = x.endpoints.with(&p.compare, tables[resource.Endpoint], nil, drop)
	case resource.Listener:
		asked := map[string]bool{}
		if len(f.removed) > 0 {
			for _, r := range resourcesOf(t, f.table) {
				for _, name := range r.Routes {
					asked[name] = true
				}
			}
		}
		for _, r := range f.removed {
			for _, name := range r.Routes {
				if !asked[name] && tables[resource.Route].Get(name) != nil {
					asked[name], drop = true, append(drop, name)
				}
			}
		}
		tables[resource.Route] = x.routes.with(&p.compare, tables[resource.Route], nil, drop)
	}
}

// unneeded withdraws the secrets that only removed clusters present: a proxy has no keys for
// services that it cannot call.
func (x *proxy) unneeded(secrets map[string]string, confided []string, clusters *resource.Table) map[string]string {
	if len(x.finished[resource.Cluster].removed) == 0 || len(confided) == 0 {
		return secrets
	}
	left, all := maps.Clone(secrets), resourcesOf(resource.Cluster, clusters)
	for _, name := range confided { // names are content-derived, so that no other text is one
		if !slices.ContainsFunc(all, func(r *resource.Resource) bool { return bytes.Contains(r.Body, []byte(name)) }) {
			delete(left, name)
		}
	}
	return left
}

// resourcesOf lists the resources of a table by name.
func resourcesOf(t resource.TypeURL, table *resource.Table) []*resource.Resource {
	return resource.Assemble(map[resource.TypeURL]*resource.Table{t: table}, nil).All(t)
}

// repatch asks for the cells of the raw stage again, so that they are not forgotten.
func (p *Planner) repatch(x *proxy) {
	for t, f := range x.finished {
		var ignored []plan.Failure
		p.patchAll(x, f.choices, t, f.base, &ignored)
	}
}

// patchAll returns the resources of a table after all policies have patched it and added to
// it.
func (p *Planner) patchAll(x *proxy, chosen *policy.Choices, t resource.TypeURL, base *resource.Table, failures *[]plan.Failure) []*resource.Resource {
	all := resourcesOf(t, base)
	for i, pol := range p.policies {
		s := chosen.At(i)
		if s == nil {
			continue
		}
		fail := func(cell string, err error) {
			*failures = append(*failures, plan.Failure{Cell: cell, Err: fmt.Errorf("%s: %w", pol.Named(s.Policies[0].Name), err), By: pol.Names(s)})
		}
		added := map[*resource.Resource]bool{}
		if pol.Add != nil {
			more, err := of(p.cells.contributions, p.round, contributionKey{p.facts.mesh, pol, s, true}, callForContribution)
			if err != nil {
				fail("additions", err)
			} else {
				all = x.beyond(all, more, t, added, fail)
			}
		}
		if pol.Patch == nil {
			continue
		}
		var kept []*resource.Resource
		for _, r := range all {
			out, err := of(p.cells.patches, p.round, patchKey{pol, s, r, added[r]}, patched)
			switch {
			case err != nil:
				fail(r.Name, fmt.Errorf("nothing passes here: %w", err))
				out.resource = shut(r)
			case out.left != nil:
				*failures = append(*failures, plan.Failure{Cell: r.Name, Err: out.left, By: pol.Names(s)})
			}
			if out.resource != nil {
				kept = append(kept, out.resource)
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

// beyond adds resources and notes them in added. What the mesh makes itself is not replaced, and
// nothing listens in its place: it may be there to keep somebody out.
func (x *proxy) beyond(all []*resource.Resource, more *contribution, t resource.TypeURL, added map[*resource.Resource]bool, fail func(cell string, err error)) []*resource.Resource {
	out := slices.Clip(all)
	for _, r := range more.of(t) {
		switch at := more.sockets[r.Name]; {
		case slices.ContainsFunc(all, func(o *resource.Resource) bool { return o.Name == r.Name }):
			fail(r.Name, errors.New("it is not added: the mesh makes another one of this name"))
			continue
		case t == resource.Listener && x.listensAt(at):
			fail(r.Name, fmt.Errorf("it is not added: the mesh listens on %s", at))
			continue
		}
		added[r] = true
		out = append(out, r)
	}
	return out
}

// listensAt reports whether the mesh has a listener of the proxy where another one would be.
func (x *proxy) listensAt(at netip.AddrPort) bool {
	s := &x.class.shape
	if s.Transparent && (uint32(at.Port()) == s.RedirectOutbound || uint32(at.Port()) == s.RedirectInbound) {
		return true
	}
	taken := sockets{}
	for i, in := range x.class.inbounds {
		if i < len(x.listening) && in.shape.Scraping == nil {
			if here, err := addressOf(x.listening[i], in.shape.Port); err == nil {
				taken[here] = true
			}
		}
	}
	return taken.has(at) || x.class.reach.occupied(at)
}

// patchedResource is a resource after a patch, nil if the patch removes it, and what of the patch
// was left out.
type patchedResource struct {
	resource *resource.Resource
	left     error
}

// patched patches a resource. It returns the same one if the patch changes nothing.
func patched(k patchKey) (out patchedResource, err error) {
	d := &draft.Finished{Origin: originOf(k.resource)}
	if k.added {
		d.Origin = draft.OriginContributed
	}
	for _, kind := range raw {
		if kind.t == k.resource.Type {
			d.Proto = kind.proto()
		}
	}
	if err := proto.Unmarshal(k.resource.Body, d.Proto); err != nil {
		return out, err
	}
	err = k.policy.Patch(d, k.selection)
	out.left = k.says(d.Left)
	if err != nil || d.Removed {
		return out, err
	}
	if m, ok := d.Proto.(message); !ok || m.GetName() != k.resource.Name {
		return out, fmt.Errorf("a patch must not rename %s", k.resource.Name)
	}
	out.resource = k.resource
	r, err := plan.Freeze(k.resource.Type, k.resource.Name, d.Proto)
	if err != nil {
		// Envoy would refuse it. What the mesh makes is as good as ever.
		out.left = k.says(append(d.Left, err))
		return out, nil
	}
	if r.Version != k.resource.Version {
		r.Plugins = k.resource.Plugins
		out.resource = r
	}
	return out, nil
}

// maxLeft is how many bytes are said about what one patch leaves out.
const maxLeft = 512

// says returns one short error for what a patch leaves out, or nil. It is the same value for all
// proxies that have the resource: there may be a thousand of each.
func (k patchKey) says(left []error) error {
	err := errors.Join(left...)
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) > maxLeft {
		text = strings.ToValidUTF8(text[:maxLeft], "") + "..."
	}
	return fmt.Errorf("%s %s: %s", k.policy.Kind.Document.Type, k.selection.Policies[0].Name, text)
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
	case aboutMetrics(r), aboutProbes(r), r.Name == probeListener && r.Type != resource.Cluster:
		return draft.OriginTransparent
	case marked == (r.Type == resource.Cluster) && strings.HasPrefix(name, directPrefix):
		return draft.OriginTransparent
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
