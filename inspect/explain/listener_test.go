package explain_test

import (
	"fmt"
	"slices"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	localratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/xds/resource"
)

// heldListener is a listener of a set with its routes, nil if it forwards bytes.
type heldListener struct {
	t      *testing.T
	routes *routev3.RouteConfiguration
	http   []*hcmv3.HttpConnectionManager
	tcp    []*tcpv3.TcpProxy
}

// listenerOf returns a listener by its name, nil if there is none.
func listenerOf(t *testing.T, set *resource.Set, name string) *heldListener {
	t.Helper()
	r := set.Get(resource.Listener, name)
	if r == nil {
		return nil
	}
	l := new(listenerv3.Listener)
	if err := proto.Unmarshal(r.Body, l); err != nil {
		t.Fatal(err)
	}
	out := &heldListener{t: t}
	for _, chain := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
		for _, f := range chain.GetFilters() {
			if m := new(hcmv3.HttpConnectionManager); f.GetTypedConfig().UnmarshalTo(m) == nil {
				out.http = append(out.http, m)
			}
			if p := new(tcpv3.TcpProxy); f.GetTypedConfig().UnmarshalTo(p) == nil {
				out.tcp = append(out.tcp, p)
			}
		}
	}
	if len(out.http) > 0 {
		out.routes = new(routev3.RouteConfiguration)
		table := set.Get(resource.Route, out.http[0].GetRds().GetRouteConfigName())
		if table == nil {
			t.Fatalf("%s has no routes", name)
		}
		if err := proto.Unmarshal(table.Body, out.routes); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// clusters are the services where a listener leads.
func (l *heldListener) clusters() (out []string) {
	for _, p := range l.tcp {
		out = append(out, p.GetCluster())
		for _, w := range p.GetWeightedClusters().GetClusters() {
			out = append(out, w.GetName())
		}
	}
	for _, h := range l.routes.GetVirtualHosts() {
		for _, r := range h.GetRoutes() {
			out = append(out, r.GetRoute().GetCluster())
			for _, w := range r.GetRoute().GetWeightedClusters().GetClusters() {
				out = append(out, w.GetName())
			}
		}
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == "" || name[0] == '@' }) // that one is of every proxy
}

func (l *heldListener) retries() (out []string) {
	for _, h := range l.routes.GetVirtualHosts() {
		if p := h.GetRetryPolicy(); p != nil {
			out = append(out, fmt.Sprint(p.GetNumRetries().GetValue()))
		}
	}
	return out
}

func (l *heldListener) timeouts() (out []string) {
	for _, h := range l.routes.GetVirtualHosts() {
		for _, r := range h.GetRoutes() {
			if a := r.GetRoute(); a.GetTimeout() != nil {
				out = append(out, fmt.Sprint(a.GetTimeout().AsDuration()))
			}
		}
	}
	return out
}

func (l *heldListener) attempts() (out []string) {
	for _, p := range l.tcp {
		if n := p.GetMaxConnectAttempts(); n != nil {
			out = append(out, fmt.Sprint(n.GetValue()))
		}
	}
	return out
}

// limits are those of routes, none unless there is a filter for them.
func (l *heldListener) limits() (out []string) {
	filters := 0
	for _, m := range l.http {
		for _, f := range m.GetHttpFilters() {
			if f.GetTypedConfig().MessageIs((*localratelimitv3.LocalRateLimit)(nil)) {
				filters++
			}
		}
	}
	for _, h := range l.routes.GetVirtualHosts() {
		for _, r := range h.GetRoutes() {
			for _, config := range r.GetTypedPerFilterConfig() {
				out = append(out, bucketOf(config)...)
			}
		}
	}
	if filters == 0 && len(out) > 0 {
		l.t.Errorf("limits %v without a filter", out)
	}
	return out
}

func bucketOf(config *anypb.Any) []string {
	limit := new(localratelimitv3.LocalRateLimit)
	if config.UnmarshalTo(limit) != nil || limit.GetTokenBucket() == nil {
		return nil
	}
	return []string{fmt.Sprint(limit.GetTokenBucket().GetMaxTokens())}
}

// faults are those that routes give to filters, none for one that is not there.
func (l *heldListener) faults() (out []string) {
	for _, m := range l.http {
		for _, f := range m.GetHttpFilters() {
			if f.GetTypedConfig().MessageIs((*faultv3.HTTPFault)(nil)) {
				out = append(out, l.fault(f.GetName())...)
			}
		}
	}
	return out
}

func (l *heldListener) fault(filter string) (out []string) {
	levels := []map[string]*anypb.Any{l.routes.GetTypedPerFilterConfig()}
	for _, h := range l.routes.GetVirtualHosts() {
		levels = append(levels, h.GetTypedPerFilterConfig())
		for _, r := range h.GetRoutes() {
			levels = append(levels, r.GetTypedPerFilterConfig())
		}
	}
	for _, level := range levels {
		if c := new(faultv3.HTTPFault); level[filter].UnmarshalTo(c) == nil {
			out = append(out, fmt.Sprint(c.GetAbort().GetHttpStatus()))
		}
	}
	return out
}
