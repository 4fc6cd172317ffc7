package xdstest

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/meshgate/meshgate/xds/resource"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// apply handles a response as an Envoy would. The caller holds mu.
func (c *Client) apply(m *discovery.DeltaDiscoveryResponse) {
	t := resource.TypeURL(m.GetTypeUrl())
	h := c.types[t]
	msg := Message{Type: t, Removed: m.GetRemovedResources()}
	for _, r := range m.GetResources() {
		msg.Names = append(msg.Names, r.GetName())
	}
	c.log = append(c.log, msg)
	if h == nil || !h.asked {
		return // neither accepted nor refused
	}
	if c.opt.Reject != nil {
		if text := c.opt.Reject(t, msg.Names); text != "" {
			for _, r := range m.GetResources() {
				c.refused[t][r.GetName()] = r.GetVersion()
			}
			for _, name := range m.GetRemovedResources() {
				c.refused[t][name] = ""
			}
			c.answer(m, text)
			c.warmed() // a start continues after a refusal
			return
		}
	}
	for _, name := range slices.Concat(msg.Names, msg.Removed) {
		delete(c.refused[t], name)
	}
	text := ""
	var follow []func()
	for _, r := range m.GetResources() {
		if why := c.refuses(t, r); why != "" {
			text += why
			continue
		}
		if f := c.hold(t, h, r); f != nil {
			follow = append(follow, f)
		}
	}
	c.remove(t, h, m.GetRemovedResources())
	for _, f := range follow {
		f() // requests for assignments precede the answer to their clusters
	}
	c.answer(m, text)
	c.warmed()
}

// refuses returns why a resource is refused, and remembers the refusal.
func (c *Client) refuses(t resource.TypeURL, r *discovery.Resource) string {
	if c.opt.Refuse == nil {
		return ""
	}
	why := c.opt.Refuse(t, r.GetName())
	if why != "" {
		c.refused[t][r.GetName()] = r.GetVersion()
	}
	return why
}

func (c *Client) hold(t resource.TypeURL, h *holding, r *discovery.Resource) func() {
	if _, named := h.names[r.GetName()]; t == resource.Endpoint && !named && !c.opt.Relay {
		return nil // accepted and ignored
	}
	h.has[r.GetName()] = &resource.Resource{Type: t, Name: r.GetName(), Version: r.GetVersion(), Body: r.GetResource().GetValue()}
	if c.opt.Relay {
		return nil
	}
	switch t {
	case resource.Cluster:
		return both(c.secrets(r, &clusterv3.Cluster{}), c.warm(r))
	case resource.Endpoint:
		for cluster, eds := range c.edsOf {
			if eds == r.GetName() {
				delete(c.warming, cluster)
			}
		}
	case resource.Listener:
		return both(c.secrets(r, &listenerv3.Listener{}), c.routes(r))
	}
	return nil
}

// both returns a function that calls one after the other; either may be nil.
func both(first, second func()) func() {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func() { first(); second() }
}

// secrets asks for the secrets that a cluster or a listener names anywhere.
func (c *Client) secrets(r *discovery.Resource, m proto.Message) func() {
	if proto.Unmarshal(r.GetResource().GetValue(), m) != nil {
		return nil
	}
	var names []string
	// Content packed in a type that is not known here has no secrets.
	_ = protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
		message, ok := p.Index(-1).Value.Interface().(protoreflect.Message)
		if !ok {
			return nil
		}
		if config, ok := message.Interface().(*tlsv3.SdsSecretConfig); ok && config.GetSdsConfig() != nil {
			names = append(names, config.GetName())
		}
		return nil
	})
	if len(names) == 0 {
		return nil
	}
	return func() {
		for _, n := range names {
			if _, known := c.types[resource.Secret].names[n]; !known {
				c.ask(resource.Secret, n)
			}
		}
	}
}

// warm starts the warming of a new or changed cluster.
func (c *Client) warm(r *discovery.Resource) func() {
	var cl clusterv3.Cluster
	if proto.Unmarshal(r.GetResource().GetValue(), &cl) != nil || cl.GetType() != clusterv3.Cluster_EDS {
		return nil
	}
	name := cl.GetEdsClusterConfig().GetServiceName()
	if name == "" {
		name = cl.GetName()
	}
	c.warming[cl.GetName()] = struct{}{}
	c.edsOf[cl.GetName()] = name
	if _, known := c.types[resource.Endpoint].names[name]; known {
		return nil // a changed cluster does not ask again
	}
	return func() { c.ask(resource.Endpoint, name) }
}

// routes asks for the route tables that a listener names.
func (c *Client) routes(r *discovery.Resource) func() {
	var l listenerv3.Listener
	if proto.Unmarshal(r.GetResource().GetValue(), &l) != nil {
		return nil
	}
	var names []string
	for _, chain := range l.GetFilterChains() {
		for _, f := range chain.GetFilters() {
			var h hcmv3.HttpConnectionManager
			if f.GetTypedConfig().UnmarshalTo(&h) == nil && h.GetRds() != nil {
				names = append(names, h.GetRds().GetRouteConfigName())
			}
		}
	}
	return func() {
		for _, n := range names {
			if _, known := c.types[resource.Route].names[n]; !known {
				c.ask(resource.Route, n)
			}
		}
	}
}

// remove handles removals. In an Envoy, those of assignments, routes and secrets have no
// effect.
func (c *Client) remove(t resource.TypeURL, h *holding, names []string) {
	if !c.opt.Relay && t != resource.Cluster && t != resource.Listener {
		return
	}
	for _, n := range names {
		delete(h.has, n)
		eds, ok := c.edsOf[n]
		if t != resource.Cluster || !ok || c.opt.Relay {
			continue
		}
		delete(c.warming, n)
		delete(c.edsOf, n)
		delete(c.types[resource.Endpoint].names, eds)
		delete(c.types[resource.Endpoint].has, eds)
		c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: string(resource.Endpoint), ResourceNamesUnsubscribe: []string{eds}})
	}
}

// warmed sends what waits for warm clusters.
func (c *Client) warmed() {
	if len(c.warming) > 0 || c.held {
		return
	}
	for _, a := range c.acks {
		c.acked++
		c.send(a)
	}
	c.acks = nil
	if !c.types[resource.Listener].asked && !c.opt.Relay {
		c.ask(resource.Listener)
	}
}
