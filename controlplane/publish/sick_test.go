package publish_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// spoilt is a store in which the rows of some scopes cannot be decoded.
type spoilt struct {
	store.Store
	mu     sync.Mutex
	scopes map[string]bool
}

var errRow = errors.New("the row cannot be decoded")

func (s *spoilt) spoil(scope string, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scopes[scope] = yes
}

func (s *spoilt) bad(scope string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scopes[scope]
}

func (s *spoilt) View(ctx context.Context, fn func(store.Reader) error) error {
	return s.Store.View(ctx, func(r store.Reader) error { return fn(spoiltReader{r, s}) })
}

type spoiltReader struct {
	store.Reader
	s *spoilt
}

func (r spoiltReader) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	if r.s.bad(scope) {
		return nil, errRow
	}
	return r.Reader.Get(k, scope, name)
}

func (r spoiltReader) List(k *model.Kind, q store.Query) ([]*model.Resource, error) {
	if r.s.bad(q.Scope) {
		return nil, errRow
	}
	return r.Reader.List(k, q)
}

// fleet is a loop with meshes and the real snapshot store.
type fleet struct {
	t     *testing.T
	db    *spoilt
	loop  *publish.Loop
	snaps *snapshot.Store
}

func startFleet(t *testing.T, meshes ...string) *fleet {
	t.Helper()
	return startFleetOn(t, &spoilt{Store: memstore.New(), scopes: map[string]bool{}}, meshes...)
}

func startFleetOn(t *testing.T, db *spoilt, meshes ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, db: db, snaps: snapshot.New()}
	f.loop = publish.Begin(t, db, publish.Options{
		Publisher: f.snaps, Parameters: parameters{}, Kinds: slices.Concat(mesh.Kinds(), all.Kinds(), gateway.Kinds()),
	}, nil)
	for _, name := range meshes {
		f.put(mesh.Meshes, "", name, &mesh.Mesh{})
		f.put(mesh.Dataplanes, name, "web-1", dataplane("127.0.0.1", "web", "http"))
	}
	return f
}

func (f *fleet) put(k *model.Kind, scope, name string, spec any) uint64 {
	f.t.Helper()
	return storetest.Put(f.t, f.db, k, scope, name, spec)
}

func (f *fleet) connect(node string) (release func()) {
	f.t.Helper()
	release, err := f.loop.Connect(bounded(f.t), node, false)
	if err != nil {
		f.t.Fatal(err)
	}
	return release
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestLeftOutIsNotKnownOfAStuckView: a view that cannot follow the store does not say what clashes
// now, and says so again with the revision that it has reached.
func TestLeftOutIsNotKnownOfAStuckView(t *testing.T) {
	f := startFleet(t)
	if _, _, known := f.loop.LeftOut("elsewhere"); known { // the default one may be followed already
		t.Error("it is known of one that nobody follows")
	}
	f.connect(nodeA)
	f.db.spoil(model.DefaultControlPlane, true)
	rev := f.put(gateway.Services, model.DefaultControlPlane, "6f1c9f7b-4b6e-4d0a-8f55-0d3a1b2c3d4e", &gateway.Service{Host: "h.test", Port: 80, Protocol: "http"})
	if err := f.loop.UpToDate(bounded(t), publish.ControlPlaneScope(model.DefaultControlPlane)); err == nil {
		t.Fatal("the view follows what cannot be decoded")
	}
	if _, shown, known := f.loop.LeftOut(model.DefaultControlPlane); known || shown >= rev {
		t.Errorf("of revision %d the view shows %d, known: %v", rev, shown, known)
	}
	f.db.spoil(model.DefaultControlPlane, false)
	if err := f.loop.Settled(bounded(t), rev); err != nil {
		t.Fatal(err)
	}
	if _, shown, known := f.loop.LeftOut(model.DefaultControlPlane); !known || shown < rev {
		t.Errorf("of revision %d the view shows %d, known: %v", rev, shown, known)
	}
}

// A scope whose rows cannot be decoded holds up only its own revisions. It does not hold up
// settled revisions or new connections of other scopes, not even connections of dataplanes
// that were stored a moment ago.
func TestUndecodableRowsHoldUpTheirScopeOnly(t *testing.T) {
	f := startFleet(t, "sick", "well")
	f.connect("sick.web-1")
	f.connect("well.web-1")
	f.db.spoil("sick", true)
	stuck := f.put(mesh.Dataplanes, "sick", "web-1", dataplane("127.0.0.2", "web", "http"))
	rev := f.put(mesh.Dataplanes, "well", "web-2", dataplane("127.0.0.3", "web", "http"))
	if err := f.loop.Settled(bounded(t), rev); err != nil {
		t.Fatalf("a revision of the well mesh: %v", err)
	}
	f.put(mesh.Dataplanes, "well", "web-3", dataplane("127.0.0.4", "web", "http"))
	f.connect("well.web-3")
	f.connect(nodeA)
	// A secret is not part of the configuration of proxies. A client that waits for it as
	// the last of several writes waits for the writes before it all the same.
	last := f.put(mesh.Secrets, "sick", "key", &mesh.Secret{Data: []byte("secret")})
	for _, rev := range []uint64{stuck, last} {
		short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer stop()
		if err := f.loop.Settled(short, rev); err == nil {
			t.Errorf("revision %d of the sick mesh is settled", rev)
		}
	}
	rev = f.put(mesh.GlobalSecrets, "", "key", &mesh.Secret{Data: []byte("secret")})
	if err := f.loop.Settled(bounded(t), rev); err != nil {
		t.Errorf("a revision of nobody: %v", err)
	}
	f.db.spoil("sick", false)
	if err := f.loop.Settled(bounded(t), stuck); err != nil {
		t.Errorf("the mended mesh: %v", err)
	}
}

// Everything that followed a mesh ends with it: plane, view and goroutines.
func TestDeletedMeshesLeaveNothing(t *testing.T) { synctest.Test(t, deletedMeshesLeaveNothing) }

func deletedMeshesLeaveNothing(t *testing.T) {
	f := startFleet(t)
	f.connect(nodeA)
	views := func() int {
		buf := make([]byte, 4<<20)
		stacks := string(buf[:runtime.Stack(buf, true)])
		return strings.Count(stacks, "controlplane/view.")
	}
	synctest.Wait()
	before, planes := views(), f.loop.Planes()
	for i := range 20 {
		name := "mesh-" + string(rune('a'+i))
		f.put(mesh.Meshes, "", name, &mesh.Mesh{})
		f.put(mesh.Dataplanes, name, "web-1", dataplane("127.0.0.1", "web", "http"))
		release := f.connect(name + ".web-1")
		c, err := f.db.Update(t.Context(), model.Config, func(tx store.Tx) error {
			if err := tx.Delete(mesh.Dataplanes, name, "web-1", 0); err != nil {
				return err
			}
			return tx.Delete(mesh.Meshes, "", name, 0)
		})
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			release() // for half of the meshes before the deletion is planned
		}
		if err := f.loop.Settled(bounded(t), c.Revision); err != nil {
			t.Fatal(err)
		}
		release()
	}
	if _, err := f.loop.Connect(bounded(t), "mesh-a.web-1", false); err == nil {
		t.Error("a proxy of a deleted mesh was let in")
	}
	synctest.Wait()
	if n := views(); n > before {
		t.Errorf("%d frames of views, %d before", n, before)
	}
	if got := f.loop.Planes(); !slices.Equal(got, planes) {
		t.Errorf("planes %v, %v before", got, planes)
	}
}

// No proxy is admitted before the state of its scope was read. So a proxy never sees an
// empty set before a full one, in particular after a restart of the control plane.
func TestNothingEmptyIsPublishedBeforeTheStateIsRead(t *testing.T) {
	synctest.Test(t, nothingEmptyIsPublished)
}

func nothingEmptyIsPublished(t *testing.T) {
	f := startFleetOn(t, &spoilt{Store: memstore.New(), scopes: map[string]bool{"shop": true, model.DefaultControlPlane: true}}, "shop")
	for _, node := range []string{"shop.web-1", nodeA} {
		if _, err := f.loop.Connect(bounded(t), node, false); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", node, err)
		}
		if f.snaps.Get(node) != nil {
			t.Errorf("%s has a set", node)
		}
	}
	f.db.spoil("shop", false)
	f.db.spoil(model.DefaultControlPlane, false)
	time.Sleep(time.Minute) // virtual; a view that fails tries again every five seconds
	for _, node := range []string{"shop.web-1", nodeA} {
		f.connect(node)
		if set := f.snaps.Get(node); set == nil || set.Len(resource.Listener) == 0 {
			t.Errorf("%s has %v", node, set)
		}
	}
}

// 5,000 proxies that connect at once cost one class: what they share is made once, and no
// proxy waits for another.
func TestFiveThousandProxiesAtOnce(t *testing.T) {
	const proxies = 5000
	f := startFleet(t)
	f.put(mesh.Meshes, "", "shop", &mesh.Mesh{})
	for _, d := range all.Defaults() {
		f.put(d.Kind, "shop", d.Prefix+"shop", d.Spec())
	}
	_, err := f.db.Update(t.Context(), model.Config, func(tx store.Tx) error {
		for i := range proxies {
			d := dataplane(fmt.Sprintf("127.1.%d.%d", i/250, i%250+1), "web", "http", "web", "api")
			if _, err := tx.Create(&model.Resource{Kind: mesh.Dataplanes, Scope: "shop", Name: fmt.Sprintf("web-%d", i), Spec: d}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	errs := make(chan error, proxies)
	for i := range proxies {
		go func() {
			_, err := f.loop.Connect(ctx, fmt.Sprintf("shop.web-%d", i), false)
			errs <- err
		}()
	}
	for range proxies {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	first := f.snaps.Get("shop.web-0")
	for i := range proxies {
		set := f.snaps.Get(fmt.Sprintf("shop.web-%d", i))
		for _, url := range []resource.TypeURL{resource.Endpoint, resource.Route} {
			if set.Table(url) == nil || set.Table(url) != first.Table(url) {
				t.Fatalf("proxy %d does not share its %s", i, url)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := int64(after.HeapAlloc-before.HeapAlloc) / proxies; each > 50<<10 {
		t.Errorf("%d bytes for each proxy", each)
	}
}

// TestWritesToWhatCannotBeReadAreForetold: a mesh whose rows cannot be read does not keep a write
// from being tried, and what would mend it is foretold.
func TestWritesToWhatCannotBeReadAreForetold(t *testing.T) {
	f := startFleet(t, "sick", "well")
	f.connect("sick.web-1")
	f.connect("well.web-1")
	f.db.spoil("sick", true)
	stuck := f.put(mesh.Dataplanes, "sick", "web-1", dataplane("127.0.0.2", "web", "http"))
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := f.loop.Settled(short, stuck); err == nil {
		t.Fatal("the sick mesh is settled")
	}
	for name, mends := range map[string]bool{"a write that mends nothing": false, "a write that mends": true} {
		var im *publish.Imagination
		var late []string
		_, err := f.db.Update(t.Context(), model.Config, func(tx store.Tx) error {
			moved := &model.Resource{Kind: mesh.Dataplanes, Scope: "sick", Name: "web-1", Spec: dataplane("127.0.0.9", "web", "http")}
			if _, err := tx.Update(moved, 0); err != nil {
				return err
			}
			d := view.DraftOf(tx)
			if !mends {
				d.Reader = spoiltReader{tx, f.db}
			}
			im, late = f.loop.Imagine(d, f.loop.ReadBase(d, nil))
			return errUndone
		})
		if !errors.Is(err, errUndone) || len(late) > 0 {
			t.Fatalf("%s: %v; waits for %v", name, err, late)
		}
		seen, err := f.loop.Foresee(bounded(t), im, 10)
		if err != nil || len(seen) != 1 {
			t.Fatalf("%s: %v, %d scopes", name, err, len(seen))
		}
		if changed := len(seen[0].Fates) > 0; changed != mends {
			t.Errorf("%s: fates are %+v, failures %+v", name, seen[0].Fates, seen[0].Failures)
		}
		if told := slices.ContainsFunc(seen[0].Failures, func(x publish.ForeseenFailure) bool { return errors.Is(x.Err, errRow) }); told == mends {
			t.Errorf("%s: failures are %+v", name, seen[0].Failures)
		}
	}
}
