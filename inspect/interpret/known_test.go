package interpret

import (
	"errors"
	"net/netip"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/xds/resource"
)

// TestKnownFieldsExist: a field that no message has would understand nothing.
func TestKnownFieldsExist(t *testing.T) {
	for name, known := range fields {
		m, err := protoregistry.GlobalTypes.FindMessageByName(name)
		if err != nil {
			t.Logf("%s is not linked into this test", name)
			continue
		}
		for _, field := range known {
			if m.Descriptor().Fields().ByName(field) == nil {
				t.Errorf("%s has no field %s", name, field)
			}
		}
	}
}

// parts are a proxy that answers 204 to everything, in pieces that a test may change.
type parts struct {
	listener *listenerv3.Listener
	manager  *hcmv3.HttpConnectionManager
	route    *routev3.Route
	table    *routev3.RouteConfiguration
}

func pack(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (p *parts) proxy(t *testing.T) *Proxy {
	t.Helper()
	p.listener.FilterChains = []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
		Name: "manager", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, p.manager)},
	}}}}
	freeze := func(kind resource.TypeURL, name string, m proto.Message) *resource.Resource {
		body, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return resource.New(kind, name, body)
	}
	return &Proxy{Set: resource.NewSet([]*resource.Resource{
		freeze(resource.Listener, "listener", p.listener), freeze(resource.Route, "table", p.table),
	}, nil)}
}

// TestWhatIsNotUnderstoodIsSaid: every field and extension that is not known, at any level, is an
// error. Nothing is guessed.
func TestWhatIsNotUnderstoodIsSaid(t *testing.T) {
	for name, edit := range map[string]func(*testing.T, *parts){
		"":         func(*testing.T, *parts) {},
		"listener": func(_ *testing.T, p *parts) { p.listener.Transparent = wrapperspb.Bool(true) },
		"manager":  func(_ *testing.T, p *parts) { p.manager.StripMatchingHostPort = true },
		"table":    func(_ *testing.T, p *parts) { p.table.InternalOnlyHeaders = []string{"a"} },
		"host":     func(_ *testing.T, p *parts) { p.table.VirtualHosts[0].IncludeRequestAttemptCount = true },
		"match":    func(_ *testing.T, p *parts) { p.route.Match.Grpc = &routev3.RouteMatch_GrpcRouteMatchOptions{} },
		"route": func(t *testing.T, p *parts) {
			p.route.TypedPerFilterConfig = nil
			p.route.Action = &routev3.Route_NonForwardingAction{NonForwardingAction: &routev3.NonForwardingAction{}}
		},
		"filter": func(t *testing.T, p *parts) {
			lua := &hcmv3.HttpFilter{Name: "lua", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(t, &luav3.Lua{})}}
			p.manager.HttpFilters = append([]*hcmv3.HttpFilter{lua}, p.manager.HttpFilters...)
		},
		"no table": func(_ *testing.T, p *parts) {
			p.manager.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: "another"}}
		},
	} {
		p := &parts{
			listener: &listenerv3.Listener{Name: "listener", Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
			}}}},
			manager: &hcmv3.HttpConnectionManager{
				RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: "table"}},
				HttpFilters: []*hcmv3.HttpFilter{{
					Name: "envoy.filters.http.router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(t, &routerv3.Router{})},
				}},
			},
			route: &routev3.Route{
				Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 204}},
			},
		}
		p.table = &routev3.RouteConfiguration{Name: "table", VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{p.route}}}}
		edit(t, p)
		proxy := p.proxy(t)
		l, err := proxy.Find(t.Context(), netip.MustParseAddrPort("127.0.0.1:80"))
		if err != nil || l == nil {
			t.Fatalf("%s: no listener: %v", name, err)
		}
		out, err := proxy.Arrive(l, Connection{}, &Request{Method: "GET", Scheme: "http", Host: "a.test", Path: "/"})
		var unsaid *Unsaid
		switch {
		case name == "" && (err != nil || out.Reply == nil || out.Reply.Status != 204):
			t.Errorf("what is understood is not said: %v, %+v", err, out)
		case name != "" && !errors.As(err, &unsaid):
			t.Errorf("%s: %v, %+v", name, err, out)
		}
	}
}

// TestBytesInPatterns: Go's expressions have no \C.
func TestBytesInPatterns(t *testing.T) {
	for pattern, want := range map[string]string{`a\C*`: `a(?s:.)*`, `a\\C`: `a\\C`, `\`: `\`, `\\\C`: `\\(?s:.)`} {
		if got := anyByte(pattern); got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
}
