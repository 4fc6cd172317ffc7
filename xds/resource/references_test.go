package resource_test

import (
	"fmt"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/xds/resource"
)

// filterChain returns a filter chain with a filter for each configuration.
func filterChain(t testing.TB, configs ...proto.Message) *listenerv3.FilterChain {
	t.Helper()
	c := &listenerv3.FilterChain{Name: "c"}
	for _, m := range configs {
		packed, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		c.Filters = append(c.Filters, &listenerv3.Filter{Name: "f", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed}})
	}
	return c
}

func byRDS(name string) *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix: "decoy", NormalizePath: wrapperspb.Bool(true),
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: name}},
	}
}

// TestListenersNameTheirRoutes: only names in the right fields of the messages count, and the
// same text elsewhere does not.
func TestListenersNameTheirRoutes(t *testing.T) {
	inline := &hcmv3.HttpConnectionManager{StatPrefix: "b", RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{
		RouteConfig: &routev3.RouteConfiguration{Name: "b"},
	}}
	for name, tc := range map[string]struct {
		listener *listenerv3.Listener
		want     []string
	}{
		"nothing":        {&listenerv3.Listener{Name: "a"}, nil},
		"one":            {&listenerv3.Listener{Name: "b", FilterChains: []*listenerv3.FilterChain{filterChain(t, byRDS("a"))}}, []string{"a"}},
		"several":        {&listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{filterChain(t, byRDS("b")), filterChain(t, &tcpv3.TcpProxy{StatPrefix: "x"}, byRDS("a")), filterChain(t, byRDS("b"))}}, []string{"a", "b"}},
		"of the default": {&listenerv3.Listener{DefaultFilterChain: filterChain(t, byRDS("d"))}, []string{"d"}},
		"inline":         {&listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{filterChain(t, inline)}}, nil},
		"not HTTP":       {&listenerv3.Listener{StatPrefix: "a", FilterChains: []*listenerv3.FilterChain{filterChain(t, &tcpv3.TcpProxy{StatPrefix: "a"})}}, nil},
	} {
		body, err := proto.Marshal(tc.listener)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tc.want, resource.New(resource.Listener, "l", body).Routes); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(tc.want, resource.Received(resource.Listener, "l", "v", body).Routes); d != "" {
			t.Errorf("%s, received (-want +got):\n%s", name, d)
		}
		if r := resource.New(resource.Cluster, "c", body).Routes; r != nil {
			t.Errorf("%s: a cluster names %v", name, r)
		}
	}
}

// FuzzReferences: no bytes make New fail.
func FuzzReferences(f *testing.F) {
	body, err := proto.Marshal(&listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{filterChain(f, byRDS("a"))}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte{0x1a, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(_ *testing.T, body []byte) { resource.New(resource.Listener, "l", body) })
}

func TestSetsKnowTheirPlugins(t *testing.T) {
	table := func(name string, plugins ...string) *resource.Resource {
		r := resource.New(resource.Route, name, []byte(name))
		r.Plugins = plugins
		return r
	}
	first := resource.NewSet([]*resource.Resource{table("a", "p1", "p2"), table("b", "p2")}, nil)
	next := resource.Assemble(map[resource.TypeURL]*resource.Table{
		resource.Route: first.Table(resource.Route).With([]*resource.Resource{table("c", "p3")}, []string{"a"}),
	}, nil)
	for id, want := range map[string][2]bool{"p1": {true, false}, "p2": {true, true}, "p3": {false, true}, "": {}, "p": {}} {
		if first.HasPlugin(id) != want[0] || next.HasPlugin(id) != want[1] {
			t.Errorf("%q: %t and %t", id, first.HasPlugin(id), next.HasPlugin(id))
		}
	}
	if (*resource.Set)(nil).HasPlugin("p1") || resource.NewSet(nil, nil).HasPlugin("p1") {
		t.Error("an empty set has a plugin")
	}
}

// BenchmarkHasPlugin looks for plugins in a set of 1,000 route tables.
func BenchmarkHasPlugin(b *testing.B) {
	rs := make([]*resource.Resource, 1000)
	for i := range rs {
		rs[i] = resource.New(resource.Route, fmt.Sprint(i), []byte{1})
		rs[i].Plugins = []string{fmt.Sprintf("00000000-0000-4000-8000-%012d", i)}
	}
	s := resource.NewSet(rs, nil)
	b.ReportAllocs()
	for b.Loop() {
		if !s.HasPlugin("00000000-0000-4000-8000-000000000500") || s.HasPlugin("other") {
			b.Fatal("wrong")
		}
	}
}
