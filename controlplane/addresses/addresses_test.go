package addresses_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/addresses"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const demo = "demo"

// direct writes without a gate.
type direct struct {
	store.Store
	fail func() error
}

// Write implements addresses.Writer.
func (d direct) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if d.fail != nil {
		if err := d.fail(); err != nil {
			return store.Commit{}, err
		}
	}
	return d.Update(ctx, class, fn)
}

// world is a mesh in a store.
type world struct {
	t   interface{ Fatalf(string, ...any) }
	db  store.Store
	now time.Time
}

func (w *world) update(fn func(store.Tx) error) {
	if _, err := w.db.Update(context.Background(), model.Config, fn); err != nil {
		w.t.Fatalf("write: %v", err)
	}
}

func (w *world) put(k *model.Kind, scope, name string, spec any) {
	w.update(func(tx store.Tx) error {
		r := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
		_, err := tx.Create(r)
		if fault.Is(err, fault.Exists) {
			_, err = tx.Update(r, 0)
		}
		return err
	})
}

func (w *world) serve(service string) {
	w.put(mesh.Dataplanes, demo, "d-"+service, &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: service}}}}})
}

func (w *world) leave(service string) {
	w.update(func(tx store.Tx) error {
		err := tx.Delete(mesh.Dataplanes, demo, "d-"+service, 0)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	})
}

// state reads the mesh.
func (w *world) state() (m *view.Mesh) {
	err := w.db.View(context.Background(), func(r store.Reader) (err error) {
		m, err = view.LoadMesh(demo, nil, r)
		return err
	})
	if err != nil {
		w.t.Fatalf("read: %v", err)
	}
	return m
}

// stored returns the addresses of all names.
func (w *world) stored() map[string]string {
	out := map[string]string{}
	for host, a := range w.state().Addresses() {
		out[host] = a.Spec.Address
	}
	return out
}

// many stores 1,030 addresses of names that nothing has, which is more than are kept.
func (w *world) many() {
	w.update(func(tx store.Tx) error {
		for i := range 1030 {
			host := fmt.Sprintf("old-%d.mesh", i)
			if _, err := tx.Create(&model.Resource{Kind: mesh.Addresses, Scope: demo, Name: host, Spec: &mesh.Address{Address: mesh.FirstAddress(host).String()}}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) keeper() *addresses.Keeper {
	return addresses.New(direct{Store: w.db}, func() time.Time { return w.now }, slog.New(slog.DiscardHandler))
}

func (w *world) keep(k *addresses.Keeper, m *view.Mesh) {
	if err := k.Keep(context.Background(), m); err != nil {
		w.t.Fatalf("keep: %v", err)
	}
}

func begin(t interface{ Fatalf(string, ...any) }) (w *world, end func()) {
	w = &world{t: t, db: memstore.New(), now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.put(mesh.Meshes, "", demo, &mesh.Mesh{})
	return w, func() { _ = w.db.Close() }
}

// colliding are services whose host names lead to one first address.
var colliding = []string{"svc-9166", "svc-29862"}

func TestCollidingCollide(t *testing.T) {
	if a, b := mesh.FirstAddress(colliding[0]+".mesh"), mesh.FirstAddress(colliding[1]+".mesh"); a != b {
		t.Fatalf("the two have %s and %s: look for others", a, b)
	}
}

// TestAddressesStay: in whatever order names come and go, with two keepers of which each may look
// at an old state, and with restarts: a name that had an address has that address, and no two
// names have one.
func TestAddressesStay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w, end := begin(rt)
		defer end()
		keepers := []*addresses.Keeper{w.keeper(), w.keeper()}
		seen := []*view.Mesh{w.state(), w.state()}
		ever := map[string]string{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			service := rapid.SampledFrom(append([]string{"a", "b", "c_d", "A"}, colliding...)).Draw(rt, "service")
			i := rapid.IntRange(0, 1).Draw(rt, "keeper")
			switch rapid.SampledFrom([]string{"serve", "leave", "look", "keep", "keep", "restart", "rule", "later"}).Draw(rt, "step") {
			case "serve":
				w.serve(service)
			case "leave":
				w.leave(service)
			case "rule":
				host := rapid.SampledFrom([]string{"{{.s}}.mesh", "{{.s}}.shop", "one.shop"}).Draw(rt, "host")
				w.put(mesh.VirtualOutbounds, demo, rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "rule"), &mesh.VirtualOutbound{
					Selectors: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "*"}}},
					Conf:      &mesh.VirtualOutboundConf{Host: host, Port: "81", Parameters: []mesh.NameParameter{{Name: "s", TagKey: mesh.TagService}}},
				})
			case "look":
				seen[i] = w.state()
			case "keep":
				w.keep(keepers[i], seen[i])
			case "restart":
				keepers[i] = w.keeper()
			case "later":
				w.now = w.now.Add(48 * time.Hour)
			}
			by := map[string]string{}
			for host, a := range w.stored() {
				if was := ever[host]; was != "" && was != a {
					rt.Fatalf("%s had %s and has %s", host, was, a)
				}
				if other := by[a]; other != "" {
					rt.Fatalf("%s and %s both have %s", host, other, a)
				}
				ever[host], by[a] = a, host
			}
			for host := range ever {
				if _, ok := w.stored()[host]; !ok {
					rt.Fatalf("%s has no address any more", host)
				}
			}
		}
		m := w.state()
		w.keep(keepers[0], m)
		at := w.db.Revision()
		w.keep(keepers[1], w.state())
		if w.db.Revision() != at {
			rt.Fatalf("what is stored is written again")
		}
		for service := range m.Destinations() {
			if a := w.stored()[mesh.ServiceHost(service)]; a == "" {
				rt.Fatalf("%s has no address", service)
			}
		}
	})
}

// TestTheFirstKeepsItsAddress: of two names with one first address, the one that came first keeps
// it, whatever the order of their names is, and while it is gone.
func TestTheFirstKeepsItsAddress(t *testing.T) {
	w, end := begin(t)
	defer end()
	k := w.keeper()
	later, first := colliding[1], colliding[0]
	if later > first {
		later, first = first, later
	}
	a := mesh.FirstAddress(first + ".mesh")
	w.serve(first)
	w.keep(k, w.state())
	w.leave(first)
	w.keep(k, w.state())
	w.serve(later)
	w.keep(k, w.state())
	w.serve(first)
	w.keep(k, w.state())
	got := w.stored()
	if got[first+".mesh"] != a.String() || got[later+".mesh"] != mesh.NextAddress(a).String() {
		t.Errorf("the first has %s, the other %s", got[first+".mesh"], got[later+".mesh"])
	}
}

// TestUnusedAreKept: names that nothing has keep their addresses; of very many, those that nothing
// has for a day do not. One that comes back is as it was.
func TestUnusedAreKept(t *testing.T) {
	w, end := begin(t)
	defer end()
	k := w.keeper()
	w.serve("web")
	w.many()
	count := func(want int) {
		t.Helper()
		if got := len(w.stored()); got != want {
			t.Errorf("%d names have addresses, not %d", got, want)
		}
	}
	w.keep(k, w.state())
	count(1031)
	w.now = w.now.Add(23 * time.Hour)
	w.serve("old-7")
	w.keep(k, w.state())
	count(1031)
	w.now = w.now.Add(2 * time.Hour)
	w.keep(k, w.state())
	count(2)
	if a := w.stored()["old-7.mesh"]; a != mesh.FirstAddress("old-7.mesh").String() {
		t.Errorf("what came back has %q", a)
	}
}

// TestOldStatesForgetNothing: a keeper that looks at an old state, in which a name had long been
// gone, leaves the row of a name that another keeper has found back.
func TestOldStatesForgetNothing(t *testing.T) {
	w, end := begin(t)
	defer end()
	w.many()
	w.keep(w.keeper(), w.state()) // all are marked
	w.now = w.now.Add(25 * time.Hour)
	old := w.state()
	w.serve("old-7")
	w.update(func(tx store.Tx) error { // another control plane takes the mark away, and nothing else
		res, err := tx.Get(mesh.Addresses, demo, "old-7.mesh")
		if err != nil {
			return err
		}
		back := *res.Spec.(*mesh.Address)
		back.Unused = time.Time{}
		_, err = tx.Update(&model.Resource{Kind: mesh.Addresses, Scope: demo, Name: "old-7.mesh", Spec: &back}, res.Version)
		return err
	})
	w.keep(w.keeper(), old)
	if _, kept := w.stored()["old-7.mesh"]; !kept {
		t.Error("the row of a name that had come back is gone")
	}
}

// TestOfADeletedMesh: nothing is written into a mesh that does not exist any more.
func TestOfADeletedMesh(t *testing.T) {
	w, end := begin(t)
	defer end()
	w.serve("web")
	m := w.state()
	w.update(func(tx store.Tx) error { return tx.Delete(mesh.Meshes, "", demo, 0) })
	w.keep(w.keeper(), m)
	if got := slices.Collect(maps.Keys(w.stored())); len(got) > 0 {
		t.Errorf("stored for nobody: %v", got)
	}
}

// TestFailuresAreTriedAgain: a store that fails keeps names without addresses only until it works.
func TestFailuresAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, end := begin(t)
		defer end()
		var broken atomic.Bool
		broken.Store(true)
		k := addresses.New(direct{w.db, func() error {
			if broken.Load() {
				return errors.New("the disk is full")
			}
			return nil
		}}, time.Now, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		w.serve("web")
		k.Show(w.state())
		synctest.Wait()
		if len(w.stored()) > 0 {
			t.Error("a broken store has addresses")
		}
		broken.Store(false)
		time.Sleep(time.Minute) // of the bubble's clock
		synctest.Wait()
		if w.stored()["web.mesh"] == "" {
			t.Error("it was not tried again")
		}
		stop()
		<-done
	})
}
