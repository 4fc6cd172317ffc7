package declare

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoDumpOfAGroup: a group has no entities of its own. A file that says so would delete everything of
// whoever it is synced to, so none is written, and the members are named.
func TestNoDumpOfAGroup(t *testing.T) {
	for members, want := range map[string]string{
		`{"name":"team-b"},{"name":"team-c"}`: "dump its members: 'team-b', 'team-c'",
		"":                                    "dump its members: it has none",
	} {
		r := cloudRig(t, typeGroup)
		t.Setenv("MESHGATE_CLOUD_TOKEN", "pat")
		find := r.before
		r.before = func(w http.ResponseWriter, q *http.Request) bool {
			if q.URL.Path != "/v2/control-planes/"+planeID+"/group-memberships" {
				return find(w, q)
			}
			_, _ = w.Write([]byte(`{"data":[` + members + `],"meta":{"page":{"size":100,"next":null}}}`))
			return true
		}
		name := filepath.Join(t.TempDir(), "out.yaml")
		out, code := r.run(t, "dump", "-o", name)
		if code != 1 || !strings.Contains(out, "control plane 'team-a' is a group and has no configuration of its own") || !strings.Contains(out, want) {
			t.Errorf("%d %s", code, out)
		}
		if exists(name) {
			t.Errorf("there is a file: %s", read(t, name))
		}
	}
}
