package sidecar_test

import (
	"slices"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestHandshakesAskForPermission: the chain of an inbound of TCP that demands certificates
// demands the names of those who are permitted, and connects to the workload after that.
// Nobody is a name, because Envoy takes an empty list for everybody. What has no
// certificate, and HTTP, of which the routes say who may call, are not asked.
func TestHandshakesAskForPermission(t *testing.T) {
	member := []string{"spiffe://demo/*"}
	for name, tc := range map[string]struct {
		protocol, mode string
		sources        []mesh.Tags
		want           []string
	}{
		"nobody":        {"tcp", mesh.ModeStrict, nil, []string{"spiffe://demo/"}},
		"services":      {"tcp", mesh.ModeStrict, []mesh.Tags{{mesh.TagService: "web"}, {mesh.TagService: "api", "team": "a"}}, []string{"spiffe://demo/api", "spiffe://demo/web"}},
		"a tag":         {"tcp", mesh.ModeStrict, []mesh.Tags{{mesh.TagService: "web"}, {"team": "a"}}, member},
		"everybody":     {"tcp", mesh.ModeStrict, []mesh.Tags{{mesh.TagService: "*"}}, member},
		"PERMISSIVE":    {"tcp", mesh.ModePermissive, []mesh.Tags{{mesh.TagService: "web"}}, []string{"spiffe://demo/web"}},
		"HTTP":          {"http", mesh.ModeStrict, []mesh.Tags{{mesh.TagService: "web"}}, member},
		"HTTP, nobody":  {"http", mesh.ModeStrict, nil, member},
		"in clear":      {"tcp", "", []mesh.Tags{{mesh.TagService: "web"}}, nil},
		"another's TCP": {"kafka", mesh.ModeStrict, nil, []string{"spiffe://demo/"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			pair(tc.protocol)(w)
			if tc.mode != "" {
				w.under(tc.mode)
			}
			w.drop(trafficpermission.Kind, "allow-all-"+meshName)
			if tc.sources != nil {
				spec := &trafficpermission.Spec{}
				spec.Destinations = []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "backend"}}}
				for _, s := range tc.sources {
					spec.Sources = append(spec.Sources, mesh.Selector{Match: s})
				}
				w.put(trafficpermission.Kind, meshName, "some", spec)
			}
			l := load(t, w.joined("backend-1").Get(resource.Listener, "inbound:127.0.0.2:8080"), new(listenerv3.Listener))
			for _, c := range l.GetFilterChains() {
				var want []string
				if c.GetTransportSocket() != nil {
					want = tc.want
				}
				demanded(t, c, want, want != nil && tc.protocol != "http")
			}
		})
	}
}

// demanded holds the names that a chain demands, and whether its workload waits for them.
func demanded(t *testing.T, c *listenerv3.FilterChain, want []string, waits bool) {
	t.Helper()
	var got []string
	if s := c.GetTransportSocket(); s != nil {
		if c.GetTransportSocketConnectTimeout() == nil {
			t.Errorf("chain %s waits for a handshake for ever", c.GetName())
		}
		var tls tlsv3.DownstreamTlsContext
		if err := s.GetTypedConfig().UnmarshalTo(&tls); err != nil {
			t.Fatal(err)
		}
		for _, m := range tls.GetCommonTlsContext().GetCombinedValidationContext().GetDefaultValidationContext().GetMatchTypedSubjectAltNames() {
			name := m.GetMatcher().GetExact()
			if p := m.GetMatcher().GetPrefix(); p != "" {
				name = p + "*"
			}
			got = append(got, name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("chain %s demands %q, want %q", c.GetName(), got, want)
	}
	var proxy tcpv3.TcpProxy
	last := c.GetFilters()[len(c.GetFilters())-1].GetTypedConfig()
	after := last.MessageIs(&proxy) && last.UnmarshalTo(&proxy) == nil &&
		proxy.GetUpstreamConnectMode() == tcpv3.UpstreamConnectMode_ON_DOWNSTREAM_TLS_HANDSHAKE
	if after != waits {
		t.Errorf("chain %s connects to its workload after the handshake: %v", c.GetName(), after)
	}
}
