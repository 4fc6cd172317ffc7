package gateway

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

// maxPlugins bounds the plugins of a chain, so that chains can be keys.
const maxPlugins = 8

// attached is one effective plugin instance of a route, with the consumer that
// its config.anonymous names.
type attached struct {
	plugin    *view.Plugin
	anonymous *view.Consumer
}

// effective finds the plugin instances that run on a route, in their order.
func effective(g *view.Gateway, route, service string) (out [maxPlugins]attached) {
	n := 0
	for _, name := range gateway.PluginOrder {
		p, ok := gateway.Effective(name, route, service, g.Attached)
		if !ok {
			continue
		}
		out[n] = attached{plugin: p}
		if p.Anonymous != "" {
			out[n].anonymous = g.Anonymous(p.Anonymous)
		}
		n++
	}
	return out
}

// chainOf encodes what the filter runs on a route; nil if nothing does. An
// error means that the route must refuse every request: a plugin that cannot be
// told to the filter must not be skipped.
func chainOf(route, service string, plugins [maxPlugins]attached) ([]byte, error) {
	chain := contract.Chain{Route: route, Service: service}
	for _, a := range plugins {
		if a.plugin == nil {
			break
		}
		p, err := pluginOf(a)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", a.plugin.ID, err)
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

func pluginOf(a attached) (contract.Plugin, error) {
	out := contract.Plugin{ID: a.plugin.ID}
	if a.plugin.Spec.Name != gateway.PluginOAuth2 {
		return out, fmt.Errorf("the filter does not know %q", a.plugin.Spec.Name)
	}
	var c gateway.OAuth2Config
	d := json.NewDecoder(bytes.NewReader(a.plugin.Spec.Config))
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
		out.OAuth2.Anonymous = &contract.Anonymous{Configured: c.Anonymous, Consumer: consumerOf(a.anonymous)}
	}
	return out, nil
}

func consumerOf(c *view.Consumer) *contract.Consumer {
	if c == nil {
		return nil
	}
	return &contract.Consumer{ID: c.ID, Username: c.Spec.Username, CustomID: c.Spec.CustomID}
}
