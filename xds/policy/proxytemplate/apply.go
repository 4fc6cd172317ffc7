package proxytemplate

import (
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// hcm is the type of the network filter that has HTTP filters.
const hcm = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"

// add adds the resources of the policy, and those that its modifications add.
func add(d *draft.Contribution, s *policy.Selection) error {
	conf := policy.First[Spec](s).Conf
	if conf == nil {
		return nil
	}
	for _, r := range conf.Resources {
		m, err := parseResource(r.Resource)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		put(d, m)
	}
	for i := range conf.Modifications {
		for _, sort := range sorts[:2] { // clusters and listeners stand by themselves
			c, m := sort.of(&conf.Modifications[i]), sort.value()
			if c == nil || c.Operation != "add" {
				continue
			}
			if err := parseWhole(c.Value, m); err != nil {
				return fmt.Errorf("%s: %w", sort.name, err)
			}
			put(d, m)
		}
	}
	return nil
}

func put(d *draft.Contribution, m whole) {
	switch m := m.(type) {
	case *clusterv3.Cluster:
		d.Clusters = append(d.Clusters, m)
	case *listenerv3.Listener:
		d.Listeners = append(d.Listeners, m)
	case *routev3.RouteConfiguration:
		d.Routes = append(d.Routes, m)
	}
}

// patch removes what no profile makes, and applies the modifications in their order.
func patch(f *draft.Finished, s *policy.Selection) error {
	conf := policy.First[Spec](s).Conf
	if conf == nil {
		return nil
	}
	if f.Origin != draft.OriginRaw && !slices.Contains(conf.Imports, profileSidecar) {
		f.Removed = true
		return nil
	}
	before := proto.Clone(f.Proto)
	for i := range conf.Modifications {
		if err := conf.Modifications[i].apply(f); err != nil || f.Removed {
			return err
		}
	}
	if m, ok := f.Proto.(whole); ok && !proto.Equal(before, m) {
		return check(m)
	}
	return nil
}

func (m *Modification) apply(f *draft.Finished) error {
	switch on := f.Proto.(type) {
	case *clusterv3.Cluster:
		return m.Cluster.onWhole(f, on, m.Cluster.match().is(f.Origin, on.GetName()))
	case *listenerv3.Listener:
		match := m.Listener.match()
		if err := m.Listener.onWhole(f, on, match.is(f.Origin, on.GetName()) && tagged(on, match.Tags)); err != nil || f.Removed {
			return err
		}
		return m.inListener(f.Origin, on)
	case *routev3.RouteConfiguration:
		return m.VirtualHost.onHosts(f.Origin, on)
	}
	return nil
}

// is reports whether something is of an origin and has a name, as far as they are asked for.
func (m Match) is(origin, name string) bool {
	return (m.Origin == "" || m.Origin == origin) && (m.Name == "" || m.Name == name)
}

// onWhole patches or removes a whole resource that matches.
func (c *Change) onWhole(f *draft.Finished, on whole, matches bool) error {
	if c == nil || !matches {
		return nil
	}
	switch c.Operation {
	case "remove":
		f.Removed = true
	case "patch":
		over := on.ProtoReflect().New().Interface()
		if err := parse(c.Value, over); err != nil {
			return err
		}
		return merge(on.ProtoReflect(), over.ProtoReflect())
	}
	return nil
}

// inListener changes the filters of a listener, and the virtual hosts in it.
func (m *Modification) inListener(origin string, l *listenerv3.Listener) error {
	for _, chain := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
		if chain == nil {
			continue
		}
		if c := m.NetworkFilter; c.inFilters(origin, l) {
			filters, err := change(c, chain.GetFilters(), func() *listenerv3.Filter { return new(listenerv3.Filter) })
			if err != nil {
				return err
			}
			chain.Filters = filters
		}
		for _, filter := range chain.GetFilters() {
			if filter.GetTypedConfig().GetTypeUrl() != hcm {
				continue
			}
			if err := m.inManager(origin, l, filter); err != nil {
				return err
			}
		}
	}
	return nil
}

// inManager changes what an HTTP connection manager has.
func (m *Modification) inManager(origin string, l *listenerv3.Listener, filter *listenerv3.Filter) error {
	manager := new(hcmv3.HttpConnectionManager)
	if err := filter.GetTypedConfig().UnmarshalTo(manager); err != nil {
		return err
	}
	if c := m.HTTPFilter; c.inFilters(origin, l) {
		filters, err := change(c, manager.GetHttpFilters(), func() *hcmv3.HttpFilter { return new(hcmv3.HttpFilter) })
		if err != nil {
			return err
		}
		manager.HttpFilters = filters
	}
	if routes := manager.GetRouteConfig(); routes != nil {
		if err := m.VirtualHost.onHosts(origin, routes); err != nil {
			return err
		}
	}
	config, err := draft.Pack(manager)
	if err == nil {
		filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: config}
	}
	return err
}

// inFilters reports whether a change is for the filters of a listener.
func (c *Change) inFilters(origin string, l *listenerv3.Listener) bool {
	m := c.match()
	return c != nil && (m.Origin == "" || m.Origin == origin) && (m.ListenerName == "" || m.ListenerName == l.GetName()) && tagged(l, m.ListenerTags)
}

// onHosts changes the virtual hosts of a route configuration.
func (c *Change) onHosts(origin string, r *routev3.RouteConfiguration) error {
	m := c.match()
	if c == nil || m.Origin != "" && m.Origin != origin || m.RouteConfigurationName != "" && m.RouteConfigurationName != r.GetName() {
		return nil
	}
	hosts, err := change(c, r.GetVirtualHosts(), func() *routev3.VirtualHost { return new(routev3.VirtualHost) })
	if err == nil {
		r.VirtualHosts = hosts
	}
	return err
}

// tagged reports whether a listener has tags; "*" is any value.
func tagged(l *listenerv3.Listener, want mesh.Tags) bool {
	if len(want) == 0 {
		return true
	}
	have := mesh.Tags{}
	for k, v := range l.GetMetadata().GetFilterMetadata()[mesh.MetadataTags].GetFields() {
		have[k] = v.GetStringValue()
	}
	return mesh.Matches(want, have)
}
