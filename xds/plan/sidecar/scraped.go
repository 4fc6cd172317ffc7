package sidecar

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/scraping"
	"github.com/meshgate/meshgate/xds/selection"
)

// The listener at which a proxy is scraped is an inbound whose workload is the agent of the proxy.
// So certificates, permissions and all other policies are those of inbounds. It serves operators
// and no callers, so it gives way to whatever else listens at its address.

// scrapeTimeout is a little more than an agent takes for a page.
const scrapeTimeout = 15 * time.Second

// scrape adds the inbound of the metrics to a shape.
func (s *shape) scrape(m *view.Mesh, d *view.Dataplane) {
	how, err := selection.Scraped(m, d.Spec)
	if err != nil {
		s.Unscraped = err.Error()
	}
	if how == nil {
		return
	}
	s.Inbounds = append(s.Inbounds, inboundShape{
		Port: how.Port, WorkloadPort: how.Port, Tags: how.Tags, Cluster: scraping.Cluster, Table: scraping.Listener, Scraping: how,
	})
}

// securityOf says how connections to an inbound are protected. Metrics have no clients that are not
// in the mesh yet: where the mesh accepts others, the metrics do not.
func (p *Planner) securityOf(s *inboundShape) security {
	switch {
	case s.Scraping == nil:
		return p.facts.security
	case s.Scraping.Plain || p.facts.security == plain:
		return plain
	}
	return strict
}

// tell adds what tells the agent which page it shows, and what it cannot show.
func (in *inbound) tell() {
	how := in.shape.Scraping
	if how == nil {
		return
	}
	told := scraping.Settings{Filter: how.Filter, UsedOnly: how.UsedOnly}
	for _, a := range how.Applications {
		at, err := addressOf(cmp.Or(a.Address, loopback), a.Port)
		if err != nil { // the mesh has been validated
			in.part.failures = append(in.part.failures, plan.Failure{Cell: scraping.Listener, Err: fmt.Errorf("the metrics of the application %q are left out: %w", a.Name, err)})
			continue
		}
		told.Applications = append(told.Applications, scraping.Application{Name: a.Name, At: at, Path: a.Path})
	}
	for _, name := range how.Incomplete {
		in.part.failures = append(in.part.failures, plan.Failure{
			Cell: scraping.Listener, Err: fmt.Errorf("the metrics of the application %q are left out: neither the mesh nor the dataplane says its port", name),
		})
	}
	c, err := told.Describe()
	var r *resource.Resource
	if err == nil {
		r, err = plan.Freeze(resource.Cluster, c.GetName(), c)
	}
	in.part.keep(&in.part.clusters, nil, scraping.Told, r, err)
}

// scrapedAt leads one path to the agent. Envoy answers any other with 404.
func scrapedAt(path string, r *routev3.Route) {
	r.Match = &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: path}}
	r.GetRoute().Timeout = durationpb.New(scrapeTimeout)
}

// fromItself accepts connections from the address at which a proxy listens: those of its own
// machine, which has no certificate of the mesh. A proxy that listens on all addresses accepts
// loopback.
func fromItself(address string, own *listenerv3.FilterChain) (*listenerv3.FilterChain, error) {
	at, err := netip.ParseAddr(address)
	if err != nil {
		return nil, fmt.Errorf("where the proxy listens: %w", err)
	}
	prefixes := []netip.Prefix{netip.PrefixFrom(at, at.BitLen())}
	if at.IsUnspecified() {
		prefixes = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	own = proto.CloneOf(own)
	own.FilterChainMatch = &listenerv3.FilterChainMatch{}
	for _, p := range prefixes {
		own.FilterChainMatch.SourcePrefixRanges = append(own.FilterChainMatch.SourcePrefixRanges, &corev3.CidrRange{
			AddressPrefix: p.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits())), //nolint:gosec // at most 128
		})
	}
	return own, nil
}

// givesWay returns what listens where the metrics of a proxy would, or nil.
func (p *Planner) givesWay(x *proxy, at netip.AddrPort) error {
	c := x.class
	s, here := &c.shape, sockets{at: true}
	switch {
	case s.Transparent && (uint32(at.Port()) == s.RedirectOutbound || uint32(at.Port()) == s.RedirectInbound):
		return fmt.Errorf("connections are redirected to port %d", at.Port())
	case x.admin == at.Port() && here.has(netip.AddrPortFrom(netip.MustParseAddr(loopback), at.Port())):
		return fmt.Errorf("%s is for the administration of the proxy", at)
	case c.reach.taken(at):
		return fmt.Errorf("an outbound listens on %s", at)
	case x.works(here):
		return fmt.Errorf("%s is the workload's own port", at)
	}
	for _, l := range c.reach.front.listeners {
		if taken, err := listensThere(l); err != nil || here.has(taken) {
			return fmt.Errorf("the gateway listens on %s", at)
		}
	}
	for name, taken := range c.sockets {
		if here.has(taken) {
			return fmt.Errorf("a policy makes %s listen on %s", name, at)
		}
	}
	return p.added(c, here)
}

// added returns which policy of the raw stage has something listen at an address, or nil.
func (p *Planner) added(c *class, here sockets) error {
	if c.proxy == nil || !p.has.patch {
		return nil
	}
	for i, pol := range p.policies {
		s := c.proxy.At(i)
		if pol.Add == nil || s == nil {
			continue
		}
		more, err := of(p.cells.contributions, p.round, contributionKey{p.facts.mesh, pol, s, true}, callForContribution)
		if err != nil {
			continue // then nothing is added
		}
		for name, at := range more.sockets {
			if here.has(at) {
				return fmt.Errorf("%s %s makes %s listen there", pol.Kind.Document.Type, s.Policies[0].Name, name)
			}
		}
	}
	return nil
}

// works reports whether a workload of the proxy, or an application whose metrics are shown, is at
// an address.
func (x *proxy) works(here sockets) bool {
	is := func(address string, port uint32) bool {
		at, err := addressOf(address, port)
		return err == nil && here.has(at)
	}
	return slices.ContainsFunc(x.class.shape.Inbounds, func(in inboundShape) bool {
		if in.Scraping == nil {
			return is(cmp.Or(in.WorkloadAddress, x.address), in.WorkloadPort)
		}
		return slices.ContainsFunc(in.Scraping.Applications, func(a mesh.Application) bool { return is(cmp.Or(a.Address, loopback), a.Port) })
	})
}

func listensThere(r *resource.Resource) (netip.AddrPort, error) {
	l := new(listenerv3.Listener)
	if err := proto.Unmarshal(r.Body, l); err != nil {
		return netip.AddrPort{}, err
	}
	return listensOn(l.GetAddress())
}

// unscraped says why a proxy is not scraped, as the overview shows it.
func unscraped(why error) plan.Failure {
	return plan.Failure{Cell: scraping.Listener, Err: fmt.Errorf("metrics cannot be scraped: %w", why)}
}

// problemsOfMetrics lists what is wrong with what the mesh and the dataplanes of a class say.
func (c *class) problemsOfMetrics() []plan.Failure {
	if c.shape.Unscraped == "" {
		return nil
	}
	return []plan.Failure{unscraped(errors.New(c.shape.Unscraped))}
}

// aboutMetrics reports whether a resource is about being scraped. No template may touch it.
func aboutMetrics(r *resource.Resource) bool {
	return r.Name == scraping.Listener || r.Name == scraping.Told
}
