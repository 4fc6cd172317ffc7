package golanghost

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	golangv3 "github.com/envoyproxy/go-control-plane/contrib/envoy/extensions/filters/http/golang/v3alpha"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/filtertest"
)

// generated is what the control plane makes for a gateway with filter.mode golang.
const generated = "../../../xds/plan/edge/testdata/modes.golang.golden.yaml"

// statuses are the answers of routes to a request without credentials that is no call of gRPC,
// where they are not 401.
var statuses = map[string]int{"calls": http.StatusUnsupportedMediaType, "headers": http.StatusForbidden}

// The library reads what the control plane makes for it: the configuration of each listener,
// and that of each route by its name. Every chain decides, a route that says that it has none
// is open, and one that says nothing is refused.
func TestGeneratedConfiguration(t *testing.T) { both(t, testGeneratedConfiguration) }

func testGeneratedConfiguration(t *testing.T, way way) {
	listeners, routes := parts(t)
	open := routes["open"]
	for name, r := range routes {
		if strings.Contains(r.String(), contract.GolangDisabled) {
			delete(routes, name)
		}
	}
	if len(listeners) == 0 || len(routes) != 4 || open == nil {
		t.Fatalf("%d listeners, routes %v, an open one %v", len(listeners), routes, open)
	}
	e := startEnvoy(t, plugin, way)
	for _, l := range listeners {
		if l.GetPluginName() != contract.FilterName || l.GetLibraryId() != contract.FilterName || l.GetMergePolicy() != golangv3.Config_MERGE_VIRTUALHOST_ROUTER_FILTER {
			t.Errorf("listener: %v", l)
		}
		listener := e.message(false, l.GetPluginConfig())
		if o := e.run(&asked{config: listener, protocol: http11, headers: getting("/open")}); o.Outcome != filtertest.Refused || o.Status != http.StatusServiceUnavailable {
			t.Errorf("on a route that says nothing: %+v", o)
		}
		unchained := e.merge(listener, e.message(true, open.GetPluginsConfig()[contract.FilterName].GetConfig()))
		if o := e.run(&asked{config: unchained, protocol: http11, headers: getting("/open")}); o.Outcome != filtertest.Proxied {
			t.Errorf("without a chain: %+v", o)
		}
		// The listener removes what clients may not say from headers, and the library from trailers.
		said := &asked{config: unchained, protocol: http11, body: "text", hasBody: true, trailers: [][2]string{{"x-consumer-id", "root"}, {"x-other", "1"}}, headers: getting("/open")}
		if o := e.run(said); o.Outcome != filtertest.Proxied || e.trailers.Get("x-consumer-id") != "" || e.trailers.Get("x-other") != "1" {
			t.Errorf("trailers %v: %+v", e.trailers, o)
		}
		for name, r := range routes {
			route := e.merge(listener, e.message(true, r.GetPluginsConfig()[contract.FilterName].GetConfig()))
			want, own := statuses[name]
			if !own {
				want = http.StatusUnauthorized
			}
			if o := e.run(&asked{config: route, protocol: http2, headers: getting("/x")}); o.Outcome != filtertest.Refused || o.Status != want {
				t.Errorf("%s: %+v", name, o)
			}
		}
	}
}

func getting(path string) [][2]string {
	return [][2]string{{":path", path}, {":method", "GET"}, {":scheme", "http"}, {":authority", "a.test"}}
}

// parts are the messages of Envoy's filter for Go in the generated configuration, which their
// own rules accept. Routes are by their names.
func parts(t *testing.T) (listeners []*golangv3.Config, routes map[string]*golangv3.ConfigsPerRoute) {
	t.Helper()
	text, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	var root any
	if err := yaml.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	routes = map[string]*golangv3.ConfigsPerRoute{}
	var walk func(node any)
	walk = func(node any) {
		switch node := node.(type) {
		case []any:
			for _, n := range node {
				walk(n)
			}
		case map[string]any:
			if node["name"] == contract.GolangFilter {
				listeners = append(listeners, decoded(t, node["typed_config"], &golangv3.Config{}))
			}
			if per, ok := node["typed_per_filter_config"].(map[string]any); ok {
				whole, _ := node["name"].(string)
				name, _, _ := strings.Cut(whole, "~")
				routes[name] = decoded(t, per[contract.GolangFilter], &golangv3.ConfigsPerRoute{})
			}
			for _, n := range node {
				walk(n)
			}
		}
	}
	walk(root)
	return listeners, routes
}

// decoded is a message out of its form in JSON.
func decoded[M interface {
	proto.Message
	ValidateAll() error
}](t *testing.T, node any, to M) M {
	t.Helper()
	object, _ := node.(map[string]any)
	delete(object, "@type")
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
	if err := to.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	return to
}
