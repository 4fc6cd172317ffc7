package module

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// reloads are versions of a listener that Envoy takes from a file.
type reloads struct {
	t        *testing.T
	file     string
	listener object
	// names is how many different names the statistics of the versions have.
	names int
}

// edit moves the listener of a configuration into the file.
func (r *reloads) edit(config object) {
	resources := config["static_resources"].(object)
	r.listener = at(resources, "listeners", 0).(object)
	delete(resources, "listeners")
	config["node"] = object{"id": "test", "cluster": "test"}
	config["dynamic_resources"] = object{"lds_config": object{
		"resource_api_version": "V3", "path_config_source": object{"path": r.file}}}
	r.publish(0)
}

// name is the prefix of the statistics of a version.
func (r *reloads) name(version int) string { return fmt.Sprintf("v%d", version%r.names) }

// publish replaces the listener. Something of the listener itself and the chain of
// its first route change each time.
func (r *reloads) publish(version int) {
	r.t.Helper()
	config := object{"static_resources": object{"listeners": []any{r.listener}}}
	manager(config)["stat_prefix"] = r.name(version)
	chain := fmt.Sprintf(`{"route":"r%d","plugins":[{"id":"p","oauth2":{"header":"authorization","global":true}}]}`, version)
	virtualHost(config)["routes"].([]any)[0].(object)["typed_per_filter_config"] = chained(chain)
	r.listener["@type"] = "type.googleapis.com/envoy.config.listener.v3.Listener"
	data, err := json.Marshal(object{"version_info": fmt.Sprint(version), "resources": []any{r.listener}})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.file+".new", data, 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(r.file+".new", r.file); err != nil {
		r.t.Fatal(err)
	}
}

// start makes a world whose listener comes from the file, with a route for tokens of
// any service, and waits until it answers.
func (r *reloads) start(o options) *world {
	r.t.Helper()
	more := o.edit
	o.args = append(o.args, "--drain-time-s", "1")
	o.edit = func(config object) {
		if more != nil {
			more(config)
		}
		addRoute(config, object{"match": object{"prefix": "/global"}, "route": object{"cluster": "upstream"}})
		r.edit(config)
	}
	w := newWorld(r.t, o)
	global := record()
	global.Service = ""
	w.put(r.t, "global-token", global)
	eventually(r.t, "the first listener answers", func() bool {
		resp, err := w.client.Get(w.base + "/healthz") //nolint:noctx // bounded by the client
		if err != nil {
			return false
		}
		closing(r.t, resp.Body)
		return resp.StatusCode == http.StatusOK
	})
	return w
}

// update publishes a version and asks until it is in force.
func (r *reloads) update(w *world, version int) {
	r.t.Helper()
	name := "http." + r.name(version) + ".downstream_rq_total"
	before := w.stat(r.t, name)
	r.publish(version)
	eventually(r.t, "the update is in force", func() bool {
		w.get(r.t, "/", "Authorization", bearer).seen(r.t)
		w.get(r.t, "/global/x", "Authorization", "Bearer global-token").seen(r.t)
		return w.stat(r.t, name) > max(before, 0)
	})
}

// Updates replace the listener again and again while old configurations drain:
// both generations work, nothing is freed twice or kept.
func TestConfigurationsCoexistAndAreFreed(t *testing.T) {
	const updates = 5
	r := &reloads{t: t, file: filepath.Join(t.TempDir(), "lds.json"), names: updates + 1}
	w := r.start(options{})
	for version := 1; version <= updates; version++ {
		r.update(w, version)
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
