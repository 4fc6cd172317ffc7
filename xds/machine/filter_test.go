package machine_test

import (
	"encoding/json"
	otelv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/open_telemetry/v3"
	"os"
	"path/filepath"
	"strings"
	"testing"

	golangv3 "github.com/envoyproxy/go-control-plane/contrib/envoy/extensions/filters/http/golang/v3alpha"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	modulev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/dynamic_modules/v3"
	factsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/bootstrap"
	"github.com/meshgate/meshgate/xds/directing"
	"github.com/meshgate/meshgate/xds/logsink"
	"github.com/meshgate/meshgate/xds/machine"
	_ "github.com/meshgate/meshgate/xds/plan/edge" // links the messages of its golden files
	"github.com/meshgate/meshgate/xds/scraping"
)

// asks returns a filter that asks at a cluster.
func asks(cluster string) *authzv3.ExtAuthz {
	return &authzv3.ExtAuthz{Services: &authzv3.ExtAuthz_GrpcService{GrpcService: serviceAt(cluster)}}
}

func serviceAt(cluster string) *corev3.GrpcService {
	return &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster}}}
}

// listening returns a listener with a filter for HTTP.
func listening(t testing.TB, filter proto.Message) proto.Message {
	return through(t, &hcmv3.HttpConnectionManager{HttpFilters: []*hcmv3.HttpFilter{{Name: "f", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(t, filter)}}}})
}

// through returns a listener with a network filter.
func through(t testing.TB, filter proto.Message) proto.Message {
	return &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, filter)}}}}}}
}

// ledBy returns a table with a route.
func ledBy(action *routev3.RouteAction) proto.Message {
	return &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{Routes: []*routev3.Route{{Action: &routev3.Route_Route{Route: action}}}}}}
}

// TestClusterOfTheAuthorizationService: only the agent says where requests are decided, and only
// the filter that asks is led there. Whoever else came there could have every token tried.
func TestClusterOfTheAuthorizationService(t *testing.T) {
	const refused = "which leads to the proxy's authorization service"
	at := contract.AuthzCluster
	overridden := &authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_CheckSettings{CheckSettings: &authzv3.CheckSettings{
		ServiceOverride: &authzv3.CheckSettings_GrpcService{GrpcService: serviceAt(at)},
	}}}
	authority := asks("other")
	authority.GetGrpcService().GetEnvoyGrpc().Authority = at
	for name, c := range map[string]struct {
		got  proto.Message
		want string // empty: it is accepted
	}{
		"a cluster of its name": {&clusterv3.Cluster{Name: at}, "which is the bootstrap's"},
		"endpoints for it":      {&endpointv3.ClusterLoadAssignment{ClusterName: at}, refused},
		"the filter that asks":  {listening(t, asks(at)), ""},
		"its authority":         {listening(t, authority), refused},
		"a route's own":         {route(nil, map[string]*anypb.Any{"f": pack(t, overridden)}), refused},
		"a route":               {ledBy(&routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: at}}), refused},
		"a share of a route": {ledBy(&routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_WeightedClusters{WeightedClusters: &routev3.WeightedCluster{
			Clusters: []*routev3.WeightedCluster_ClusterWeight{{Name: at}},
		}}}), refused},
		"a mirror":     {ledBy(&routev3.RouteAction{RequestMirrorPolicies: []*routev3.RouteAction_RequestMirrorPolicy{{Cluster: at}}}), refused},
		"a connection": {through(t, &tcpv3.TcpProxy{ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: at}}), refused},
		"a pattern": {&routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{Routes: []*routev3.Route{{Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: at}},
		}}}}}}, ""},
		"another cluster": {ledBy(&routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "authz"}}), ""},
	} {
		if got := refusal(t, c.got); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestClusterOfTheAccessLogs: only Envoy's logger is led to the agent's receiver, which believes
// what it is told.
func TestClusterOfTheAccessLogs(t *testing.T) {
	const refused = "which leads to the access logs of the proxy's agent"
	at := logsink.Cluster
	logger := func(cluster string) *otelv3.OpenTelemetryAccessLogConfig {
		return &otelv3.OpenTelemetryAccessLogConfig{GrpcService: serviceAt(cluster), LogName: "x"}
	}
	authority, name := logger("other"), logger("other")
	authority.GetGrpcService().GetEnvoyGrpc().Authority = at
	name.LogName = at
	for what, c := range map[string]struct {
		got  proto.Message
		want string // empty: it is accepted
	}{
		"a cluster of its name":   {&clusterv3.Cluster{Name: at}, "which is the bootstrap's"},
		"endpoints for it":        {&endpointv3.ClusterLoadAssignment{ClusterName: at}, refused},
		"a logger":                {logging(t, logger(at)), ""},
		"its authority":           {logging(t, authority), refused},
		"its name":                {logging(t, name), refused},
		"the filter that asks":    {listening(t, asks(at)), refused},
		"a logger asks for leave": {logging(t, logger(contract.AuthzCluster)), "authorization service"},
		"a route":                 {ledBy(&routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: at}}), refused},
		"a connection":            {through(t, &tcpv3.TcpProxy{ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: at}}), refused},
	} {
		if got := refusal(t, c.got); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// TestClusterOfTheMetrics: only a route of a route table leads to the agent's page. A listener that
// did so by itself would show it to everybody.
func TestClusterOfTheMetrics(t *testing.T) {
	const refused = "which leads to the metrics of the proxy's agent"
	at := scraping.Cluster
	action := &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: at}}
	mirror := &routev3.RouteAction{RequestMirrorPolicies: []*routev3.RouteAction_RequestMirrorPolicy{{Cluster: at}}}
	inline := &hcmv3.HttpConnectionManager{RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: ledBy(action).(*routev3.RouteConfiguration)}}
	for what, c := range map[string]struct {
		got  proto.Message
		want string // empty: it is accepted
	}{
		"a route":               {ledBy(action), ""},
		"a copy of requests":    {ledBy(mirror), refused},
		"a listener's own":      {through(t, inline), refused},
		"a connection":          {through(t, &tcpv3.TcpProxy{ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: at}}), refused},
		"a logger":              {logging(t, &otelv3.OpenTelemetryAccessLogConfig{GrpcService: serviceAt(at), LogName: "x"}), refused},
		"the filter that asks":  {listening(t, asks(at)), refused},
		"a cluster of its name": {&clusterv3.Cluster{Name: at}, "which is the bootstrap's"},
		"endpoints for it":      {&endpointv3.ClusterLoadAssignment{ClusterName: at}, refused},
	} {
		if got := refusal(t, c.got); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// TestRequestsDoNotChooseClusters: a header that names the cluster of its request could name one
// that the agent has made, which no text of the configuration shows.
func TestRequestsDoNotChooseClusters(t *testing.T) {
	const refused = "it has each request choose the cluster that it is led to"
	state := func(key string) proto.Message {
		return listening(t, &statev3.Config{OnRequestHeaders: []*factsv3.FilterStateValue{{Key: &factsv3.FilterStateValue_ObjectKey{ObjectKey: key}}}})
	}
	two := func(of ...*factsv3.FilterStateValue) proto.Message {
		return listening(t, &statev3.Config{OnRequestHeaders: of})
	}
	directed := func(change func(*factsv3.FilterStateValue), group string) proto.Message {
		v := directing.Choice(group)
		change(v)
		return two(v)
	}
	for name, c := range map[string]struct {
		got  proto.Message
		want string
	}{
		"a route": {ledBy(&routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_ClusterHeader{ClusterHeader: "x-to"}}), refused},
		"a share of a route": {ledBy(&routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_WeightedClusters{WeightedClusters: &routev3.WeightedCluster{
			Clusters: []*routev3.WeightedCluster_ClusterWeight{{ClusterHeader: "x-to"}},
		}}}), refused},
		"a mirror":     {ledBy(&routev3.RouteAction{RequestMirrorPolicies: []*routev3.RouteAction_RequestMirrorPolicy{{ClusterHeader: "x-to"}}}), refused},
		"a connection": {state("envoy.tcp_proxy.cluster"), refused},
		"the port to which a connection was redirected": {directed(func(*factsv3.FilterStateValue) {}, "@direct_access:a"), ""},
		"a cluster that is not for that":                {directed(func(*factsv3.FilterStateValue) {}, "@logs"), refused},
		"something of the client before":                {directed(func(*factsv3.FilterStateValue) {}, "@direct_access:%REQUESTED_SERVER_NAME%"), refused},
		"an upstream that shares it":                    {directed(func(v *factsv3.FilterStateValue) { v.SharedWithUpstream = factsv3.FilterStateValue_ONCE }, "@direct_access"), refused},
		"another one after one that was redirected":     {two(directing.Choice("@direct_access"), &factsv3.FilterStateValue{Key: &factsv3.FilterStateValue_ObjectKey{ObjectKey: "envoy.tcp_proxy.cluster"}}), refused},
		"another value":                                 {state(contract.StateOAuth), ""},
	} {
		if got := refusal(t, c.got); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := refusal(t, ledBy(&routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: bootstrap.ADSCluster}})); !strings.Contains(got, "the proxy's agent") {
		t.Errorf("the relay: %q", got)
	}
}

// modes are the ways to have the filter, and what each has in listeners and in route tables.
func modes(t *testing.T) map[contract.Mode][]proto.Message {
	ours := &modulev3.DynamicModuleConfig{Name: contract.FilterName}
	each := func(inListener, onRoute proto.Message) []proto.Message {
		return []proto.Message{listening(t, inListener), route(nil, map[string]*anypb.Any{"f": pack(t, onRoute)})}
	}
	return map[contract.Mode][]proto.Message{
		contract.ModeModule:   each(&filterv3.DynamicModuleFilter{DynamicModuleConfig: ours}, &filterv3.DynamicModuleFilterPerRoute{DynamicModuleConfig: ours}),
		contract.ModeExtAuthz: each(asks(contract.AuthzCluster), &authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_Disabled{Disabled: true}}),
		contract.ModeGolang:   each(&golangv3.Config{LibraryId: "m", LibraryPath: ownLibrary, PluginName: "m"}, &golangv3.ConfigsPerRoute{}),
	}
}

// TestFilterOfAnotherMode: whoever poses as a gateway with another filter.mode has tables made
// whose chains the filter of the true one does not see. Its agent takes none of them.
func TestFilterOfAnotherMode(t *testing.T) {
	for of, messages := range modes(t) {
		for _, m := range messages {
			for _, mode := range []contract.Mode{contract.ModeModule, contract.ModeExtAuthz, contract.ModeGolang} {
				_, err := admit(t, machine.Bounds{Library: ownLibrary, Mode: &mode}, m)
				if want := "the filter of filter.mode " + of.String(); (err == nil) != (of == mode) || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "runs with filter.mode "+mode.String())) {
					t.Errorf("%T with %s for a proxy with %s: %v", m, of, mode, err)
				}
			}
			if _, err := admit(t, machine.Bounds{Library: ownLibrary}, m); err != nil {
				t.Errorf("%T with %s for a proxy of which that is not known: %v", m, of, err)
			}
		}
	}
}

// TestWhatIsMadeForAModeIsTaken: the configuration that a control plane makes for a gateway of a
// mode is taken by an agent of that mode, and its listeners and tables by no other.
func TestWhatIsMadeForAModeIsTaken(t *testing.T) {
	all := map[contract.Mode]string{contract.ModeModule: "basic.golden.yaml", contract.ModeExtAuthz: "modes.extauthz.golden.yaml", contract.ModeGolang: "modes.golang.golden.yaml"}
	for of, file := range all {
		for mode := range all {
			bounds := machine.Bounds{Roots: "/etc/ssl/certs/ca-certificates.crt", Library: contract.GolangLibrary, Mode: &mode}
			for _, m := range golden(t, file) {
				_, cluster := m.(*clusterv3.Cluster)
				if _, err := admit(t, bounds, m); (err == nil) != (of == mode || cluster) {
					t.Errorf("%s: %T for an agent with %s: %v", file, m, mode, err)
				}
			}
		}
	}
}

// golden reads the clusters, listeners and tables of a golden file of gateways.
func golden(t *testing.T, file string) (out []proto.Message) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "plan", "edge", "testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var lists map[string]json.RawMessage
	if err := yaml.Unmarshal(text, &lists); err != nil {
		t.Fatal(err)
	}
	for key, empty := range map[string]proto.Message{"Cluster": new(clusterv3.Cluster), "Listener": new(listenerv3.Listener), "RouteConfiguration": new(routev3.RouteConfiguration)} {
		var list []json.RawMessage
		if err := json.Unmarshal(lists[key], &list); err != nil || len(list) == 0 {
			t.Fatalf("%s: %d of %s, %v", file, len(list), key, err)
		}
		for _, one := range list {
			m := proto.Clone(empty)
			if err := protojson.Unmarshal(one, m); err != nil {
				t.Fatal(err)
			}
			out = append(out, m)
		}
	}
	return out
}
