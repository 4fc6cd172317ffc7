package gatewayapi_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/gatewayapi/tooltest"
)

// TestDeclarativeTool syncs a file into an empty API, then again without a change, and then
// with one entity changed and one removed. Other entities are left alone.
func TestDeclarativeTool(t *testing.T) {
	for _, workspace := range []string{"", "default"} {
		t.Run(workspace, func(t *testing.T) { declarativeTool(t, workspace) })
	}
}

func declarativeTool(t *testing.T, workspace string) {
	f := setup(t, nil)
	f.do("POST", "/consumers", `{"username":"somebody","tags":["by-hand"]}`)
	tl := &tooltest.Tool{T: t, Do: f.do, Tags: "managed", Workspace: workspace}
	file := tooltest.File()
	if writes, deletes := tl.Sync(file); writes != len(file) || deletes != 0 {
		t.Fatalf("first sync: %d writes, %d deletes: %v", writes, deletes, tl.Requests)
	}
	if writes, deletes := tl.Sync(file); writes != 0 || deletes != 0 {
		t.Fatalf("second sync: %d writes, %d deletes: %v", writes, deletes, tl.Requests)
	}
	file[3].Body["port"] = 8080
	file = slices.Delete(file, 2, 3)
	tl.Sync(file)
	want := []string{"PUT /services/" + file[2].Body["id"].(string), "DELETE /key-auths/c1000000-0000-4000-8000-000000000002"}
	if diff := cmp.Diff(want, tl.Requests); diff != "" {
		t.Errorf("third sync (-want +got):\n%s", diff)
	}
	if _, deletes := tl.Sync(nil); deletes != len(file) {
		t.Errorf("emptying: %d deletes: %v", deletes, tl.Requests)
	}
	if w := f.do("GET", "/consumers/somebody", ""); w.Code != 200 {
		t.Errorf("an entity without the tool's tag is gone: %d", w.Code)
	}
}
