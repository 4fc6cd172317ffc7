package edge

import (
	"path/filepath"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/machine"
	"github.com/meshgate/meshgate/xds/resource"
)

// Envoy accepts the access log in all its forms, and the clusters that it names exist.
func TestAccessLogsAreAccepted(t *testing.T) {
	for name, tc := range map[string]struct {
		settings accesslog.Settings
		roots    string
		loggers  int
		failures int
	}{
		"none":               {},
		"standard output":    {accesslog.Settings{Enabled: true}, "", 3, 0},
		"of a share":         {accesslog.Settings{Enabled: true, Drop: 990_000}, "", 3, 0},
		"own format":         {accesslog.Settings{Enabled: true, Format: `{"who":{"is":"%MESHGATE(consumer)%"},"at":"%START_TIME(%s.%3f)%","share":"50%%"}`}, "", 3, 0},
		"collector":          {accesslog.Settings{Enabled: true, Collector: "http://127.0.0.1:4317"}, "", 6, 0},
		"collector by name":  {accesslog.Settings{Enabled: true, Collector: "http://collector.test:4317"}, "", 6, 0},
		"collector in TLS":   {accesslog.Settings{Enabled: true, Collector: "https://collector.test:4317"}, testParams.RootsFile, 6, 0},
		"unreachable":        {accesslog.Settings{Enabled: true, Collector: "https://collector.test:4317"}, "-", 3, 1},
		"off with collector": {accesslog.Settings{Collector: "http://127.0.0.1:4317"}, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			params := testParams
			params.Log = tc.settings
			if tc.roots == "-" {
				params.RootsFile = ""
			}
			result := NewPlanner(params).Plan(newWorld(t).state())
			if len(result.Failures) != tc.failures {
				t.Errorf("failures: %v", result.Failures)
			}
			for _, res := range result.Set.All(resource.Listener) {
				if got := len(loggersOf(t, res)); got != tc.loggers {
					t.Errorf("%s has %d loggers, want %d", res.Name, got, tc.loggers)
				}
			}
			validate(t, result.Set)
			var own []*resource.Resource // as an agent with its own file accepts it
			for _, kind := range resource.Types {
				for _, res := range result.Set.All(kind) {
					body, err := machine.Bounds{AccessLog: filepath.Join(t.TempDir(), "log"), Roots: params.RootsFile}.Admit(string(kind), res.Body)
					if err != nil {
						t.Errorf("%s: %v", res.Name, err)
					}
					own = append(own, resource.New(kind, res.Name, body))
				}
			}
			secrets := map[string]string{}
			for _, name := range result.Set.Secrets() {
				secrets[name] = ""
			}
			accepted(t, resource.NewSet(own, secrets))
		})
	}
}

func loggersOf(t *testing.T, res *resource.Resource) []*accesslogv3.AccessLog {
	t.Helper()
	l := new(listenerv3.Listener)
	load(t, res, l)
	for _, f := range l.GetFilterChains()[0].GetFilters() {
		m := new(hcmv3.HttpConnectionManager)
		if f.GetTypedConfig().MessageIs(m) {
			if err := proto.Unmarshal(f.GetTypedConfig().GetValue(), m); err != nil {
				t.Fatal(err)
			}
			return m.GetAccessLog()
		}
	}
	t.Fatal("no connection manager")
	return nil
}

// Statistics and configurations show the names that users gave, and those names stay unique.
func TestNamesHaveNames(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, &gateway.Service{Name: "orders.v2", Protocol: "http", Host: "127.0.0.1", Port: 9000, Enabled: true})
	r := routeSpec(id(1, 0), "/a")
	r.Name = "list all"
	w.put(gateway.Routes, id(2, 0), 1, r)
	set := NewPlanner(testParams).Plan(w.state()).Set
	var stats []string
	for _, res := range set.All(resource.Cluster) {
		c := new(clusterv3.Cluster)
		load(t, res, c)
		stats = append(stats, c.GetAltStatName())
	}
	if want := "orders_v2_" + id(1, 0)[:8]; len(stats) != 2 || stats[0] != want && stats[1] != want {
		t.Errorf("statistics of clusters are called %q, want %s", stats, want)
	}
	if got, want := evaluate(t, set, request{method: "GET", host: "x", path: "/a"}), "to list_all~"+id(2, 0)+" /"; got != want {
		t.Errorf("the route is called %q, want %q", got, want)
	}
}
