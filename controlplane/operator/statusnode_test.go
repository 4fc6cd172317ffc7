package operator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/cli/clitest"
)

// serveDumps serves what a node reports and what it was sent, under a name with slashes.
func serveDumps(t *testing.T, own, sent string) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /nodes/{node}/xds", func(w http.ResponseWriter, r *http.Request) {
		texts := map[string]string{"proxy": own, "control-plane": sent}
		text, ok := texts[r.URL.Query().Get("source")]
		if r.PathValue("node") != "cp/default/gw-1" || !ok {
			w.WriteHeader(http.StatusNotFound)
			text = `{"message":"there is no\u001b[2J such node"}`
		}
		_, _ = fmt.Fprint(w, text)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

const listenerType = `"@type":"type.googleapis.com/envoy.config.listener.v3.Listener"`

const heldByEnvoy = `{"configs":[
 {"dynamic_active_clusters":[{"version_info":"aaaaaaaaaaaaaaaa","cluster":{"name":"a"}},{"version_info":"old","cluster":{"name":"b"}},{"version_info":"x","cluster":{"name":"gone"}}],
  "dynamic_warming_clusters":[{"version_info":"bbbbbbbbbbbbbbbb","cluster":{"name":"b"}},{"version_info":"cccc","cluster":{"name":"c"}}],
  "static_clusters":[{"cluster":{"name":"@ads_cluster"}}]},
 {"dynamic_listeners":[
  {"name":"grown","active_state":{"version_info":"old","listener":{` + listenerType + `,"name":"grown","stat_prefix":"s","per_connection_buffer_limit_bytes":7}}},
  {"name":"other","active_state":{"version_info":"old","listener":{` + listenerType + `,"name":"other","stat_prefix":"old"}}},
  {"name":"left","draining_state":{"version_info":"old"}}, {"name":"refused","error_state":{"details":"no"}}]},
 {"dynamic_route_configs":[{"version_info":"rrrr","route_config":{"name":"r"}}]},
 {"dynamic_endpoint_configs":[{"endpoint_config":{"cluster_name":"a"}}]},
 {"dynamic_active_secrets":[{"name":"s"}]}]}`

const sentToEnvoy = `{"source":"control plane: this is what the proxy was sent","configs":[
 {"type":"type.googleapis.com/envoy.config.cluster.v3.Cluster","resources":[
  {"name":"a","version":"aaaaaaaaaaaaaaaa","state":"acknowledged"},{"name":"b","version":"bbbbbbbbbbbbbbbb","state":"sent"},
  {"name":"c","version":"cccc","state":"sent"},{"name":"d","version":"dddd","state":"acknowledged"}]},
 {"type":"type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment","resources":[{"name":"a","version":"eeee","state":"acknowledged"}]},
 {"type":"type.googleapis.com/envoy.config.listener.v3.Listener","resources":[
  {"name":"grown","version":"llll","state":"acknowledged","config":{` + listenerType + `,"perConnectionBufferLimitBytes":7,"statPrefix":"s","name":"grown"}},
  {"name":"other","version":"mmmm","state":"acknowledged","config":{` + listenerType + `,"name":"other","statPrefix":"new"}},
  {"name":"refused","version":"nnnn","state":"rejected","error":"cannot bind\u001b[2J\n'127.0.0.2:80'"}]},
 {"type":"type.googleapis.com/envoy.config.route.v3.RouteConfiguration","resources":[{"name":"r","version":"rrrr","state":"acknowledged"}]},
 {"type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret","resources":[{"name":"s","version":"7","state":"acknowledged"},{"name":"u","version":"","state":"acknowledged"}]}]}`

const nodeTable = `TYPE                   NAME     VERSION       ENVOY    STATE         ERROR
Cluster                a        aaaaaaaaaaaa  same     acknowledged  -
Cluster                b        bbbbbbbbbbbb  warming  sent          -
Cluster                c        cccc          warming  sent          -
Cluster                d        dddd          absent   acknowledged  -
Cluster                gone     x             extra    -             -
ClusterLoadAssignment  a        eeee          held     acknowledged  -
Listener               grown    llll          same     acknowledged  -
Listener               other    mmmm          differs  acknowledged  -
Listener               refused  nnnn          absent   rejected      cannot bind?[2J '127.0.0.2:80'
RouteConfiguration     r        rrrr          same     acknowledged  -
Secret                 s        7             held     acknowledged  -
Secret                 u        -             absent   acknowledged  -
cp/default/gw-1: 12 resources: 8 acknowledged, 2 sent and not answered, 1 rejected; in Envoy 3 differ, 3 are absent, 1 extra
said by the proxy itself and the control plane
`

// TestStatusOfNode: what Envoy holds is compared with what it was sent, by content if Envoy
// does not report the version.
func TestStatusOfNode(t *testing.T) {
	address := serveDumps(t, heldByEnvoy, sentToEnvoy)
	got, err := clitest.Execute(t, StatusCommand(), "cp/default/gw-1", "--address", address)
	if diff := cmp.Diff(nodeTable, got); diff != "" || clitest.Code(err) != ExitUneven {
		t.Errorf("%v %s", err, diff)
	}
	got, err = clitest.Execute(t, StatusCommand(), "cp/default/gw-1", "--address", address, "-o", "json")
	if !strings.HasPrefix(got, `{"proxy":{"configs":[`) || !strings.Contains(got, `"controlPlane":{"source":`) || strings.Count(got, "\n") != 1 || clitest.Code(err) != ExitUneven {
		t.Errorf("%v %s", err, got)
	}
}

// TestStatusOfNodeWithFilesOfItsOwn: an agent replaces the files in what was sent by its
// own, and leaves out endpoints that lead where nothing may connect. If only filter chains
// of a listener changed, Envoy still shows the former version, so the content counts.
func TestStatusOfNodeWithFilesOfItsOwn(t *testing.T) {
	const (
		logger   = `{"name":"in","access_log":[{"name":"envoy.access_loggers.%s","typed_config":{"@type":"type.googleapis.com/envoy.extensions.access_loggers.%s"}}]`
		listener = `{"source":"control plane: x","configs":[{"type":"a.Listener","resources":[{"name":"in","version":"new","state":"acknowledged","config":%s}]}]}`
		held     = `{"configs":[{"dynamic_listeners":[{"name":"in","active_state":{"version_info":"old","listener":%s}}]}]}`
		clusters = `{"configs":[{"dynamic_active_clusters":[{"version_info":"1%s","cluster":{"name":"a"}}]}]}`
		cluster  = `{"source":"control plane: x","configs":[{"type":"a.Cluster","resources":[{"name":"a","version":"1","state":"acknowledged"}]}]}`
	)
	toStdout := "{" + listenerType + "," + fmt.Sprintf(logger, "stdout", "stream.v3.StdoutAccessLog")[1:] + "}"
	toFile := "{" + listenerType + "," + fmt.Sprintf(logger, "file", `file.v3.FileAccessLog","path":"/var/log/own.log`)[1:] + "}"
	for name, c := range map[string]struct {
		own, sent string
		code      int
		line      string
	}{
		"a file for standard output": {fmt.Sprintf(held, toFile), fmt.Sprintf(listener, toStdout), 0, "Listener  in    new      same   acknowledged"},
		"another listener": {
			fmt.Sprintf(held, strings.Replace(toFile, `"name":"in"`, `"name":"in","stat_prefix":"x"`, 1)), fmt.Sprintf(listener, toStdout), ExitUneven, "Listener  in    new      differs  acknowledged",
		},
		"endpoints left out": {fmt.Sprintf(clusters, "-part"), cluster, ExitUneven, "Cluster  a     1        partly  acknowledged"},
	} {
		got, err := clitest.Execute(t, StatusCommand(), "cp/default/gw-1", "--address", serveDumps(t, c.own, c.sent))
		if clitest.Code(err) != c.code || !strings.Contains(got, c.line) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

// TestStatusOfNodeInStep: the exit code tells whether everything is there. An Envoy that
// could not be asked is not in step, no matter what it answered before.
func TestStatusOfNodeInStep(t *testing.T) {
	const (
		own  = `{"configs":[{"dynamic_active_clusters":[{"version_info":"1","cluster":{"name":"a"}}]}]}`
		sent = `{"source":"control plane: x","configs":[{"type":"a.Cluster","resources":[{"name":"a","version":"1","state":"acknowledged"}]}]}`
		away = `{"source":"control plane: the proxy is away","configs":[]}`
	)
	for name, c := range map[string]struct {
		own, sent string
		code      int
		line      string
	}{
		"in step": {own, sent, 0, "Cluster  a     1        same   acknowledged  -"},
		"away":    {away, sent, ExitUneven, "said by control plane: the proxy is away"},
		"nothing": {`{"configs":[]}`, `{"source":"control plane: x","configs":[]}`, 0, "0 resources"},
		"refuses": {own, strings.Replace(sent, "acknowledged", "rejected", 1), ExitUneven, "1 rejected"},
	} {
		got, err := clitest.Execute(t, StatusCommand(), "cp/default/gw-1", "--address", serveDumps(t, c.own, c.sent))
		if clitest.Code(err) != c.code || !strings.Contains(got, c.line) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	got, _ := clitest.Execute(t, StatusCommand(), "cp/default/gw-1", "-o", "json", "--address", serveDumps(t, away, sent))
	if !strings.HasPrefix(got, `{"proxy":null,"controlPlane":{`) {
		t.Error(got)
	}
}

// TestStatusOfNodeFails: an error has a different exit code, and the texts of a server
// cannot move the cursor.
func TestStatusOfNodeFails(t *testing.T) {
	good, bad := serveDumps(t, heldByEnvoy, sentToEnvoy), serveDumps(t, "<html>", sentToEnvoy)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nobody":       {[]string{"default.nobody", "--address", good}, "the control plane refuses that (404): there is no?[2J such node"},
		"nobody there": {[]string{"a", "--address", "http://127.0.0.1:1"}, "nobody listens at http://127.0.0.1:1"},
		"no JSON":      {[]string{"cp/default/gw-1", "--address", bad}, "is not a control plane"},
		"watching":     {[]string{"cp/default/gw-1", "--address", good, "--watch"}, "--watch is for the list of all nodes"},
		"two":          {[]string{"a", "b", "--address", good}, "too much is given, 2 arguments instead of NAME"},
	} {
		got, err := clitest.Execute(t, StatusCommand(), c.args...)
		if clitest.Code(err) != cli.ExitFailed || !strings.Contains(err.Error(), c.want) || got != "" {
			t.Errorf("%s: %v, %q", name, err, got)
		}
	}
}
