package assembly

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/declare"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi/meshapitest"
	"github.com/meshgate/meshgate/xds/policy/all"
)

// TestMeshSyncSettles: a control plane whose zone has a name, and which completes documents and makes others
// beside them as it does in operation, has nothing left to do for a file that was synced, of whatever kind its
// document is.
func TestMeshSyncSettles(t *testing.T) {
	cp := openInZone(t, t.TempDir(), "east", "")
	ctx, cancel := context.WithCancel(context.Background())
	looped := make(chan error, 1)
	go func() { looped <- cp.loop.Run(ctx) }()
	server := httptest.NewServer(cp.meshAPI(cp.adminAPI().Revisions))
	t.Cleanup(func() {
		server.Close()
		cancel()
		<-looped
		cp.close(context.Background())
	})
	kinds := slices.Concat(mesh.Kinds(), all.Kinds())
	run := func(args ...string) (string, int) {
		out, err := clitest.Execute(t, declare.MeshCommand(kinds), append([]string{"--mesh-addr", server.URL}, args...)...)
		if err != nil {
			out += err.Error()
		}
		return out, clitest.Code(err)
	}
	f := filepath.Join(t.TempDir(), "mesh.yaml")
	for _, k := range kinds {
		if k.Document == nil || k.ReadOnly {
			continue
		}
		taken := 0
		for _, sample := range meshapitest.Samples(t, "../..", k) {
			if sample["name"] = "x"; sample["mesh"] != nil {
				sample["mesh"] = mesh.Default
			}
			text, err := json.Marshal(sample)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(f, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, code := run("sync", f); code != 0 {
				t.Logf("%s: %s", k.Document.Type, out) // such as a mesh whose secrets are not there
				continue
			}
			taken++
			before := cp.store.Revision()
			for _, command := range []string{"diff", "sync"} {
				if out, code := run(command, f, "--non-zero-exit-code"); code != 0 {
					t.Errorf("%s of a %s: exit code %d\n%s", command, k.Document.Type, code, out)
				}
			}
			if now := cp.store.Revision(); now != before {
				t.Errorf("%s: revision %d became %d", k.Document.Type, before, now)
			}
		}
		if taken == 0 {
			t.Errorf("no sample of a %s was taken", k.Document.Type)
		}
	}
}
