package assembly

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// A revision that its scopes have not settled does not count as published, even if a newer
// one was published last and no proxy waits. A mesh may not yet have taken a write to a
// control plane that it looks at.
func TestUnsettledRevisionIsNotPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, log, snaps := memstore.New(), slog.New(slog.DiscardHandler), snapshot.New()
		views := view.New(db, nil, log)
		defer func() {
			views.Close()
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}()
		c, err := db.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{
				Kind: gateway.Services, Scope: model.DefaultControlPlane, Name: "00000000-0000-4000-8000-000000000001", Spec: &gateway.Service{},
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		// The loop does not run, so the default control plane never settles.
		loop := publish.New(publish.Options{Views: views, Publisher: snaps, Kinds: AllKinds(), Latest: db.Revision, Log: log})
		snaps.Announce(snapshot.Publication{Scope: publish.ControlPlaneScope(model.DefaultControlPlane), Revision: c.Revision + 1})
		insights, err := insight.Open(t.Context(), insight.Options{Store: memstore.NewStatus(), Log: log})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = insights.Close(context.Background()) }()
		known := nodes.New(nodes.Options{Insights: insights, Snapshots: snaps, Scope: nodeScope, Latest: db.Revision})
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		doc, err := progress{loop, snaps, known, db.Revision}.Wait(ctx, c.Revision, allSeen)
		if err != nil {
			t.Fatal(err)
		}
		if got := doc.(progressDocument); got.Published >= c.Revision {
			t.Errorf("revision %d is not settled, and %d is shown as published", c.Revision, got.Published)
		}
	})
}

// allSeen sees all meshes and control planes.
func allSeen(string, string) bool { return true }

// TestProgressNamesWhatIsSeen: what belongs to others is counted, and not named.
func TestProgressNamesWhatIsSeen(t *testing.T) {
	d := progressDocument{Failed: []failedDocument{{ControlPlane: "default", Resource: "plan", Error: "own"}, {Mesh: "m", Dataplane: "web", Resource: "plan", Error: "secret", Kept: true}}}
	d.Proxies.Waiting = []string{"cp/default/gw", "m.web"}
	d.Proxies.Rejected = []snapshot.Rejection{{Name: "m.api", Error: "secret"}, {Name: "cp/default/gw", Error: "own"}}
	d.Proxies.Away = awayDocument{7, []string{"cp/other/gw", "cp/default/gw"}}
	d.conceal(func(_, controlPlane string) bool { return controlPlane == "default" })
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	const no = `"(not shown to you)"`
	want := `{"revision":0,"published":0,"proxies":{"acknowledged":0,"waiting":["cp/default/gw",` + no + `],` +
		`"rejected":[{"name":` + no + `,"error":` + no + `},{"name":"cp/default/gw","error":"own"}],"away":{"count":7,"names":[` + no + `,"cp/default/gw"]}},` +
		`"failed":[{"controlPlane":"default","resource":"plan","error":"own","lastGoodKept":false},{"resource":` + no + `,"error":` + no + `,"lastGoodKept":true}]}`
	if string(text) != want {
		t.Errorf("%s\nwant %s", text, want)
	}
}
