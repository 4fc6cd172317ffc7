package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// MaxChain bounds an encoded chain in bytes; a longer one is refused.
const MaxChain = 256 << 10

// MaxCredentialNames bounds the names under which one plugin looks for a credential.
const MaxCredentialNames = 8

// MaxCredential bounds an access token or API key in bytes. No longer one exists, so a
// longer text is unknown without asking anybody.
const MaxCredential = 4 << 10

// MaxTriggers bounds the different triggers of one chain.
const MaxTriggers = 8

// Chain is what a route carries to the filter: the ordered effective plugins and what they
// need to decide without asking anybody. It is self-contained, so a change of a plugin
// changes only the routes that use it.
type Chain struct {
	// Route is the id of the route, for readers. It decides nothing, and the routes of a
	// gateway do not say it, so that they share chains.
	Route string `json:"route,omitempty"`
	// Service is the id of the route's service; empty on a route without one. A token bound
	// to a service is accepted only there.
	Service string `json:"service,omitempty"`
	// ServicePlane is the control plane of the service, on gateways of a group: two of its
	// members may have services of one id. It is empty everywhere else.
	ServicePlane string `json:"service_plane,omitempty"`
	// Protocol is what requests of the route must speak. Others are refused before any
	// plugin runs. Empty means any HTTP.
	Protocol Protocol `json:"protocol,omitempty"`
	// Issues says that there is an OAuth server behind this route: requests for the
	// endpoints of the chain's oauth2 plugin are handed to it without a token. Only routes
	// of gateways say so. Everywhere else such a path belongs to the service, and is as
	// protected as any other.
	Issues bool `json:"issues,omitempty"`
	// Plugins run in order; the first that refuses ends the chain. The list may
	// be empty on a route with a Protocol.
	Plugins []Plugin `json:"plugins,omitempty"`
}

// Protocol restricts the requests of a route.
type Protocol string

// Protocols.
const (
	// ProtocolGRPC demands gRPC over HTTP/2: 415 for another content type, 426
	// for HTTP/1.
	ProtocolGRPC Protocol = "grpc"
	// ProtocolWebSocket demands the opening handshake of RFC 6455; everything
	// else is answered 400.
	ProtocolWebSocket Protocol = "ws"
)

// Plugin is one effective plugin instance. Exactly one of the typed members is set; it tells
// the kind of the plugin.
type Plugin struct {
	// ID is the uuid of the plugin instance.
	ID string `json:"id"`
	// OAuth2 checks a bearer token.
	OAuth2 *OAuth2 `json:"oauth2,omitempty"`
	// KeyAuth checks an API key.
	KeyAuth *KeyAuth `json:"key_auth,omitempty"`
	// Termination answers instead of the upstream.
	Termination *Termination `json:"termination,omitempty"`
}

// OAuth2 is the part of an oauth2 plugin's configuration that decides about protected
// requests. Settings that only the issuing endpoints need stay in the control plane.
type OAuth2 struct {
	// Header is the lower-case name of the header with the token.
	Header string `json:"header"`
	// Realm is added to challenges unless empty.
	Realm string `json:"realm,omitempty"`
	// Global accepts tokens that are not bound to a service. Otherwise they are refused.
	Global bool `json:"global,omitempty"`
	// HideCredentials removes the credential from the upstream request.
	HideCredentials bool `json:"hide_credentials,omitempty"`
	// InBody says that the body is searched for a token that is neither in the header nor in
	// the query. The body is then held back and read. Source: RFC 6750 section 2.2.
	InBody bool `json:"in_body,omitempty"`
	// OneConsumer refuses, with 403, a request whose token belongs to a different consumer
	// than another credential of the chain.
	OneConsumer bool `json:"one_consumer,omitempty"`
	// Endpoints says that introspection, revocation and metadata are endpoints of the plugin
	// too, in addition to the two issuing ones. It only matters if the chain issues.
	Endpoints bool `json:"endpoints,omitempty"`
	// Anonymous is set if failed authentication falls back to a consumer.
	Anonymous *Anonymous `json:"anonymous,omitempty"`
}

// KeyAuth is the configuration of a key-auth plugin.
type KeyAuth struct {
	// Names are the lower-case names under which keys are searched, in order: each first as
	// a header, then in the query, then in the body.
	Names []string `json:"names"`
	// InHeader, InQuery and InBody say where keys are searched.
	InHeader bool `json:"in_header,omitempty"`
	InQuery  bool `json:"in_query,omitempty"`
	InBody   bool `json:"in_body,omitempty"`
	// HideCredentials removes the key from the upstream request.
	HideCredentials bool `json:"hide_credentials,omitempty"`
	// SkipPreflight lets OPTIONS requests pass without a key.
	SkipPreflight bool `json:"skip_preflight,omitempty"`
	// Realm is added to challenges unless empty.
	Realm string `json:"realm,omitempty"`
	// Anonymous is set if failed authentication falls back to a consumer.
	Anonymous *Anonymous `json:"anonymous,omitempty"`
}

// Termination holds the answers of the effective request-termination plugins of a route.
// Which instance is effective may depend on the consumer.
type Termination struct {
	// Default answers every consumer that Consumers does not name. If it is nil, they pass.
	Default *Answered `json:"default,omitempty"`
	// Consumers holds, by consumer id, the answers of instances that are bound
	// to a consumer and more specific than Default.
	Consumers map[string]Answered `json:"consumers,omitempty"`
}

// Answered is a prepared answer.
type Answered struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type,omitempty"`
	Body        string `json:"body,omitempty"`
	// Trigger, unless empty, is the lower-case name of a header or query argument. Requests
	// without it pass.
	Trigger string `json:"trigger,omitempty"`
}

// Anonymous is the resolved config.anonymous of a plugin.
type Anonymous struct {
	// Configured is the value in the plugin's configuration: an id or username.
	Configured string `json:"configured"`
	// Consumer is nil if no consumer matches Configured. The plugin then answers 500 instead
	// of falling back.
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

// ParseChain decodes and checks a chain. Unknown fields, trailing data and a plugin without
// exactly one configuration are errors. The caller must then refuse every request of the
// route.
func ParseChain(data []byte) (*Chain, error) {
	if len(data) > MaxChain {
		return nil, fmt.Errorf("chain of %d bytes exceeds the limit of %d", len(data), MaxChain)
	}
	var c Chain
	if err := decodeStrict(data, &c); err != nil {
		return nil, fmt.Errorf("decode chain: %w", err)
	}
	switch c.Protocol {
	case "", ProtocolGRPC, ProtocolWebSocket:
	default:
		return nil, fmt.Errorf("protocol %q is unknown", c.Protocol)
	}
	if len(c.Plugins) == 0 && c.Protocol == "" {
		return nil, errors.New("chain has no plugins")
	}
	for i := range c.Plugins {
		if err := c.Plugins[i].check(); err != nil {
			return nil, fmt.Errorf("plugins[%d]: %w", i, err)
		}
	}
	if n := len(c.Triggers()); n > MaxTriggers {
		return nil, fmt.Errorf("chain has %d different triggers, the limit is %d", n, MaxTriggers)
	}
	return &c, nil
}

// Triggers returns the different triggers of answers, in order.
func (c *Chain) Triggers() []string {
	var names []string
	for i := range c.Plugins {
		t := c.Plugins[i].Termination
		if t == nil {
			continue
		}
		if t.Default != nil {
			names = append(names, t.Default.Trigger)
		}
		for _, a := range t.Consumers {
			names = append(names, a.Trigger)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" })
}

func (p *Plugin) check() error {
	kinds := 0
	for _, set := range []bool{p.OAuth2 != nil, p.KeyAuth != nil, p.Termination != nil} {
		if set {
			kinds++
		}
	}
	switch {
	case p.ID == "":
		return errors.New("id is missing")
	case kinds != 1:
		return errors.New("exactly one known plugin must be configured")
	case p.OAuth2 != nil:
		return checkNames("oauth2.header", p.OAuth2.Header)
	case p.KeyAuth != nil:
		return p.KeyAuth.check()
	}
	return p.Termination.check()
}

func (k *KeyAuth) check() error {
	if len(k.Names) == 0 || len(k.Names) > MaxCredentialNames {
		return fmt.Errorf("key_auth.names must hold 1 to %d names", MaxCredentialNames)
	}
	if !k.InHeader && !k.InQuery && !k.InBody {
		return errors.New("key_auth looks for keys nowhere")
	}
	return checkNames("key_auth.names", k.Names...)
}

func (t *Termination) check() error {
	if t.Default == nil && len(t.Consumers) == 0 {
		return errors.New("termination answers nobody")
	}
	if t.Default != nil && !t.Default.valid() {
		return errors.New("termination.default is no answer")
	}
	for id, a := range t.Consumers {
		if id == "" || !a.valid() {
			return fmt.Errorf("termination.consumers[%q] is no answer", id)
		}
	}
	return nil
}

func (a *Answered) valid() bool {
	return a.Status >= 200 && a.Status <= 599 && a.Trigger == strings.ToLower(a.Trigger)
}

func checkNames(field string, names ...string) error {
	for _, n := range names {
		switch {
		case n == "":
			return fmt.Errorf("%s is missing", field)
		case n != strings.ToLower(n):
			return fmt.Errorf("%s must be lower-case", field)
		case IsReserved([]byte(n), false):
			return fmt.Errorf("%s: %q is reserved, it is removed from requests", field, n)
		}
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
