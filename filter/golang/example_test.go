package golang

import (
	"os"
	"testing"

	golangv3 "github.com/envoyproxy/go-control-plane/contrib/envoy/extensions/filters/http/golang/v3alpha"
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/host/hosttest"
)

// ruled is a message of Envoy's API with its rules.
type ruled interface {
	proto.Message
	ValidateAll() error
}

func unpack[M ruled](t *testing.T, from *anypb.Any, to M) M {
	t.Helper()
	if err := from.UnmarshalTo(to); err != nil {
		t.Fatal(err)
	}
	if err := to.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	return to
}

// The example is a configuration that Envoy's own messages accept, and the filter reads it:
// one route is not checked, and the other one is.
func TestExample(t *testing.T) {
	text, err := os.ReadFile("../../docs/examples/golang/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		t.Fatal(err)
	}
	var b bootstrapv3.Bootstrap
	if err := protojson.Unmarshal(asJSON, &b); err != nil {
		t.Fatal(err)
	}
	if err := b.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	manager := unpack(t, b.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig(), &hcmv3.HttpConnectionManager{})
	filter := unpack(t, manager.GetHttpFilters()[0].GetTypedConfig(), &golangv3.Config{})
	if filter.GetPluginName() != contract.FilterName {
		t.Errorf("the library has no plugin %q", filter.GetPluginName())
	}
	h := host.New(host.NewLogger(&hosttest.Log{}), func(*host.Host, *contract.Settings, string) (host.Tokens, error) {
		return hosttest.NewTokens("good"), nil
	})
	p := NewParser(h)
	listener, err := p.Parse(filter.GetPluginConfig(), noCallbacks{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"/healthz": false, "/": true}
	for _, r := range manager.GetRouteConfig().GetVirtualHosts()[0].GetRoutes() {
		at := r.GetMatch().GetPath() + r.GetMatch().GetPrefix()
		c, _ := listener.(*config)
		if c = merged(t, p, c, r); c.checks() != want[at] {
			t.Errorf("%s: checked is %t", at, c.checks())
		}
		if c.checks() && h.Program(c.program).Fault() != "" {
			t.Errorf("%s: %s", at, h.Program(c.program).Fault())
		}
		delete(want, at)
	}
	if len(want) > 0 {
		t.Errorf("routes are missing: %v", want)
	}
}

// merged is the configuration of a route.
func merged(t *testing.T, p interface{ Merge(parent, child any) any }, listener *config, r *routev3.Route) *config {
	t.Helper()
	message := r.GetTypedPerFilterConfig()["envoy.filters.http.golang"]
	if message == nil {
		return listener
	}
	route := unpack(t, message, &golangv3.ConfigsPerRoute{}).GetPluginsConfig()[contract.FilterName]
	child, err := NewParser(listener.host).Parse(route.GetConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p.Merge(listener, child).(*config)
}
