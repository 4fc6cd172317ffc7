package sidecar_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const meshName = "demo"

// world is a mesh in a real store, with a planner that follows it.
type world struct {
	t       fataler
	db      store.Store
	planner *sidecar.Planner
	scope   *view.Scope[*view.Mesh]
	changes *view.Subscription[*view.Mesh]
	wake    chan struct{}
	// policies are those that the planner applies.
	policies []*policy.Policy
	// kinds are those of destinations that it knows beside the mesh's own.
	kinds []sidecar.DestinationKind
	// outside is what policies see of beyond the mesh; mostly nothing.
	outside policy.Outside
	// together are the names of proxies, none by default, that settle holds against
	// plans of each alone.
	together func() []string
	// written is the revision of the last write.
	written uint64
}

// logged is what proxies log by default.
var logged = accesslog.Settings{Enabled: true}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

func newWorld(t testing.TB) *world { return newWorldOf(t, all.Policies()) }

// newWorldOf is a mesh with other policies than those that the program has, and with more
// kinds of destinations.
func newWorldOf(t testing.TB, policies []*policy.Policy, more ...sidecar.DestinationKind) *world {
	db := memstore.New()
	t.Cleanup(func() { _ = db.Close() })
	var kinds []*model.Kind
	for _, pol := range policies {
		kinds = append(kinds, pol.Kind)
	}
	for _, k := range more {
		kinds = append(kinds, k.Kind())
	}
	kinds = append(kinds, sidecar.LocatingKinds()...)
	views := view.New(db, kinds, slog.New(slog.DiscardHandler))
	t.Cleanup(views.Close)
	w := &world{t: t, db: db, policies: policies, kinds: more, wake: make(chan struct{}, 1)}
	var err error
	if w.scope, err = views.Mesh(ctx, meshName); err != nil {
		t.Fatal(err)
	}
	w.changes = w.scope.Subscribe(w.wake)
	w.put(mesh.Meshes, "", meshName, &mesh.Mesh{})
	for _, d := range all.Defaults() {
		w.put(d.Kind, meshName, d.Prefix+meshName, d.Spec())
	}
	w.restart()
	return w
}

// restart makes a planner from nothing, as a restarted control plane does.
func (w *world) restart() {
	w.planner = sidecar.New(w.policies, w.outside, logged, w.take().State, w.kinds...)
}

// take waits until the view shows the last write and takes what changed.
func (w *world) take() view.Change[*view.Mesh] {
	w.t.Helper()
	late := time.After(patience)
	out := w.changes.Take()
	for out.State.Revision() < w.written {
		select {
		case <-w.wake:
		case <-late:
			w.t.Fatalf("the view shows revision %d and not %d", out.State.Revision(), w.written)
		}
		more := w.changes.Take()
		out.State, out.Keys, out.All = more.State, append(out.Keys, more.Keys...), out.All || more.All
	}
	return out
}

func (w *world) state() *view.Mesh {
	w.t.Helper()
	var m *view.Mesh
	err := w.db.View(ctx, func(r store.Reader) (err error) {
		m, err = view.LoadMesh(meshName, all.Kinds(), r)
		return err
	})
	if err != nil {
		w.t.Fatalf("load the mesh: %v", err)
	}
	return m
}

func (w *world) put(k *model.Kind, scope, name string, spec any) {
	w.t.Helper()
	commit, err := w.db.Update(ctx, model.Config, func(tx store.Tx) error {
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
	w.written = commit.Revision
}

func (w *world) drop(k *model.Kind, name string) {
	w.t.Helper()
	w.dropIn(meshName, k, name)
}

func (w *world) dropIn(scope string, k *model.Kind, name string) {
	w.t.Helper()
	commit, err := w.db.Update(ctx, model.Config, func(tx store.Tx) error { return tx.Delete(k, scope, name, 0) })
	if err != nil {
		w.t.Fatalf("delete %s %s: %v", k.Name, name, err)
	}
	w.written = commit.Revision
}

// settle tells the planner what changed, plans, and holds the outcome against a
// plan from nothing. It returns the names of the proxies with new sets.
func (w *world) settle() map[string]bool {
	w.t.Helper()
	change := w.take()
	w.planner.Update(change.State, change.Keys, change.All)
	changed := map[string]bool{}
	for name, set := range w.planner.Plan() {
		changed[name] = true
		if err := coherent(set, len(w.planner.Failures(name)) > 0); err != nil {
			w.t.Fatalf("the set of %s: %v", name, err)
		}
	}
	if err := w.planner.Check(); err != nil {
		w.t.Fatalf("the incremental plan differs: %v", err)
	}
	w.alone()
	return changed
}

// alone holds what proxies share against what each would have if it was the only one.
func (w *world) alone() {
	w.t.Helper()
	if w.together == nil {
		return
	}
	for _, name := range w.together() {
		kept := slices.ContainsFunc(w.planner.Failures(name), func(f plan.Failure) bool { return f.Kept })
		_, exists := w.planner.State().Dataplane(name)
		alone := w.planner.Alone(name)
		if kept || !exists || alone == nil { // it has older versions, or cannot begin
			continue
		}
		if err := plan.Differ(w.planner.Set(name), alone); err != nil {
			w.t.Fatalf("the plan of %s alone differs: %v", name, err)
		}
	}
}

// dataplane serves a service at an address and consumes others at ports from
// 10001 on.
func dataplane(address, service, protocol string, consumes ...string) *mesh.Dataplane {
	d := &mesh.Dataplane{Networking: &mesh.Networking{Address: address, Inbound: []mesh.Inbound{{
		Port: 8080, ServicePort: 9080, Tags: mesh.Tags{mesh.TagService: service, mesh.TagProtocol: protocol},
	}}}}
	for i, s := range consumes {
		d.Networking.Outbound = append(d.Networking.Outbound, mesh.Outbound{Port: uint32(10001 + i), Tags: mesh.Tags{mesh.TagService: s}})
	}
	return d
}

// mtls is a mesh whose builtin authority is in force.
func mtls(mode string) *mesh.Mesh {
	return &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca-1", Backends: []mesh.Authority{{Name: "ca-1", Type: mesh.AuthorityBuiltin, Mode: mode}}}}
}

func trust(issuer string) *mesh.Trust {
	return &mesh.Trust{Backend: "ca-1", Issuer: issuer, Roots: []byte("-----BEGIN CERTIFICATE-----\n" + issuer)}
}

func connection(source, destination string) mesh.Connection {
	return mesh.Connection{
		Sources:      []mesh.Selector{{Match: mesh.Tags{mesh.TagService: source}}},
		Destinations: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: destination}}},
	}
}

func breaker(source, destination string, connections uint32) *circuitbreaker.Spec {
	return &circuitbreaker.Spec{Connection: connection(source, destination), Conf: &circuitbreaker.Conf{Thresholds: &circuitbreaker.Thresholds{MaxConnections: &connections}}}
}

func permission(source, destination string) *trafficpermission.Spec {
	return &trafficpermission.Spec{Connection: connection(source, destination)}
}

func split(destination string, versions ...uint32) *trafficroute.Spec {
	s := &trafficroute.Spec{Connection: connection(mesh.AnyValue, destination), Conf: &trafficroute.Conf{}}
	for i, weight := range versions {
		s.Conf.Split = append(s.Conf.Split, trafficroute.Split{
			Weight: &weight, Destination: mesh.Tags{mesh.TagService: destination, "version": fmt.Sprintf("v%d", i+1)},
		})
	}
	return s
}
