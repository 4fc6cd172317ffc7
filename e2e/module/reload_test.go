package module

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// Updates replace the listener again and again while old configurations drain:
// both generations work, nothing is freed twice or kept.
func TestConfigurationsCoexistAndAreFreed(t *testing.T) {
	const updates = 5
	dir := t.TempDir()
	file := filepath.Join(dir, "lds.json")
	var listener object
	publish := func(version int) {
		t.Helper()
		// Something of the listener itself and a route's chain change each time.
		manager(object{"static_resources": object{"listeners": []any{listener}}})["stat_prefix"] = fmt.Sprintf("v%d", version)
		chain := fmt.Sprintf(`{"route":"r%d","plugins":[{"id":"p","oauth2":{"header":"authorization","global":true}}]}`, version)
		vh := virtualHost(object{"static_resources": object{"listeners": []any{listener}}})
		vh["routes"].([]any)[0].(object)["typed_per_filter_config"] = chained(chain)
		listener["@type"] = "type.googleapis.com/envoy.config.listener.v3.Listener"
		data, err := json.Marshal(object{"version_info": fmt.Sprint(version), "resources": []any{listener}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file+".new", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, options{args: []string{"--drain-time-s", "1"}, edit: func(config object) {
		addRoute(config, object{"match": object{"prefix": "/global"}, "route": object{"cluster": "upstream"}})
		resources := config["static_resources"].(object)
		listener = at(resources, "listeners", 0).(object)
		delete(resources, "listeners")
		config["node"] = object{"id": "test", "cluster": "test"}
		config["dynamic_resources"] = object{"lds_config": object{
			"resource_api_version": "V3", "path_config_source": object{"path": file}}}
		publish(0)
	}})
	global := record()
	global.Service = ""
	w.put(t, "global-token", global)
	eventually(t, "the first listener answers", func() bool {
		resp, err := w.client.Get(w.base + "/healthz") //nolint:noctx // bounded by the client
		if err != nil {
			return false
		}
		closing(t, resp.Body)
		return resp.StatusCode == http.StatusOK
	})
	for version := 1; version <= updates; version++ {
		publish(version)
		name := fmt.Sprintf("http.v%d.downstream_rq_total", version)
		eventually(t, "the update is in force", func() bool {
			w.get(t, "/", "Authorization", bearer).seen(t)
			w.get(t, "/global/x", "Authorization", "Bearer global-token").seen(t)
			return w.stat(t, name) > 0
		})
	}
	eventually(t, "old configurations are freed", func() bool {
		c := w.counters(t)
		return c.ConfigsCreated == updates+1 && c.ConfigsCreated-c.ConfigsFreed == 1 && c.RoutesCreated-c.RoutesFreed == 2
	})
	w.get(t, "/", "Authorization", bearer).seen(t)
	w.envoy.alive(t)
}

// A configuration of the filter that does not parse is rejected, and the running
// one stays.
func TestUnparsableFilterConfigurationIsRejected(t *testing.T) {
	w := newWorld(t, options{edit: func(config object) {
		data, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		var copied object
		if err := json.Unmarshal(data, &copied); err != nil {
			t.Fatal(err)
		}
		filterConfig(copied)["listner_strips"] = true
		bad := at(copied, "static_resources", "listeners", 0).(object)
		bad["name"], bad["@type"] = "bad", "type.googleapis.com/envoy.config.listener.v3.Listener"
		file := filepath.Join(t.TempDir(), "lds.json")
		data, err = json.Marshal(object{"version_info": "1", "resources": []any{bad}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		config["node"] = object{"id": "test", "cluster": "test"}
		config["dynamic_resources"] = object{"lds_config": object{
			"resource_api_version": "V3", "path_config_source": object{"path": file}}}
	}})
	if n := w.stat(t, "listener_manager.lds.update_rejected"); n != 1 {
		t.Errorf("rejected updates: %d\n%s", n, w.envoy.output())
	}
	w.get(t, "/", "Authorization", bearer).seen(t)
}
