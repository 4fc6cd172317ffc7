package proxytemplate

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// What follows is what Envoy asks of a resource as a whole and its proto does not say. It is asked
// when a template is written, and not again of what is stored.

// whole returns an error for the first thing that a program makes and that Envoy would refuse.
func (p *program) whole() error {
	for _, c := range p.clusters {
		if err := wholeCluster(c); err != nil {
			return err
		}
	}
	for _, l := range p.listeners {
		if err := wholeListener(l); err != nil {
			return err
		}
	}
	for _, s := range p.steps {
		if h, ok := s.value.(*routev3.VirtualHost); ok {
			if twice := repeated(h.GetDomains()); twice >= 0 {
				return fmt.Errorf("domains[%d]: it is there already", twice)
			}
		}
	}
	return nil
}

func wholeCluster(c *clusterv3.Cluster) error {
	groups := c.GetLoadAssignment().GetEndpoints()
	if c.GetType() == clusterv3.Cluster_LOGICAL_DNS && (len(groups) != 1 || len(groups[0].GetLbEndpoints()) != 1) {
		return errors.New("load_assignment.endpoints: a cluster of type LOGICAL_DNS has exactly one endpoint")
	}
	return nil
}

func wholeListener(l *listenerv3.Listener) error {
	for i, c := range l.GetFilterChains() {
		path := fmt.Sprintf("filter_chains[%d].filters", i)
		if err := ends(path, c.GetFilters()); err != nil {
			return err
		}
		for j, f := range c.GetFilters() {
			m, err := managerOf(f)
			if err == nil && m != nil {
				err = wholeManager(m)
			}
			if err != nil {
				return fmt.Errorf("%s[%d].typed_config.%w", path, j, err)
			}
		}
	}
	return nil
}

// ends returns an error unless the last filter, and no other one, forwards. A list may be empty.
func ends[F filter](path string, all []F) error {
	for i, f := range all {
		switch last := i == len(all)-1; {
		case last && !isLast(f):
			return fmt.Errorf("%s[%d]: the last filter must be one that forwards", path, i)
		case !last && isLast(f):
			return fmt.Errorf("%s[%d]: a filter that forwards must be the last one", path, i)
		}
	}
	return nil
}

// managerOf returns the connection manager that a filter is, or nil.
func managerOf(f *listenerv3.Filter) (*hcmv3.HttpConnectionManager, error) {
	if f.GetTypedConfig().MessageName() != connectionManager {
		return nil, nil //nolint:nilnil // most filters are none
	}
	m := new(hcmv3.HttpConnectionManager)
	return m, f.GetTypedConfig().UnmarshalTo(m)
}

func wholeManager(m *hcmv3.HttpConnectionManager) error {
	if m.GetCodecType() == hcmv3.HttpConnectionManager_HTTP3 {
		return errors.New("codec_type: must be one of AUTO, HTTP1, HTTP2")
	}
	if err := ends("http_filters", m.GetHttpFilters()); err != nil {
		return err
	}
	var domains []string
	for i, h := range m.GetRouteConfig().GetVirtualHosts() {
		for j, d := range h.GetDomains() {
			if slices.Contains(domains, d) {
				return fmt.Errorf("route_config.virtual_hosts[%d].domains[%d]: it is there already", i, j)
			}
			domains = append(domains, d)
		}
	}
	return nil
}

// repeated returns the index of the first element that is in a list before, or -1.
func repeated(all []string) int {
	for i, s := range all {
		if slices.Contains(all[:i], s) {
			return i
		}
	}
	return -1
}

// lazy lets the connection managers of a listener have routes to clusters that are not there, which
// answer 503. Envoy would refuse a listener with such a table in it, and a cluster that goes later
// would not be asked about.
func lazy(l *listenerv3.Listener) error {
	for _, c := range l.GetFilterChains() {
		for _, f := range c.GetFilters() {
			m, err := managerOf(f)
			if err != nil {
				return err
			}
			if m.GetRouteConfig() == nil {
				continue
			}
			m.GetRouteConfig().ValidateClusters = wrapperspb.Bool(false)
			if f.GetTypedConfig().Value, err = (proto.MarshalOptions{Deterministic: true}).Marshal(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// clash returns the names of two listeners of which only one can listen, or none.
func clash(all []*listenerv3.Listener) string {
	for i, l := range all {
		for _, o := range all[:i] {
			if sameSocket(l, o) {
				return strings.Join([]string{o.GetName(), l.GetName()}, " and ")
			}
		}
	}
	return ""
}

func sameSocket(l, o *listenerv3.Listener) bool {
	a, b := l.GetAddress().GetSocketAddress(), o.GetAddress().GetSocketAddress()
	one, err := netip.ParseAddr(a.GetAddress())
	other, failed := netip.ParseAddr(b.GetAddress())
	if err != nil || failed != nil || a.GetPortValue() != b.GetPortValue() {
		return false
	}
	one, other = one.Unmap(), other.Unmap()
	return one == other || one.Is4() == other.Is4() && (one.IsUnspecified() || other.IsUnspecified())
}
