package sidecar

import (
	"fmt"
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// has says which of the rare edits any policy has, so that no work is done for those that none
// has.
type has struct{ contribute, patch, routes, targets, facts bool }

func hasOf(policies []*policy.Policy) (h has) {
	for _, pol := range policies {
		h.contribute = h.contribute || pol.Contribute != nil
		h.patch = h.patch || pol.Patch != nil || pol.Add != nil
		h.routes = h.routes || pol.Route != nil
		h.targets = h.targets || pol.Target != nil
		h.facts = h.facts || pol.Facts != nil
	}
	return h
}

// contributionKey is everything that a contribution is made from.
type contributionKey struct {
	mesh      string
	policy    *policy.Policy
	selection *policy.Selection
	// raw selects the additions of the raw stage.
	raw bool
}

// contribution is what a policy adds for one selection.
type contribution struct {
	clusters, listeners, secrets []*resource.Resource
	// sockets are the addresses of the listeners, by name.
	sockets map[string]netip.AddrPort
}

// contributed adds the contributions of the selections for one place.
func (p *Planner) contributed(chosen picks, into *part) {
	if !p.has.contribute {
		return
	}
	for i, pol := range p.policies {
		if pol.Contribute == nil || chosen[i] == nil {
			continue
		}
		c, err := of(p.cells.contributions, p.round, contributionKey{p.facts.mesh, pol, chosen[i], false}, callForContribution)
		switch {
		case into == nil:
		case err != nil:
			into.failures = append(into.failures, plan.Failure{Cell: pol.Named(chosen[i].Policies[0].Name), Err: err, By: pol.Names(chosen[i])})
		default:
			into.contributions = append(into.contributions, c)
		}
	}
}

// callForContribution calls a policy for its contribution.
func callForContribution(k contributionKey) (*contribution, error) {
	d := &draft.Contribution{Mesh: k.mesh}
	edit := k.policy.Contribute
	if k.raw {
		edit = k.policy.Add
	}
	if err := edit(d, k.selection); err != nil {
		return nil, err
	}
	out := &contribution{sockets: map[string]netip.AddrPort{}}
	add := func(into *[]*resource.Resource, t resource.TypeURL, m interface{ GetName() string }, freeze func() (*resource.Resource, error)) error {
		if !k.raw && !draft.IsMarked(m.GetName()) {
			return fmt.Errorf("the name of %s %s is not marked", t, m.GetName())
		}
		r, err := freeze()
		*into = append(*into, r)
		return err
	}
	for _, c := range d.Clusters {
		if err := add(&out.clusters, resource.Cluster, c, func() (*resource.Resource, error) { return plan.Freeze(resource.Cluster, c.GetName(), c) }); err != nil {
			return nil, err
		}
	}
	for _, l := range d.Listeners {
		if err := add(&out.listeners, resource.Listener, l, func() (*resource.Resource, error) { return plan.Freeze(resource.Listener, l.GetName(), l) }); err != nil {
			return nil, err
		}
		at, err := listensOn(l.GetAddress())
		if err != nil {
			return nil, err
		}
		out.sockets[l.GetName()] = at
	}
	for _, s := range d.Secrets {
		if err := add(&out.secrets, resource.Secret, s, func() (*resource.Resource, error) { return plan.Freeze(resource.Secret, s.GetName(), s) }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func listensOn(a *corev3.Address) (netip.AddrPort, error) {
	s := a.GetSocketAddress()
	return addressOf(s.GetAddress(), s.GetPortValue())
}

// collectContributions collects the contributions of the outbounds of a reach, each once.
func (r *reach) collectContributions() {
	r.contributions = distinctly(nil, r.front.contributions)
	for _, o := range r.outbounds {
		r.contributions = distinctly(r.contributions, o.part.contributions)
	}
}

func distinctly(into, more []*contribution) []*contribution {
	for _, c := range more {
		if !slices.Contains(into, c) {
			into = append(into, c)
		}
	}
	return into
}

// contribute determines the contributions that the proxies of a class get: those to whole
// proxies first, then those of outbounds, then those of inbounds. If two of them define one
// name differently, the first wins. A listener at the address of an outbound is omitted.
func (p *Planner) contribute(c *class, first, rest *part) {
	c.contributed, c.sockets = part{}, nil
	if !p.has.contribute {
		return
	}
	p.contributed(c.picks(p), first)
	for _, one := range distinctly(distinctly(slices.Clone(first.contributions), c.reach.contributions), rest.contributions) {
		c.join(&c.contributed.clusters, one.clusters)
		c.join(&c.contributed.secrets, one.secrets)
		for _, l := range one.listeners {
			if at := one.sockets[l.Name]; c.reach.occupied(at) {
				c.contributed.failures = append(c.contributed.failures, plan.Failure{Cell: l.Name, Err: fmt.Errorf("an outbound listens on %s", at)})
			} else if c.join(&c.contributed.listeners, []*resource.Resource{l}) {
				if c.sockets == nil {
					c.sockets = map[string]netip.AddrPort{}
				}
				c.sockets[l.Name] = at
			}
		}
	}
}

// join adds resources and reports whether the last one is new. If the name already exists, the
// existing resource stays; different content is a failure.
func (c *class) join(into *[]*resource.Resource, more []*resource.Resource) (joined bool) {
	for _, r := range more {
		i := slices.IndexFunc(*into, func(o *resource.Resource) bool { return o.Name == r.Name })
		if joined = i < 0; joined {
			*into = append(*into, r)
		} else if (*into)[i].Version != r.Version {
			c.contributed.failures = append(c.contributed.failures, plan.Failure{Cell: r.Name, Err: fmt.Errorf("several policies make different things of %s", r.Name)})
		}
	}
	return joined
}

// occupied reports whether an outbound, or the direct access to an instance, is where something
// else would listen.
func (r *reach) occupied(at netip.AddrPort) bool { return r.direct.at[at] || r.taken(at) }

// taken reports whether an outbound listens where something else would.
func (r *reach) taken(at netip.AddrPort) bool {
	here := sockets{at: true}
	return slices.ContainsFunc(r.ports[at.Port()], func(o *outbound) bool { return here.has(o.at) })
}
