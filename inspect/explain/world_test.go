package explain_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/inspect"
	"github.com/meshgate/meshgate/inspect/explain"
	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/resource"
)

// world is a mesh in a store, as planned for all of its proxies.
type world struct {
	t       testing.TB
	name    string
	db      store.Store
	views   *view.Views
	planner *sidecar.Planner
	// joined are the dataplanes that have a proxy, and secured those whose proxies accept
	// mutual TLS.
	joined  []string
	secured []string
	// mode is that of mutual TLS, empty without.
	mode string
	// record is what is known of tokens, nil if nobody can say.
	record explain.Records
}

// kinds are those that a view of a mesh holds.
func kinds() []*model.Kind { return append(all.Kinds(), mesh.ExternalServices) }

func newWorld(t testing.TB, name string) *world {
	db := memstore.New()
	t.Cleanup(func() { _ = db.Close() })
	views := view.New(db, kinds(), slog.New(slog.DiscardHandler))
	t.Cleanup(views.Close)
	w := &world{t: t, name: name, db: db, views: views}
	w.put(mesh.Meshes, "", name, &mesh.Mesh{})
	for _, d := range all.Defaults() {
		w.put(d.Kind, name, d.Prefix+name, d.Spec())
	}
	return w
}

func (w *world) put(k *model.Kind, scope, name string, spec any) {
	w.t.Helper()
	_, err := w.db.Update(context.Background(), model.Config, func(tx store.Tx) error {
		r := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
		if _, err := tx.Get(k, scope, name); err == nil {
			_, err = tx.Update(r, 0)
			return err
		}
		_, err := tx.Create(r)
		return err
	})
	if err != nil {
		w.t.Fatalf("put %s %s: %v", k.Name, name, err)
	}
}

func (w *world) drop(k *model.Kind, name string) {
	w.t.Helper()
	if _, err := w.db.Update(context.Background(), model.Config, func(tx store.Tx) error { return tx.Delete(k, w.name, name, 0) }); err != nil {
		w.t.Fatalf("delete %s %s: %v", k.Name, name, err)
	}
}

// plan plans all proxies from nothing.
func (w *world) plan() {
	w.t.Helper()
	var m *view.Mesh
	err := w.db.View(context.Background(), func(r store.Reader) (err error) {
		m, err = view.LoadMesh(w.name, kinds(), r)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.planner = sidecar.New(all.Policies(), nil, accesslog.Settings{}, m)
	for _, name := range w.secured {
		w.planner.Secured(name, true)
	}
	for _, name := range w.joined {
		if !w.planner.Join(name) {
			w.t.Fatalf("%s does not join", name)
		}
	}
	w.planner.Plan()
}

// meshes explains by what was planned.
func (w *world) meshes() *explain.Meshes {
	return &explain.Meshes{
		Policies: &inspect.Policies{Views: w.views, Policies: all.Policies(), Latest: w.db.Revision, Turns: turns.New(inspect.Waiting)},
		Last: func(node string) *resource.Set {
			for _, name := range w.joined {
				if mesh.NodeID(w.name, name) == node {
					return w.planner.Set(name)
				}
			}
			return nil
		},
		Planned: func(context.Context, string) error { return nil },
		Record:  w.record,
	}
}

func (w *world) explain(q explain.Question) *explain.Explanation {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out *explain.Explanation
	if err := w.meshes().Explain(ctx, w.name, q, func(doc any) error {
		out = doc.(*explain.Explanation)
		return nil
	}); err != nil {
		w.t.Fatalf("explain %+v: %v", q, err)
	}
	return out
}

// under has the mesh use mutual TLS with a mode, and some roots.
func (w *world) under(mode string, roots []byte) {
	w.mode = mode
	w.put(mesh.Trusts, w.name, w.name, &mesh.Trust{Backend: "ca-1", Issuer: "root", Roots: roots})
	w.put(mesh.Meshes, "", w.name, &mesh.Mesh{MTLS: &mesh.MTLS{
		EnabledBackend: "ca-1", Backends: []mesh.Authority{{Name: "ca-1", Type: mesh.AuthorityBuiltin, Mode: mode}},
	}})
}

func service(name string) mesh.Tags { return mesh.Tags{mesh.TagService: name} }

func connection(source, destination string) mesh.Connection {
	return mesh.Connection{
		Sources: []mesh.Selector{{Match: service(source)}}, Destinations: []mesh.Selector{{Match: service(destination)}},
	}
}

func (w *world) String() string { return fmt.Sprintf("world %s", w.name) }
