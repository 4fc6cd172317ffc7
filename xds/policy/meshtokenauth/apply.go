package meshtokenauth

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// Policy puts the token filter into the chains of an inbound and its
// configuration into the routes.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.ByInbound, HTTPOnly: true, NeedsFilter: true, Rule: true,
	Refuses: policy.RefusesAnybody,
	Edits:   policy.Edits{Inbound: inbound, InboundRoutes: inboundRoutes},
	Facts:   facts,
	Explain: explain,
}

// found is the plugin instance that a policy names, as it is now.
type found struct {
	instance chain.Attached
	// service is the id of the service that tokens must be for, servicePlane the member of a
	// group that has it.
	service, servicePlane string
	problem               string
	// awaited is the control plane if it is not read, and reading that it is being.
	awaited string
	reading bool
}

// Problem implements policy.Problematic.
func (f found) Problem() string { return f.problem }

// Awaited implements policy.Awaiting.
func (f found) Awaited() (what string, reading bool) {
	switch {
	case f.awaited == "":
		return "", false
	case f.reading:
		return fmt.Sprintf("control plane %s, whose tokens are demanded, is being read", f.awaited), true
	}
	return fmt.Sprintf("control plane %s, whose tokens are demanded, cannot be read", f.awaited), false
}

// facts looks the plugin instance up. One that is missing is a fact too: it
// refuses every request.
func facts(w policy.World, chosen []*view.Policy) any {
	r, _ := chosen[0].Spec.(*Resource)
	demanded := r.demanded()
	p := demanded.Plugin
	if p == nil {
		return unreadable(chosen[0].Name, demanded.Config)
	}
	name := cmp.Or(p.ControlPlane, model.DefaultControlPlane)
	var g *view.Gateway
	if w.Outside != nil {
		var err error
		if g, err = w.Outside.Gateway(name); err != nil {
			return found{
				awaited: name, reading: errors.Is(err, policy.ErrReading),
				problem: fmt.Sprintf("control plane %s cannot be read: every request is refused", name),
			}
		}
	}
	if g == nil {
		return found{problem: fmt.Sprintf("control plane %s does not exist: every request is refused", name)}
	}
	instance, ok := g.Plugin(p.ID)
	switch {
	case !ok:
		return found{problem: fmt.Sprintf("plugin %s does not exist: every request is refused", p.ID)}
	case !instance.Spec.Enabled:
		return found{problem: fmt.Sprintf("plugin %s is disabled: every request is refused", p.ID)}
	case instance.Spec.Name != gateway.PluginOAuth2:
		return found{problem: fmt.Sprintf("plugin %s is %s and not oauth2: every request is refused", p.ID, instance.Spec.Name)}
	}
	f := found{instance: chain.Attach(g, instance), service: instance.Spec.Service}
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
// the filter does not take, nil if there is none. Such a policy may have been
// stored before it was refused.
func unreadable(name string, c *Config) any {
	encoded, err := inline(name, c)
	if err == nil {
		_, err = contract.ParseChain(encoded)
	}
	if err != nil {
		return found{problem: fmt.Sprintf("config cannot be told to the filter: every request is refused: %v", err)}
	}
	return nil
}

// unusable says why a plugin instance cannot be enforced, empty if it can. It is
// asked here and not when the routes are made, because routes that cannot be made
// stay as they were: without a check.
func (f found) unusable(id string) string {
	encoded, err := f.encode("")
	if err != nil {
		return fmt.Sprintf("plugin %s cannot be told to the filter: every request is refused", id)
	}
	if c, err := contract.ParseChain(encoded); err != nil || (f.service == "" && !c.Plugins[0].OAuth2.Global) {
		return fmt.Sprintf("plugin %s belongs to no service and accepts no global credentials: every request is refused", id)
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
	if d.Bare {
		return nil
	}
	f, err := chain.Filter(contract.ForwardingNone)
	if err != nil {
		return err
	}
	f.Disabled = true
	return d.Filters.Put(draft.SlotToken, f)
}

func inboundRoutes(r *draft.Routes, s *policy.Selection) error {
	if s == nil {
		return nil
	}
	encoded, err := encode(s)
	if err != nil {
		return err
	}
	if encoded == nil || r.Bare {
		refuse(r)
		return nil
	}
	config, err := chain.PerRoute(encoded)
	if err != nil {
		return err
	}
	carried, err := contract.ParseChain(encoded)
	if err != nil {
		return err
	}
	for _, p := range carried.Plugins {
		r.Plugins = append(r.Plugins, p.ID)
	}
	return r.Configure(contract.FilterName, config)
}

// encode is the chain of a selection, nil if it cannot be enforced.
func encode(s *policy.Selection) ([]byte, error) {
	name := s.Policies[0].Name
	if f, ok := s.Facts.(found); ok {
		if f.problem != "" {
			return nil, nil
		}
		return f.encode(name)
	}
	return inline(name, policy.First[Resource](s).demanded().Config)
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
func refuse(r *draft.Routes) {
	body := `{"message":"the token check of this service is misconfigured"}`
	r.Host.Routes = []*routev3.Route{{
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: 503, Body: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: body}},
		}},
	}}
}
