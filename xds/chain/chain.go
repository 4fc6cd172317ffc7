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
// its config.anonymous names. The zero value ends a list.
type Attached struct {
	Plugin    *view.Plugin
	Anonymous *view.Consumer
}

// Attach completes a plugin instance.
func Attach(g *view.Gateway, p *view.Plugin) Attached {
	a := Attached{Plugin: p}
	if p.Anonymous != "" {
		a.Anonymous = g.Anonymous(p.Anonymous)
	}
	return a
}

// Effective finds the plugin instances that run on a route, in their order.
func Effective(g *view.Gateway, route, service string) (out [MaxPlugins]Attached) {
	n := 0
	for _, name := range gateway.PluginOrder {
		p, ok := gateway.Effective(name, route, service, g.Attached)
		if !ok {
			continue
		}
		out[n] = Attach(g, p)
		n++
	}
	return out
}

// Encode encodes what the filter runs on a route; nil if nothing does. An
// error means that the route must refuse every request: a plugin that cannot be
// told to the filter must not be skipped.
func Encode(route, service string, plugins [MaxPlugins]Attached) ([]byte, error) {
	chain := contract.Chain{Route: route, Service: service}
	for _, a := range plugins {
		if a.Plugin == nil {
			break
		}
		p, err := pluginOf(a)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", a.Plugin.ID, err)
		}
		chain.Plugins = append(chain.Plugins, p)
	}
	if len(chain.Plugins) == 0 {
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

func pluginOf(a Attached) (contract.Plugin, error) {
	out := contract.Plugin{ID: a.Plugin.ID}
	if a.Plugin.Spec.Name != gateway.PluginOAuth2 {
		return out, fmt.Errorf("the filter does not know %q", a.Plugin.Spec.Name)
	}
	var c gateway.OAuth2Config
	d := json.NewDecoder(bytes.NewReader(a.Plugin.Spec.Config))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return out, fmt.Errorf("decode configuration: %w", err)
	}
	if c.AuthHeaderName == "" {
		return out, errors.New("auth_header_name is missing")
	}
	out.OAuth2 = &contract.OAuth2{
		Header: strings.ToLower(c.AuthHeaderName), Realm: c.Realm,
		Global: c.GlobalCredentials, HideCredentials: c.HideCredentials,
	}
	if c.Anonymous != "" {
		out.OAuth2.Anonymous = &contract.Anonymous{Configured: c.Anonymous, Consumer: consumerOf(a.Anonymous)}
	}
	return out, nil
}

func consumerOf(c *view.Consumer) *contract.Consumer {
	if c == nil {
		return nil
	}
	return &contract.Consumer{ID: c.ID, Username: c.Spec.Username, CustomID: c.Spec.CustomID}
}
