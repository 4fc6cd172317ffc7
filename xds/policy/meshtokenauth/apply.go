package meshtokenauth

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/target"
)

// Policy puts the token filter into the chains of an inbound and its
// configuration into the routes.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.AllByInbound | policy.AllByListener, Always: true, Order: target.Order,
	HTTPOnly: true, NeedsFilter: true, Refuses: policy.RefusesAnybody,
	Edits: policy.Edits{
		Inbound: inbound, InboundRoutes: inboundRoutes, Demand: divide, Prepare: prepare, ListenerRoutes: listenerRoutes,
	},
	Facts:   facts,
	Explain: explain, Rules: rules,
}

// demand is what is demanded of some callers.
type demand = target.Entry[Default]

// demandsOf returns the demands of chosen policies, the strongest first. Only the first that is
// about a caller counts.
func demandsOf(chosen []*view.Policy) []demand {
	return target.Deciding(target.Entries(chosen, items))
}

// found is the plugin instance that a demand names, as it is now.
type found struct {
	instance chain.Attached
	// service is the id of the service that tokens must be for, servicePlane the member of a
	// group that has it.
	service, servicePlane string
	// problem says why nothing can be checked, so that requests are refused. whom are the
	// callers, if they are not everybody, and unproved says that nobody proves to be one.
	problem, whom string
	unproved      bool
	// awaited is the control plane if it is not read, and reading that it is being.
	awaited string
	reading bool
}

// known is what was found for the strongest demand, and for the rest, which is known or nil.
type known struct {
	found
	rest any
}

// all lists what was found, for one demand after another.
func (k known) all() (out []found) {
	for ok := true; ok; k, ok = k.rest.(known) {
		out = append(out, k.found)
	}
	return out
}

// Problem implements policy.Problematic.
func (k known) Problem() string {
	for _, f := range k.all() {
		switch {
		case f.problem != "" && f.whom != "":
			return fmt.Sprintf("%s: every request of %s is refused", f.problem, f.whom)
		case f.problem != "":
			return f.problem + ": every request is refused"
		case f.unproved:
			return "callers are known by their certificates, and the mesh has no mutual TLS: nobody is taken for " + f.whom
		}
	}
	return ""
}

// Awaited implements policy.Awaiting.
func (k known) Awaited() (what string, reading bool) {
	for _, f := range k.all() {
		switch {
		case f.awaited == "":
		case f.reading:
			return fmt.Sprintf("control plane %s, whose tokens are demanded, is being read", f.awaited), true
		default:
			return fmt.Sprintf("control plane %s, whose tokens are demanded, cannot be read", f.awaited), false
		}
	}
	return "", false
}

// facts looks the plugin instances up. One that is missing is a fact too: it
// refuses every request.
func facts(w policy.World, chosen []*view.Policy) any {
	var out any
	for _, d := range slices.Backward(demandsOf(chosen)) {
		f := find(w, d)
		if len(d.Selector) > 0 {
			f.whom, f.unproved = d.Selector.String(), w.Mesh == nil || w.Mesh.Authority() == nil
		}
		out = known{f, out}
	}
	return out
}

// find looks the plugin instance of a demand up.
func find(w policy.World, d demand) (f found) {
	if d.Conf == nil {
		return found{problem: "what is demanded cannot be read"}
	}
	p := d.Conf.Plugin
	if p == nil {
		return found{problem: unreadable(d.Origin, d.Conf.Config)}
	}
	name := cmp.Or(p.ControlPlane, model.DefaultControlPlane)
	var g *view.Gateway
	if w.Outside != nil {
		var err error
		if g, err = w.Outside.Gateway(name); err != nil {
			return found{
				awaited: name, reading: errors.Is(err, policy.ErrReading), problem: fmt.Sprintf("control plane %s cannot be read", name),
			}
		}
	}
	if g == nil {
		return found{problem: fmt.Sprintf("control plane %s does not exist", name)}
	}
	instance, ok := g.Plugin(p.ID)
	switch {
	case !ok:
		return found{problem: fmt.Sprintf("plugin %s does not exist", p.ID)}
	case !instance.Spec.Enabled:
		return found{problem: fmt.Sprintf("plugin %s is disabled", p.ID)}
	case instance.Spec.Name != gateway.PluginOAuth2:
		return found{problem: fmt.Sprintf("plugin %s is %s and not oauth2", p.ID, instance.Spec.Name)}
	}
	f = found{instance: chain.Attach(g, instance), service: instance.Spec.Service}
	if route, ok := g.Of(instance.Scope).Route(instance.Spec.Route); ok {
		f.service = route.Spec.Service
	}
	if f.service != "" {
		f.servicePlane = g.Named(instance.Scope)
	}
	f.problem = f.unusable(p.ID)
	return f
}

// unreadable is the problem of a policy that names no plugin instance and says what
// the filter does not take, empty if there is none. Such a policy may have been
// stored before it was refused.
func unreadable(name string, c *Config) string {
	if c == nil {
		return "nothing is demanded"
	}
	encoded, err := inline(name, c)
	if err == nil {
		_, err = contract.ParseChain(encoded)
	}
	if err != nil {
		return fmt.Sprintf("config cannot be told to the filter (%v)", err)
	}
	return ""
}

// unusable says why a plugin instance cannot be enforced, empty if it can. It is
// asked here and not when the routes are made, because routes that cannot be made
// stay as they were: without a check.
func (f found) unusable(id string) string {
	encoded, err := f.encode("")
	if err != nil {
		return fmt.Sprintf("plugin %s cannot be told to the filter", id)
	}
	if c, err := contract.ParseChain(encoded); err != nil || (f.service == "" && !c.Plugins[0].OAuth2.Global) {
		return fmt.Sprintf("plugin %s belongs to no service and accepts no global credentials", id)
	}
	return ""
}

// encode is the chain of one plugin instance.
func (f found) encode(name string) ([]byte, error) {
	return chain.Encode(contract.Chain{Route: name, Service: f.service, ServicePlane: f.servicePlane}, [chain.MaxPlugins]chain.Attached{f.instance})
}

// inbound installs the filter, switched off, in every HTTP inbound: a filter that
// came with the policy would be missing on the connections that are open then,
// while what comes with the routes is in force on them at once. A bare proxy would
// refuse the listener for it; there the routes refuse everything. Connections that
// cannot be looked into carry no token, so none may pass where one is demanded.
func inbound(d *draft.Inbound, s *policy.Selection) error {
	if d.HTTP == nil {
		return nil
	}
	d.NoOpaque = s != nil
	return install(&d.Filters, d.Bare)
}

// prepare does what inbound does, for the listeners of a gateway.
func prepare(d *draft.Outbound) error { return install(&d.Filters, d.Bare) }

func install(into *draft.Slots, bare bool) error {
	if bare {
		return nil
	}
	f, err := chain.Filter(contract.ForwardingNone)
	if err != nil {
		return err
	}
	f.Disabled = true
	return into.Put(draft.SlotToken, f)
}

// maxDemands bounds how many groups of callers an inbound tells apart: each has routes of its
// own. An inbound with more is closed.
const maxDemands = 256

// inboundRoutes demands the same token of everybody, where that is all that is demanded.
func inboundRoutes(r *draft.Routes, s *policy.Selection) error {
	if s == nil {
		return nil
	}
	demands := demandsOf(s.Policies)
	if len(demands) != 1 || len(demands[0].Selector) > 0 {
		return nil // see divide
	}
	return ask(r, demands[0], factsOf(s)[0])
}

// listenerRoutes demands a token of every client of a gateway, which is nobody that an item could
// tell from others.
func listenerRoutes(r *draft.Routes, s *policy.Selection) error {
	demands := demandsOf(s.Policies)
	for i, f := range factsOf(s) {
		if len(demands[i].Selector) == 0 {
			return ask(r, demands[i], f)
		}
	}
	return only(r, forbid)
}

// ask demands a token for everything in a table, or refuses everything.
func ask(r *draft.Routes, d demand, f found) error {
	config, err := perRoute(r, d, f)
	switch {
	case err != nil:
		return err
	case config == nil:
		return only(r, refuse)
	}
	return r.Configure(contract.FilterName, config)
}

// only leaves one route, with an answer.
func only(r *draft.Routes, answer func(*routev3.Route) error) error {
	r.Host.Routes = []*routev3.Route{{Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}}}
	return answer(r.Host.Routes[0])
}

// divide demands tokens by who calls. Who is in no demand is refused: one that is forgotten
// must not be let in.
func divide(r *draft.Routes, s *policy.Selection) error {
	demands := demandsOf(s.Policies)
	if len(demands) == 1 && len(demands[0].Selector) == 0 {
		return nil // see inboundRoutes
	}
	if len(demands) > maxDemands {
		return fmt.Errorf("tokens are demanded of %d groups of callers, and %d can be told apart", len(demands), maxDemands)
	}
	var of []draft.Division
	for i, f := range factsOf(s) {
		config, err := perRoute(r, demands[i], f)
		if err != nil {
			return err
		}
		d := draft.Division{Source: demands[i].Selector, Edit: refuse}
		if config != nil {
			packed, err := draft.Pack(config)
			if err != nil {
				return err
			}
			d.Edit = func(route *routev3.Route) error {
				if route.TypedPerFilterConfig == nil {
					route.TypedPerFilterConfig = map[string]*anypb.Any{}
				}
				route.TypedPerFilterConfig[contract.FilterName] = packed
				return nil
			}
		}
		of = append(of, d)
	}
	return r.Divide(of, forbid)
}

// factsOf returns what was found for each demand of a selection.
func factsOf(s *policy.Selection) []found {
	if k, ok := s.Facts.(known); ok {
		return k.all()
	}
	return nil // nothing is demanded of anybody
}

// perRoute is the configuration of the filter for a demand, nil if it cannot be enforced.
func perRoute(r *draft.Routes, d demand, f found) (proto.Message, error) {
	if f.problem != "" || r.Bare {
		return nil, nil //nolint:nilnil // no configuration is a meaning: refuse
	}
	encode := func() ([]byte, error) { return f.encode(d.Origin) }
	if d.Conf.Plugin == nil {
		encode = func() ([]byte, error) { return inline(d.Origin, d.Conf.Config) }
	}
	encoded, err := encode()
	if err != nil {
		return nil, err
	}
	carried, err := contract.ParseChain(encoded)
	if err != nil {
		return nil, err
	}
	for _, p := range carried.Plugins {
		if !slices.Contains(r.Plugins, p.ID) {
			r.Plugins = append(r.Plugins, p.ID)
		}
	}
	return chain.PerRoute(encoded)
}

// inline is the chain of a policy that names no plugin instance.
func inline(name string, c *Config) ([]byte, error) {
	single := contract.Chain{Route: name, Plugins: []contract.Plugin{{ID: InlineID(name), OAuth2: &contract.OAuth2{
		Header: strings.ToLower(cmp.Or(c.AuthHeaderName, "authorization")), Realm: c.Realm, Global: true, HideCredentials: c.HideCredentials, InBody: true,
	}}}}
	return single.Marshal()
}

// InlineID stands for the plugin instance of a policy that names none.
func InlineID(name string) string { return "meshtokenauth/" + name }

// refuse answers every request: a check that cannot be made must not be skipped.
func refuse(r *routev3.Route) error {
	return answer(r, 503, `{"message":"the token check of this service is misconfigured"}`)
}

// forbid answers the requests of callers of whom no token is demanded.
func forbid(r *routev3.Route) error {
	return answer(r, 403, `{"message":"no tokens of this caller are accepted"}`)
}

func answer(r *routev3.Route, status uint32, body string) error {
	r.Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
		Status: status, Body: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: body}},
	}}
	return nil
}
