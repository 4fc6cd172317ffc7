// Package chain makes what the filter runs: from the plugin instances of a view
// to the encoded chain, and the configuration that carries it to Envoy. Gateways
// and the inbounds of sidecars use the same, so that one set of consumers and
// tokens protects both.
package chain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
)

// MaxPlugins bounds the plugins of a chain, so that chains can be keys.
const MaxPlugins = 8

// Attached is one effective plugin instance of a route, with the consumer that
// its config.anonymous names. The zero value ends a list. Values compare: equal
// ones are encoded alike.
type Attached struct {
	// Plugin is nil where all instances are bound to consumers.
	Plugin    *view.Plugin
	Anonymous *view.Consumer
	// Bound are the instances of request-termination that are bound to
	// consumers, on the route's targets by specificity; nil where there are none.
	Bound [numTargets]*view.Bound
}

// Targets of a route, the most specific first.
const (
	atRouteAndService = iota
	atRoute
	atService
	atGlobal
	numTargets
)

// Attach completes a plugin instance.
func Attach(g *view.Gateway, p *view.Plugin) Attached {
	a := Attached{Plugin: p}
	if p.Anonymous != "" {
		a.Anonymous = g.Of(p.Scope).Anonymous(p.Anonymous)
	}
	return a
}

// Effective finds the plugin instances that run on a route of a control plane, in their
// order. They are of that one too: in a group nobody's plugins run on the routes of others.
func Effective(g *view.Gateway, scope, route, service string) (out [MaxPlugins]Attached) {
	n := 0
	for _, name := range gateway.PluginOrder {
		var a Attached
		if p, ok := gateway.Effective(name, route, service, g.Of(scope).Attached); ok {
			a = Attach(g, p)
		}
		if name == gateway.PluginRequestTermination {
			a.Bound = boundAt(g.Of(scope), name, route, service)
		}
		if a != (Attached{}) {
			out[n] = a
			n++
		}
	}
	return out
}

func boundAt(m view.Member, name, route, service string) (out [numTargets]*view.Bound) {
	if service != "" {
		out[atRouteAndService] = m.Bound(gateway.Attachment{Name: name, Route: route, Service: service})
		out[atService] = m.Bound(gateway.Attachment{Name: name, Service: service})
	}
	out[atRoute] = m.Bound(gateway.Attachment{Name: name, Route: route})
	out[atGlobal] = m.Bound(gateway.Attachment{Name: name})
	return out
}

// Encode encodes what the filter runs on a route: base, which names route,
// service and protocol and says whether the route issues, completed by the plugins. It is nil if nothing runs. An
// error means that the route must refuse every request: a plugin that cannot be
// told to the filter must not be skipped.
func Encode(base contract.Chain, plugins [MaxPlugins]Attached) ([]byte, error) {
	chain := base
	chain.Plugins, chain.Issues = nil, false
	for _, a := range plugins {
		if a == (Attached{}) {
			break
		}
		p, runs, err := pluginOf(a)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", p.ID, err)
		}
		if runs {
			chain.Plugins = append(chain.Plugins, p)
			chain.Issues = chain.Issues || base.Issues && p.OAuth2 != nil
		}
	}
	if len(chain.Plugins) == 0 && chain.Protocol == "" {
		return nil, nil
	}
	body, err := chain.Marshal()
	if err != nil {
		return nil, err
	}
	// The filter's own check, before the filter sees it.
	if _, err := contract.ParseChain(body); err != nil {
		return nil, err
	}
	return body, nil
}

// pluginOf tells the filter of one plugin. runs is false if nobody is concerned.
func pluginOf(a Attached) (out contract.Plugin, runs bool, err error) {
	if a.Plugin == nil {
		return terminationOf(a)
	}
	if out.ID = a.Plugin.ID; a.Plugin.LeftOut {
		return out, true, errLeftOut
	}
	switch name := a.Plugin.Spec.Name; name {
	case gateway.PluginOAuth2:
		out.OAuth2, err = oauth2Of(a)
	case gateway.PluginKeyAuth:
		out.KeyAuth, err = keyAuthOf(a)
	case gateway.PluginRequestTermination:
		return terminationOf(a)
	default:
		err = fmt.Errorf("the filter does not know %q", name)
	}
	return out, true, err
}

// errLeftOut refuses the routes of a plugin that is left out of a group: without it they
// would be open.
var errLeftOut = errors.New("another member of the group has its id")

func oauth2Of(a Attached) (*contract.OAuth2, error) {
	var c gateway.OAuth2Config
	if err := decode(a.Plugin, &c); err != nil {
		return nil, err
	}
	if c.AuthHeaderName == "" {
		return nil, errors.New("auth_header_name is missing")
	}
	return &contract.OAuth2{
		Header: strings.ToLower(c.AuthHeaderName), Realm: c.Realm,
		Global: c.GlobalCredentials, HideCredentials: c.HideCredentials, Endpoints: c.HasEndpoints(),
		InBody: c.ReadsBody(), OneConsumer: c.Strict(),
		Anonymous: anonymousOf(c.Anonymous, a.Anonymous),
	}, nil
}

func keyAuthOf(a Attached) (*contract.KeyAuth, error) {
	var c gateway.KeyAuthConfig
	if err := decode(a.Plugin, &c); err != nil {
		return nil, err
	}
	out := &contract.KeyAuth{
		InHeader: c.KeyInHeader, InQuery: c.KeyInQuery, InBody: c.KeyInBody, HideCredentials: c.HideCredentials,
		SkipPreflight: !c.RunOnPreflight, Realm: c.Realm, Anonymous: anonymousOf(c.Anonymous, a.Anonymous),
	}
	for _, n := range c.KeyNames {
		out.Names = append(out.Names, strings.ToLower(n))
	}
	return out, nil
}

func anonymousOf(configured string, c *view.Consumer) *contract.Anonymous {
	if configured == "" {
		return nil
	}
	return &contract.Anonymous{Configured: configured, Consumer: consumerOf(c)}
}

func decode(p *view.Plugin, config any) error {
	d := json.NewDecoder(bytes.NewReader(p.Spec.Config))
	d.DisallowUnknownFields()
	if err := d.Decode(config); err != nil {
		return fmt.Errorf("decode configuration: %w", err)
	}
	return nil
}

// HasEndpoints reports whether the oauth2 plugin among these, if there is one,
// answers for introspection, revocation and metadata too.
func HasEndpoints(plugins [MaxPlugins]Attached) bool {
	for _, a := range plugins {
		var c gateway.OAuth2Config
		if a.Plugin != nil && a.Plugin.Spec.Name == gateway.PluginOAuth2 && decode(a.Plugin, &c) == nil {
			return c.HasEndpoints()
		}
	}
	return false
}

func consumerOf(c *view.Consumer) *contract.Consumer {
	if c == nil {
		return nil
	}
	return &contract.Consumer{ID: c.ID, Username: c.Spec.Username, CustomID: c.Spec.CustomID}
}
