package machine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"github.com/meshgate/meshgate/xds/machine"
)

// deep is a listener with a rule of so many negations, each a message in another one.
func deep(t *testing.T, negations int) *listenerv3.Listener {
	t.Helper()
	p := &rbacv3.Principal{Identifier: &rbacv3.Principal_Any{Any: true}}
	for range negations {
		p = &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: p}}
	}
	rule := &networkrbacv3.RBAC{StatPrefix: "deep", Rules: &rbacv3.RBAC{Policies: map[string]*rbacv3.Policy{"deep": {
		Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_Any{Any: true}}}, Principals: []*rbacv3.Principal{p},
	}}}}
	end := &tcpv3.TcpProxy{StatPrefix: "deep", ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: "nowhere"}}
	filter := func(name string, config *listenerv3.Filter_TypedConfig) *listenerv3.Filter {
		return &listenerv3.Filter{Name: name, ConfigType: config}
	}
	return &listenerv3.Listener{
		Name: "deep",
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 1},
		}}},
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{
			filter("envoy.filters.network.rbac", &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, rule)}),
			filter("envoy.filters.network.tcp_proxy", &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, end)}),
		}}},
	}
}

// TestDeeperThanEnvoyReads: what the agent admits is not too deep for Envoy, which would refuse
// everything that comes with it.
func TestDeeperThanEnvoyReads(t *testing.T) {
	deepest := 0
	for n := range 200 {
		if _, err := admit(t, machine.Bounds{}, deep(t, n)); err != nil {
			break
		}
		deepest = n
	}
	if deepest < 50 {
		t.Fatalf("%d negations are admitted, want at least 50", deepest)
	}
	if out, err := envoyReads(t, deepest); err != nil {
		t.Errorf("envoy refuses %d negations, which the agent admits: %v\n%s", deepest, err, out)
	}
	if _, err := envoyReads(t, 200); err == nil {
		t.Error("envoy reads 200 negations: the limit is no longer one")
	}
}

// envoyReads has Envoy judge a listener in its binary form, as it gets it over the network.
func envoyReads(t *testing.T, negations int) ([]byte, error) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "envoy.pb")
	body := bytesOf(t, &bootstrapv3.Bootstrap{StaticResources: &bootstrapv3.Bootstrap_StaticResources{Listeners: []*listenerv3.Listener{deep(t, negations)}}})
	if err := os.WriteFile(config, body, 0o600); err != nil {
		t.Fatal(err)
	}
	envoy := os.Getenv("ENVOY_PATH")
	if envoy == "" {
		envoy = filepath.Join("..", "..", ".tools", "envoy")
	}
	if _, err := os.Stat(envoy); err != nil {
		t.Fatalf("run 'make build' first: %v", err)
	}
	return exec.CommandContext(t.Context(), envoy, "--mode", "validate", "-c", config).CombinedOutput()
}
