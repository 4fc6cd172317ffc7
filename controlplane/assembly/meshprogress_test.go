package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/steady"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// ungated writes to a store without admission.
type ungated struct{ store.Store }

func (u ungated) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return u.Update(ctx, class, fn)
}

// rotating is a rotation of mesh m, and the progress of its proxies. It runs in a bubble.
type rotating struct {
	t  *testing.T
	cp *ControlPlane
	r  *meshca.Rotations
	// held is the revision that was told last to be held up.
	held atomic.Uint64
}

// rotate runs a test with rotations of mesh m, whose insights are stored in status.
func rotate(t *testing.T, status store.Status, dataplanes []string, f func(r *rotating)) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		defer func() { _ = db.Close() }()
		log := slog.New(slog.DiscardHandler)
		in, err := insight.Open(t.Context(), insight.Options{Store: status, Instance: "cp-1", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = in.Close(context.Background()) }()
		r := &rotating{t: t, cp: &ControlPlane{Log: log, store: db, snapshots: snapshot.New()}}
		r.cp.mesh.insights = in
		storetest.Place(t, db, mesh.Meshes, "", "m", &mesh.Mesh{MTLS: &mesh.MTLS{
			EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: mesh.AuthorityBuiltin}},
		}})
		for _, d := range dataplanes {
			storetest.Place(t, db, mesh.Dataplanes, "m", d, &mesh.Dataplane{})
			in.Expect("m." + d)
		}
		r.r = meshca.NewRotations(meshca.Options{
			Store: db, Writer: ungated{db}, Progress: meshProgress{r.cp}, Now: time.Now, Clock: steady.New(nil), Log: log,
			LeafLife: leafLife, Grace: rotationGrace, Silence: rotationSilence, Held: func(_ string, revision uint64) { r.held.Store(revision) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.r.Run(ctx) }()
		defer func() {
			cancel()
			<-ended
		}()
		f(r)
	})
}

// ask requests another root for the mesh.
func (r *rotating) ask() {
	r.t.Helper()
	cert, key, err := meshca.GenerateRoot("m", "ca", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	storetest.Place(r.t, r.cp.store, mesh.Secrets, "m", mesh.BuiltinCert("m", "ca"), &mesh.Secret{Data: cert})
	storetest.Place(r.t, r.cp.store, mesh.Secrets, "m", mesh.BuiltinKey("m", "ca"), &mesh.Secret{Data: key})
	r.r.Changed("m")
	synctest.Wait()
}

// publish publishes the newest revision. It changes the sets of the named proxies.
func (r *rotating) publish(dataplanes ...string) {
	revision := r.cp.store.Revision()
	set := resource.NewSet([]*resource.Resource{resource.New(resource.Cluster, "c", fmt.Append(nil, revision))}, nil)
	sets := map[string]*resource.Set{}
	for _, d := range dataplanes {
		sets["m."+d] = set
	}
	r.cp.snapshots.Announce(snapshot.Publication{Scope: publish.MeshScope("m"), Revision: revision, Sets: sets})
	synctest.Wait()
}

func (r *rotating) confirm(sub *snapshot.Subscription) {
	sub.Confirm(sub.State())
	synctest.Wait()
}

// beside asks for a rotation and has the first root confirmed by the proxy of the mesh, and by a node
// beside the mesh, which publish publishes. The caller closes both.
func (r *rotating) beside(node string, publish func()) (proxy, other *snapshot.Subscription) {
	r.publish("d")
	publish()
	r.ask()
	proxy, other = r.cp.snapshots.Subscribe("m.d"), r.cp.snapshots.Subscribe(node)
	r.publish("d")
	publish()
	r.confirm(proxy)
	r.confirm(other)
	return proxy, other
}

// expect compares the phase, and the number of roots that are trusted for old certificates.
func (r *rotating) expect(what, phase string, previous int) {
	r.t.Helper()
	err := r.cp.store.View(r.t.Context(), func(s store.Reader) error {
		res, err := s.Get(meshca.Authorities, "m", "m")
		if err != nil {
			return err
		}
		if a := res.Spec.(*meshca.Authority); a.Phase != phase || len(a.Previous) != previous {
			r.t.Errorf("%s: phase %q with %d old roots", what, a.Phase, len(a.Previous))
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestStreamThatBreaksConfirmsNothing: if a stream ends before its proxy has confirmed the
// new authority, the old root stays trusted. This holds even while the set of the proxy is
// still remembered.
func TestStreamThatBreaksConfirmsNothing(t *testing.T) {
	rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
		r.cp.mesh.insights.Issued("m", "d", "ca", time.Now().Add(meshca.WorkloadLife), time.Now())
		r.publish("d")
		r.ask()
		sub := r.cp.snapshots.Subscribe("m.d")
		r.publish("d")
		r.confirm(sub)
		r.ask()
		r.expect("asked", meshca.PhaseTrusting, 0)
		r.publish("d")
		r.confirm(sub)
		r.expect("it trusts the new root", meshca.PhaseSigning, 1)
		r.publish("d")
		sub.Close()
		synctest.Wait()
		r.expect("its stream is broken", meshca.PhaseSigning, 1)
		sub = r.cp.snapshots.Subscribe("m.d")
		defer sub.Close()
		r.r.ProxiesChanged("m")
		synctest.Wait()
		r.expect("it is back", meshca.PhaseSigning, 1)
		r.confirm(sub)
		r.expect("it has confirmed", "", 0)
	})
}

// TestDataplaneWithoutARecord: after a start, a Dataplane without a record may still hold an
// old certificate, so the old root stays. A Dataplane that was created since the start
// cannot.
func TestDataplaneWithoutARecord(t *testing.T) {
	for name, created := range map[string]bool{"there at the start": false, "created since": true} {
		t.Run(name, func(t *testing.T) {
			rotate(t, memstore.NewStatus(), []string{"here", "away"}, func(r *rotating) {
				if created {
					r.cp.mesh.insights.Forget("m", "away")
					r.cp.mesh.insights.Created("m", "away")
				}
				sub := r.cp.snapshots.Subscribe("m.here")
				defer sub.Close()
				step := func() {
					r.publish("here")
					r.confirm(sub)
				}
				r.ask()
				step()
				r.ask()
				step()
				time.Sleep(rotationGrace)
				synctest.Wait()
				step()
				if created {
					r.expect("everybody has confirmed who holds anything", "", 0)
					return
				}
				r.expect("one may hold a certificate", meshca.PhaseSigning, 1)
				time.Sleep(meshca.WorkloadLife)
				r.r.Changed("m")
				synctest.Wait()
				r.expect("its certificate has ended", "", 0)
			})
		})
	}
}
