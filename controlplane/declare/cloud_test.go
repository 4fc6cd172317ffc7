package declare

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const planeID = "c0000000-0000-4000-8000-000000000001"

// cloudRig is a control plane in a cloud API, which wants a token.
func cloudRig(t *testing.T, kind string) *rig {
	t.Helper()
	r := newRig(t, "/v2/control-planes/"+planeID+"/core-entities")
	r.cloud = "team-a"
	r.before = func(w http.ResponseWriter, q *http.Request) bool {
		if q.Header.Get("Authorization") != "Bearer pat" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"status":401,"title":"Unauthorized","detail":"A valid token is needed"}`))
			return true
		}
		if q.URL.Path != "/v2/control-planes" {
			return false
		}
		data := ""
		if q.URL.Query().Get("filter[name][eq]") == r.cloud {
			data = fmt.Sprintf(`{"id":%q,"name":%q,"config":{"cluster_type":%q}}`, planeID, r.cloud, kind)
		}
		_, _ = fmt.Fprintf(w, `{"data":[%s],"meta":{"page":{"number":1,"size":10,"total":1}}}`, data)
		return true
	}
	return r
}

// TestCloud: a control plane in the cloud is found by its name, and is the same as a gateway
// but for the paths.
func TestCloud(t *testing.T) {
	r := cloudRig(t, "CLUSTER_TYPE_HYBRID")
	t.Setenv("MESHGATE_CLOUD_TOKEN", "pat")
	f := file(t, whole)
	r.must(t, "sync", f)
	for _, w := range r.writes {
		if !strings.Contains(w, " /v2/control-planes/"+planeID+"/core-entities/") {
			t.Errorf("%s", w)
		}
	}
	dump := r.must(t, "dump")
	if !strings.Contains(dump, "_cloud:\n  control_plane_name: team-a\n") {
		t.Error(dump)
	}
	if out := r.must(t, "diff", file(t, dump), "--non-zero-exit-code"); !strings.HasPrefix(out, "Summary:") {
		t.Error(out)
	}
	// The section is as good as the flag, also under the name of another tool.
	other := file(t, strings.Replace(dump, "_cloud:", "_konnect:", 1))
	r.must(t, "diff", other, "--non-zero-exit-code")
	if out := r.must(t, "ping"); !strings.Contains(out, "Successfully connected to control plane team-a") {
		t.Error(out)
	}
	for want, args := range map[string][]string{
		"_workspace set in config file. Workspaces are not supported": {"sync", file(t, "_workspace: default\n")},
		"--workspace flag is not supported":                           {"dump", "--workspace", "default"},
		"is not available for control planes in the cloud":            {"validate", f},
		"control_plane_name in the file is 'other'":                   {"diff", file(t, "_cloud: {control_plane_name: other}\n")},
	} {
		if out, code := r.run(t, args...); code != 1 || !strings.Contains(out, want) {
			t.Errorf("%v: %d %s", args, code, out)
		}
	}
	r.cloud = "nobody"
	r.must(t, "reset", "--yes")
}

// TestCloudRefusals: nothing is written to a group, to nobody, and without a token.
func TestCloudRefusals(t *testing.T) {
	r := cloudRig(t, typeGroup)
	f := file(t, whole)
	if out, code := r.run(t, "sync", f); code != 1 || !strings.Contains(out, "wants a token") || !strings.Contains(out, "--cloud-token-file") {
		t.Errorf("%d %s", code, out)
	}
	if out, code := r.run(t, "sync", f, "--cloud-token", "wrong"); code != 1 || strings.Contains(out, "admin.token") {
		t.Errorf("%d %s", code, out)
	}
	t.Setenv("MESHGATE_CLOUD_TOKEN", "pat")
	for _, args := range [][]string{{"sync", f}, {"diff", f}, {"reset", "--yes"}} {
		if out, code := r.run(t, args...); code != 1 || !strings.Contains(out, "control plane 'team-a' is a group: configuration cannot be synced to a group (migration rule 2)") {
			t.Errorf("%v: %d %s", args, code, out)
		}
	}
	if len(r.writes) > 0 {
		t.Errorf("%v", r.writes)
	}
	if out, code := r.run(t, "sync", f, "--cloud-token-file", "also"); code != 1 || !strings.Contains(out, "leave one of them out") {
		t.Errorf("%d %s", code, out)
	}
}

// TestControlPlaneNotFound: a name that is nobody's is not the default one's.
func TestControlPlaneNotFound(t *testing.T) {
	r := cloudRig(t, "CLUSTER_TYPE_HYBRID")
	t.Setenv("MESHGATE_CLOUD_TOKEN", "pat")
	if out, code := r.run(t, "diff", file(t, whole), "--cloud-control-plane-name", "no-such"); code == 0 {
		t.Errorf("%d %s", code, out)
	}
	r.cloud = ""
	t.Setenv("MESHGATE_CLOUD_ADDR", r.url)
	c := GatewayCommand()
	c.SetArgs([]string{"dump"})
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "control plane not found: default") {
		t.Errorf("%v", err)
	}
}
