package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxChain bounds an encoded chain in bytes; a longer one is refused.
const MaxChain = 64 << 10

// Chain is what one route carries to the filter: the ordered effective plugins
// and what they need to decide without asking anybody. It is self-contained, so
// a change of a plugin changes the routes that use it and nothing else.
type Chain struct {
	// Route is the id of the route, for logs and statistics.
	Route string `json:"route"`
	// Service is the id of the route's service; empty on a route without one.
	// A token bound to a service is accepted on that service only.
	Service string `json:"service,omitempty"`
	// Plugins run in order; the first that refuses ends the chain.
	Plugins []Plugin `json:"plugins"`
}

// Plugin is one effective plugin instance. Exactly one of the typed members is
// set; which one is the plugin's name.
type Plugin struct {
	// ID is the uuid of the plugin instance.
	ID string `json:"id"`
	// OAuth2 checks a bearer token.
	OAuth2 *OAuth2 `json:"oauth2,omitempty"`
}

// OAuth2 is the part of an oauth2 plugin's configuration that decides protected
// requests. What only the issuing endpoints need stays in the control plane.
type OAuth2 struct {
	// Header is the lower-case name of the header with the token.
	Header string `json:"header"`
	// Realm is added to challenges unless empty.
	Realm string `json:"realm,omitempty"`
	// Global accepts tokens that are not bound to a service, and is the only
	// mode that does.
	Global bool `json:"global,omitempty"`
	// HideCredentials removes the credential from the upstream request.
	HideCredentials bool `json:"hide_credentials,omitempty"`
	// Anonymous is set when failed authentication falls back to a consumer.
	Anonymous *Anonymous `json:"anonymous,omitempty"`
}

// Anonymous is the resolved config.anonymous of a plugin.
type Anonymous struct {
	// Configured is the value in the plugin's configuration: an id or username.
	Configured string `json:"configured"`
	// Consumer is nil when no consumer answers to Configured; such a plugin
	// answers 500 instead of falling back.
	Consumer *Consumer `json:"consumer,omitempty"`
}

// Consumer is what upstreams learn about a consumer.
type Consumer struct {
	ID       string `json:"id"`
	Username string `json:"username,omitempty"`
	CustomID string `json:"custom_id,omitempty"`
}

// Marshal encodes a chain; equal chains yield equal bytes.
func (c *Chain) Marshal() ([]byte, error) { return json.Marshal(c) }

// ParseChain decodes and checks a chain. Unknown fields, trailing data and a
// plugin without exactly one configuration are errors: the caller must then
// refuse every request of the route.
func ParseChain(data []byte) (*Chain, error) {
	if len(data) > MaxChain {
		return nil, fmt.Errorf("chain of %d bytes exceeds the limit of %d", len(data), MaxChain)
	}
	var c Chain
	if err := decodeStrict(data, &c); err != nil {
		return nil, fmt.Errorf("decode chain: %w", err)
	}
	if len(c.Plugins) == 0 {
		return nil, errors.New("chain has no plugins")
	}
	for i := range c.Plugins {
		if err := c.Plugins[i].check(); err != nil {
			return nil, fmt.Errorf("plugins[%d]: %w", i, err)
		}
	}
	return &c, nil
}

func (p *Plugin) check() error {
	switch {
	case p.ID == "":
		return errors.New("id is missing")
	case p.OAuth2 == nil:
		return errors.New("no known plugin is configured")
	case p.OAuth2.Header == "":
		return errors.New("oauth2.header is missing")
	case p.OAuth2.Header != strings.ToLower(p.OAuth2.Header):
		return errors.New("oauth2.header must be lower-case")
	}
	return nil
}

// decodeStrict decodes exactly one JSON value and refuses unknown fields.
func decodeStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("trailing data")
	}
	return nil
}
