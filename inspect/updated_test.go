package inspect

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/retry"
)

// TestUpdatesWinNothing: of equal policies the one created last is chosen. An update keeps the
// time of creation, so it changes what the policy says and not which one is chosen; a policy that
// is made anew wins. The store keeps the times and the view follows it.
func TestUpdatesWinNothing(t *testing.T) {
	now := time.Unix(0, 0)
	db := memstore.Open(memstore.Options{Now: func() time.Time { return now }})
	t.Cleanup(func() { _ = db.Close() })
	write := func(fn func(store.Tx) error) {
		t.Helper()
		now = now.Add(time.Minute)
		if _, err := db.Update(t.Context(), model.Config, fn); err != nil {
			t.Fatal(err)
		}
	}
	spec := func(retries uint32) *retry.Spec {
		every := []mesh.Selector{{Match: mesh.Tags{mesh.TagService: mesh.AnyValue}}}
		return &retry.Spec{
			Connection: mesh.Connection{Sources: every, Destinations: every}, Conf: &retry.Conf{HTTP: &retry.HTTP{NumRetries: &retries}},
		}
	}
	resource := func(name string, retries uint32) *model.Resource {
		return &model.Resource{Kind: retry.Kind, Scope: "demo", Name: name, Spec: spec(retries)}
	}
	create := func(r *model.Resource) {
		t.Helper()
		write(func(tx store.Tx) error { _, err := tx.Create(r); return err })
	}
	create(&model.Resource{Kind: mesh.Meshes, Name: "demo", Spec: &mesh.Mesh{}})
	n := serving("10.0.0.1", "web", mesh.ProtocolHTTP)
	n.Outbound = []mesh.Outbound{{Port: 10001, Service: "web"}}
	create(&model.Resource{Kind: mesh.Dataplanes, Scope: "demo", Name: "web-1", Spec: &mesh.Dataplane{Networking: n}})
	create(resource("first", 1))
	create(resource("second", 2))
	p := over(t, db, all.Kinds())
	expect := func(what, name, created, modified string) {
		t.Helper()
		doc := shown(t, func(show func(any) error) error { return p.Of(t.Context(), "demo", "web-1", false, show) })
		want := parsed(t, `{"Retry":[{"type":"Retry","mesh":"demo","name":"`+name+`","creationTime":"1970-01-01T00:0`+created+`:00Z","modificationTime":"1970-01-01T00:0`+modified+`:00Z"}]}`)
		items := doc.(map[string]any)["items"].([]any)
		if d := cmp.Diff(want, items[len(items)-1].(map[string]any)["matchedPolicies"]); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	expect("both are new", "second", "4", "4")
	write(func(tx store.Tx) error { _, err := tx.Update(resource("first", 3), 0); return err })
	expect("the first was updated", "second", "4", "4")
	write(func(tx store.Tx) error { _, err := tx.Update(resource("second", 4), 0); return err })
	expect("the second was updated", "second", "4", "6")
	write(func(tx store.Tx) error { return tx.Delete(retry.Kind, "demo", "first", 0) })
	create(resource("first", 5))
	expect("the first was made anew", "first", "8", "8")
}
