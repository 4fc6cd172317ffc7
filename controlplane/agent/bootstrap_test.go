package agent

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/xds/bootstrap"
)

// TestBootstrapIsTheAgents: a sidecar takes from the control plane's answer only the
// description of its node. The agent itself chooses sockets and the places of files.
func TestBootstrapIsTheAgents(t *testing.T) {
	p := newJoinPlane(t)
	o, _ := p.options(t)
	a := newAgent(t, o)
	own := bootstrap.Config{
		NodeID: "default.web-1", Cluster: "web", Metadata: map[string]any{"version": map[string]any{"n": 1.5}, "features": []any{"a"}},
		Relay: a.dir.relay, Password: a.password, AdminSocket: a.dir.admin, Logs: a.dir.logs, Metrics: a.dir.metrics,
	}
	render := func(c bootstrap.Config) []byte {
		t.Helper()
		text, err := bootstrap.Render(c)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	other := own
	other.NodeID, other.Relay, other.Password, other.AdminSocket, other.AdminPort, other.Logs = "default.db-1", "/tmp/thief.sock", "the thief's", "", 9901, "/tmp/thief-logs.sock"
	other.Metrics = "/tmp/thief-metrics.sock"
	hostile := strings.Replace(string(render(other)), "admin:\n", "flags_path: /etc/x\nadmin:\n  access_log_path: /etc/cron.d/x\n", 1)
	for name, told := range map[string][]byte{"what it asked for": render(own), "something else": []byte(hostile)} {
		got, err := a.proxy().bootstrap(&enrol.Answer{Node: "default.web-1", Bootstrap: told})
		if diff := cmp.Diff(string(render(own)), string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	for _, told := range []string{"", "node: 1", "\t"} {
		if text, err := a.proxy().bootstrap(&enrol.Answer{Bootstrap: []byte(told)}); err == nil {
			t.Errorf("%q makes %s", told, text)
		}
	}
}
