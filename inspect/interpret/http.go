package interpret

import (
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/resource"
)

// headerPeer is the header in which Envoy tells who the peer is.
const headerPeer = "x-forwarded-client-cert"

// choice is the route of a request with what is around it.
type choice struct {
	table *routev3.RouteConfiguration
	host  *routev3.VirtualHost
	// route is nil if no route is for the request.
	route *routev3.Route
	// at is the place of the route in its virtual host.
	at int
}

// http says what a connection manager does with a request.
func (p *Proxy) http(out *Passage, m *hcmv3.HttpConnectionManager, peer []string, r *Request) error {
	normalised := m.GetNormalizePath().GetValue() || m.GetMergeSlashes()
	if err := p.receive(m, peer, r); err != nil {
		return err
	}
	c, err := p.choose(out, m, r, normalised)
	if err != nil {
		return err
	}
	out.Request = r
	if c.route != nil {
		out.Route = c.route.GetName()
		out.say(Step{Kind: StepRoute, Name: c.table.GetName(), Text: describeRoute(c)})
	}
	for i, f := range m.GetHttpFilters() {
		if err := understood(f); err != nil {
			return err
		}
		if f.GetName() == "envoy.filters.http.router" {
			if i != len(m.GetHttpFilters())-1 {
				return unsaid("HTTP filters behind the router")
			}
			return p.route(out, c, r, m)
		}
		if err := p.filter(out, f, c, peer, r); err != nil || out.Reply != nil {
			return err
		}
	}
	return unsaid("the HTTP filters have no router")
}

// receive does what a connection manager does to the headers before it routes.
func (p *Proxy) receive(m *hcmv3.HttpConnectionManager, peer []string, r *Request) error {
	for _, e := range m.GetEarlyHeaderMutationExtensions() {
		early := new(earlyv3.HeaderMutation)
		if err := e.GetTypedConfig().UnmarshalTo(early); err != nil {
			return unsaid("the early change of headers %s", e.GetName())
		}
		for _, mutation := range early.GetMutations() {
			key := mutation.GetRemoveOnMatch().GetKeyMatcher()
			if key == nil {
				return unsaid("an early change of headers that removes nothing")
			}
			var failed error
			r.Headers = slices.DeleteFunc(r.Headers, func(h Header) bool {
				ok, err := text(key, h.Name)
				if err != nil {
					failed = err
				}
				return ok
			})
			if failed != nil {
				return failed
			}
		}
	}
	if m.GetUseRemoteAddress().GetValue() {
		r.set("x-forwarded-proto", r.Scheme)
		for _, name := range []string{"x-envoy-external-address", "x-forwarded-for"} {
			r.remove(name)
			r.Headers = append(r.Headers, Header{Name: name, filled: true})
		}
	}
	switch m.GetForwardClientCertDetails() {
	case hcmv3.HttpConnectionManager_SANITIZE:
		r.remove(headerPeer)
	case hcmv3.HttpConnectionManager_SANITIZE_SET:
		r.remove(headerPeer)
		if len(peer) > 0 {
			r.set(headerPeer, p.tells(peer))
		}
	default:
		return unsaid("what becomes of %s", headerPeer)
	}
	return nil
}

// tells returns the header about a peer as Envoy writes it, but for the hash of the certificate.
func (p *Proxy) tells(peer []string) string {
	var parts []string
	for _, own := range p.Certificate {
		parts = append(parts, "By="+own)
	}
	parts = append(parts, "Hash=0")
	for _, name := range peer {
		parts = append(parts, "URI="+name)
	}
	return strings.Join(parts, ";")
}

// choose returns the route of a request.
func (p *Proxy) choose(out *Passage, m *hcmv3.HttpConnectionManager, r *Request, normalised bool) (c choice, err error) {
	name := m.GetRds().GetRouteConfigName()
	res := p.Set.Get(resource.Route, name)
	if res == nil {
		return c, unsaid("the proxy does not have the route table %q", name)
	}
	c.table = new(routev3.RouteConfiguration)
	if err := proto.Unmarshal(res.Body, c.table); err != nil {
		return c, unsaid("the route table %s cannot be read", name)
	}
	if err := understood(c.table); err != nil {
		return c, err
	}
	host := r.Host
	if m.GetStripAnyHostPort() || c.table.GetIgnorePortInHostMatching() {
		if bare, _, ok := strings.Cut(host, ":"); ok && !strings.Contains(host, "]") {
			host = bare
		}
	}
	if c.host = hosted(c.table.GetVirtualHosts(), host); c.host == nil {
		return c, nil
	}
	if err := understood(c.host); err != nil {
		return c, err
	}
	if c.host.GetMatcher() != nil {
		return c, out.look(&c, r, normalised)
	}
	for i, route := range c.host.GetRoutes() {
		if err := understood(route); err != nil {
			return c, err
		}
		ok, err := taken(route.GetMatch(), r, normalised)
		if err != nil {
			return c, err
		}
		if ok {
			c.route, c.at = route, i
			return c, nil
		}
	}
	return c, nil
}

// describeRoute says which route was taken.
func describeRoute(c choice) string {
	if c.host.GetMatcher() != nil {
		return "the route " + c.route.GetName() + " comes first of those that are for the request"
	}
	what := "route " + strconv.Itoa(c.at+1) + " of " + strconv.Itoa(len(c.host.GetRoutes())) + " in the table " + c.table.GetName() + " is for "
	m := c.route.GetMatch()
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		what += "paths that begin with " + p.Prefix
	case *routev3.RouteMatch_PathSeparatedPrefix:
		what += "paths below " + p.PathSeparatedPrefix
	case *routev3.RouteMatch_Path:
		what += "the path " + p.Path
	case *routev3.RouteMatch_SafeRegex:
		what += "paths like " + p.SafeRegex.GetRegex()
	}
	for _, h := range m.GetHeaders() {
		switch name := h.GetName(); name {
		case headerPeer:
			what += ", of some callers only"
		case ":method":
			what += ", with a condition on the method"
		default:
			what += ", with a condition on " + name
		}
	}
	return what
}

// route does what the router does with a request that all filters let pass.
func (p *Proxy) route(out *Passage, c choice, r *Request, m *hcmv3.HttpConnectionManager) error {
	if c.route == nil {
		out.refuse(StepRoute, m.GetRds().GetRouteConfigName(), 404, "no route is for this request")
		return nil
	}
	switch a := c.route.GetAction().(type) {
	case *routev3.Route_DirectResponse:
		if err := understood(a.DirectResponse); err != nil {
			return err
		}
		out.refuse(StepRoute, c.table.GetName(), a.DirectResponse.GetStatus(), "the route answers by itself")
		return nil
	case *routev3.Route_Redirect:
		out.refuse(StepRoute, c.table.GetName(), redirectStatus(a.Redirect), "the route redirects the client")
		return nil
	case *routev3.Route_Route:
		if err := understood(a.Route); err != nil {
			return err
		}
		if err := rewrite(c, a.Route, r); err != nil {
			return err
		}
		retry, err := retryOf(a.Route, c.host)
		if err != nil {
			return err
		}
		out.Retry = retry
		return p.lead(out, a.Route)
	}
	return unsaid("what the route does")
}

func redirectStatus(a *routev3.RedirectAction) uint32 {
	switch a.GetResponseCode() {
	case routev3.RedirectAction_FOUND:
		return 302
	case routev3.RedirectAction_SEE_OTHER:
		return 303
	case routev3.RedirectAction_TEMPORARY_REDIRECT:
		return 307
	case routev3.RedirectAction_PERMANENT_REDIRECT:
		return 308
	}
	return 301
}

func retryOf(a *routev3.RouteAction, host *routev3.VirtualHost) (*Retry, error) {
	p := a.GetRetryPolicy()
	if p == nil {
		p = host.GetRetryPolicy()
	}
	if p == nil {
		return nil, nil //nolint:nilnil // no retry is an answer
	}
	limit := uint32(1)
	if n := p.GetNumRetries(); n != nil {
		limit = n.GetValue()
	}
	return &Retry{On: p.GetRetryOn(), Limit: limit, Status: p.GetRetriableStatusCodes()}, understood(p)
}
