package crossings_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/crossings"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

var ctx = context.Background()

type world struct {
	*testing.T

	db store.Store
}

func newWorld(t *testing.T) *world {
	db := memstore.New()
	t.Cleanup(func() { _ = db.Close() })
	return &world{t, db}
}

// do makes a transaction, and what follows from it. It returns the names of the crossings that it
// changes.
func (w *world) do(fn func(store.Tx) error) (changed []string) {
	w.Helper()
	_, err := w.db.Update(ctx, model.Config, func(tx store.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		n := len(tx.Changes())
		if err := crossings.Follow(tx); err != nil {
			return err
		}
		changed = nil
		for _, c := range tx.Changes()[n:] {
			res := c.New
			if res == nil {
				res = c.Old
			}
			changed = append(changed, string(c.Op)+" "+res.Name)
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return changed
}

func (w *world) put(k *model.Kind, scope, name string, spec any) []string {
	w.Helper()
	return w.do(func(tx store.Tx) error {
		res := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
		if _, err := tx.Get(k, scope, name); err == nil {
			_, err = tx.Update(res, 0)
			return err
		}
		_, err := tx.Create(res)
		return err
	})
}

func (w *world) drop(k *model.Kind, scope, name string) []string {
	w.Helper()
	return w.do(func(tx store.Tx) error { return tx.Delete(k, scope, name, 0) })
}

// secured is a mesh with mutual TLS and roots.
func (w *world) secured(name string) {
	w.Helper()
	w.put(mesh.Meshes, "", name, &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca-1", Backends: []mesh.Authority{{Name: "ca-1", Type: mesh.AuthorityBuiltin}}}})
	w.put(mesh.Trusts, name, name, &mesh.Trust{Roots: []byte(name + "'s roots")})
}

func (w *world) stored() map[string]*mesh.Crossing {
	w.Helper()
	out := map[string]*mesh.Crossing{}
	err := w.db.View(ctx, func(r store.Reader) error {
		list, err := r.List(mesh.Crossings, store.Query{})
		for _, res := range list {
			out[res.Name] = res.Spec.(*mesh.Crossing)
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return out
}

func (w *world) hold(what string, got, want []string) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// gateway is a MeshGateway of a service with listeners.
func gateway(service string, listeners ...mesh.GatewayListener) *mesh.MeshGateway {
	return &mesh.MeshGateway{
		Selectors: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: service}}}, Tags: mesh.Tags{"team": "a"}, Conf: &mesh.MeshGatewayConf{Listeners: listeners},
	}
}

func entrance(address, service string) *mesh.Dataplane {
	return &mesh.Dataplane{Networking: &mesh.Networking{Address: address, Gateway: &mesh.Gateway{Type: mesh.GatewayBuiltin, Tags: mesh.Tags{mesh.TagService: service, "version": "v1"}}}}
}

func across(port uint32, host string) mesh.GatewayListener {
	return mesh.GatewayListener{Port: port, Protocol: mesh.ListenerHTTP, Hostname: host, CrossMesh: true, Tags: mesh.Tags{"port": "x"}}
}

// TestCrossings: what others know of a mesh follows from what it has, in the same transaction, and
// is nothing but its roots and its listeners with crossMesh.
func TestCrossings(t *testing.T) {
	w := newWorld(t)
	w.secured("a")
	w.secured("b")
	w.put(mesh.Meshes, "", "clear", &mesh.Mesh{})
	w.hold("a gateway of the mesh alone", w.put(mesh.MeshGateways, "b", "own", gateway("own", mesh.GatewayListener{Port: 1, Protocol: mesh.ListenerHTTP})), nil)
	w.hold("one without mutual TLS", w.put(mesh.MeshGateways, "clear", "door", gateway("door", across(80, ""))), nil)
	w.hold("the first listener", w.put(mesh.MeshGateways, "b", "door", gateway("door", across(80, "door.example"), across(80, "*.example"), mesh.GatewayListener{Port: 81, Protocol: mesh.ListenerHTTP})),
		[]string{"created a", "created b"})
	w.hold("a gateway", w.put(mesh.Dataplanes, "b", "door-1", entrance("10.0.0.1", "door")), []string{"updated b"})
	w.hold("another gateway of the mesh", w.put(mesh.Dataplanes, "b", "own-1", entrance("10.0.0.2", "own")), nil)
	w.hold("no gateway", w.put(mesh.Dataplanes, "b", "web-1", &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.3"}}), nil)
	want := map[string]*mesh.Crossing{
		"a": {Mesh: "a", Roots: []byte("a's roots")},
		"b": {Mesh: "b", Roots: []byte("b's roots"), Listeners: []mesh.CrossListener{{
			Service: "door", Port: 80, Hosts: []string{"door.example"},
			Endpoints: []mesh.CrossEndpoint{{Address: "10.0.0.1", Tags: mesh.Tags{"team": "a", "version": "v1", "port": "x"}}},
		}}},
	}
	if diff := cmp.Diff(want, w.stored()); diff != "" {
		t.Errorf("crossings (-want +got):\n%s", diff)
	}
	w.hold("a step of a rotation", w.put(mesh.Trusts, "a", "a", &mesh.Trust{Roots: []byte("more"), Withdrawn: 1}), []string{"updated a"})
	if got := w.stored()["a"]; string(got.Roots) != "more" || got.Withdrawn != 1 {
		t.Errorf("the roots are %+v", got)
	}
	w.hold("a gateway that goes", w.drop(mesh.Dataplanes, "b", "door-1"), []string{"updated b"})
	if got := w.stored()["b"].Listeners; len(got) != 1 || len(got[0].Endpoints) != 0 {
		t.Errorf("the listeners are %+v", got)
	}
	w.hold("the end of mutual TLS", w.put(mesh.Meshes, "", "a", &mesh.Mesh{}), []string{"deleted a"})
	w.hold("the last listener", w.drop(mesh.MeshGateways, "b", "door"), []string{"deleted b"})
}

// TestCrossingsOfDeletedMeshes: nobody is let in under the roots of a mesh that is gone.
func TestCrossingsOfDeletedMeshes(t *testing.T) {
	w := newWorld(t)
	w.secured("a")
	w.secured("b")
	w.put(mesh.MeshGateways, "b", "door", gateway("door", across(80, "door.example")))
	w.drop(mesh.Trusts, "a", "a")
	w.hold("the meshes", w.drop(mesh.Meshes, "", "a"), nil)
	if got := w.stored(); got["a"] != nil || got["b"] == nil {
		t.Errorf("crossings: %v", got)
	}
	w.secured("c")
	if w.stored()["c"] == nil {
		t.Error("a mesh that comes later is not known")
	}
}

// TestTheFirstMeshKeepsItsHost: who claims a host that another mesh has gets it when that one gives it
// up, whatever the names of meshes and services.
func TestTheFirstMeshKeepsItsHost(t *testing.T) {
	for _, names := range [][2]string{{"office", "evil"}, {"evil", "office"}} {
		first, second := names[0], names[1]
		w := newWorld(t)
		w.secured(first)
		w.secured(second)
		offered := func(when string, want map[string][]string) {
			t.Helper()
			got := map[string][]string{}
			for name, c := range w.stored() {
				for _, n := range c.Offered() {
					got[name] = append(got[name], n.Host)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s before %s: %s (-want +got):\n%s", first, second, when, diff)
			}
		}
		w.put(mesh.MeshGateways, first, "door", gateway("door", across(80, "door.example")))
		w.put(mesh.MeshGateways, second, "a", gateway("a", across(80, "door.example"), across(81, "door.example"), across(80, "a.example")))
		offered("a second claim, at two ports", map[string][]string{first: {"door.example"}, second: {"a.example"}})
		if got := w.stored()[second].CrossHosts(); len(got) != 3 {
			t.Errorf("in its own mesh the gateway has the names %v", got)
		}
		w.put(mesh.Trusts, second, second, &mesh.Trust{Roots: []byte("more")})
		w.put(mesh.Trusts, first, first, &mesh.Trust{Roots: []byte("more")})
		offered("rotations", map[string][]string{first: {"door.example"}, second: {"a.example"}})
		w.hold("the holder goes", w.put(mesh.MeshGateways, first, "door", gateway("door", across(80, ""))), []string{"updated " + min(first, second), "updated " + max(first, second)})
		offered("the name is free", map[string][]string{second: {"a.example", "door.example", "door.example"}})
		w.put(mesh.MeshGateways, first, "door", gateway("door", across(80, "door.example")))
		offered("the former holder comes back", map[string][]string{second: {"a.example", "door.example", "door.example"}})
	}
}

// spoilt is a transaction in which some rows cannot be read until they are deleted.
type spoilt struct {
	store.Tx

	rows map[model.Key]bool
}

func (s spoilt) bad(res *model.Resource) error {
	bare := *res
	return store.Unreadable(&bare, 0, errors.New("decoding a row"))
}

func (s spoilt) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	res, err := s.Tx.Get(k, scope, name)
	if err == nil && s.rows[res.Key()] {
		return nil, s.bad(res)
	}
	return res, err
}

func (s spoilt) List(k *model.Kind, q store.Query) ([]*model.Resource, error) {
	list, err := s.Tx.List(k, q)
	for _, res := range list {
		if s.rows[res.Key()] {
			return nil, s.bad(res)
		}
	}
	return list, err
}

func (s spoilt) Delete(k *model.Kind, scope, name string, version uint64) error {
	delete(s.rows, model.Key{Kind: k.Name, Scope: scope, Name: name})
	return s.Tx.Delete(k, scope, name, version)
}

// Changes shows the old state of rows that could not be read as the store does.
func (s spoilt) Changes() []store.Change {
	out := slices.Clone(s.Tx.Changes())
	for i := range out {
		if old := out[i].Old; old != nil && out[i].New == nil && s.rows[old.Key()] {
			bare := *old
			bare.Spec = &store.Unread{}
			out[i].Old = &bare
		}
	}
	return out
}

// with makes a transaction in which some rows cannot be read.
func (w *world) with(rows []model.Key, fn func(store.Tx) error) {
	w.Helper()
	_, err := w.db.Update(ctx, model.Config, func(tx store.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		s := spoilt{tx, map[model.Key]bool{}}
		for _, key := range rows {
			s.rows[key] = true
		}
		return crossings.Follow(s)
	})
	if err != nil {
		w.Fatal(err)
	}
}

// TestCrossingsWithUnreadableRows: a row that cannot be read keeps nobody from writing. A crossing is
// made anew, and keeps its names; one of a mesh with an unreadable MeshGateway keeps its listeners and
// follows the roots; and whoever deletes a row that cannot be read changes what others know.
func TestCrossingsWithUnreadableRows(t *testing.T) {
	w := newWorld(t)
	w.secured("office")
	w.secured("evil")
	w.put(mesh.MeshGateways, "office", "door", gateway("door", across(80, "door.example")))
	w.put(mesh.Dataplanes, "office", "door-1", entrance("10.0.0.1", "door"))
	w.put(mesh.MeshGateways, "evil", "a", gateway("a", across(80, "door.example")))
	before := w.stored()
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(before, w.stored()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	touch := func(tx store.Tx) error {
		_, err := tx.Update(&model.Resource{Kind: mesh.Trusts, Scope: "evil", Name: "evil", Spec: &mesh.Trust{Roots: []byte("evil's roots")}}, 0)
		return err
	}
	w.with([]model.Key{{Kind: mesh.Crossings.Name, Name: "office"}}, touch)
	same("a crossing")
	w.with([]model.Key{{Kind: mesh.Crossings.Name, Name: "office"}, {Kind: mesh.Crossings.Name, Name: "evil"}}, touch)
	if got := w.stored(); len(got) != 2 {
		t.Errorf("of two unreadable crossings there are %v", got)
	}
	w.with([]model.Key{{Kind: mesh.MeshGateways.Name, Scope: "office", Name: "door"}}, func(tx store.Tx) error {
		_, err := tx.Update(&model.Resource{Kind: mesh.Trusts, Scope: "office", Name: "office", Spec: &mesh.Trust{Roots: []byte("more")}}, 0)
		return err
	})
	if got := w.stored()["office"]; string(got.Roots) != "more" || len(got.Listeners) != 1 {
		t.Errorf("a step of a rotation while a MeshGateway cannot be read: %+v", got)
	}
	for _, key := range []model.Key{{Kind: mesh.Dataplanes.Name, Scope: "office", Name: "door-1"}, {Kind: mesh.MeshGateways.Name, Scope: "office", Name: "door"}} {
		k := mesh.Dataplanes
		if key.Kind == mesh.MeshGateways.Name {
			k = mesh.MeshGateways
		}
		w.with([]model.Key{key}, func(tx store.Tx) error { return tx.Delete(k, key.Scope, key.Name, 0) })
		if ls := w.stored()["office"].Listeners; k == mesh.Dataplanes && len(ls[0].Endpoints) > 0 || k == mesh.MeshGateways && len(ls) > 0 {
			t.Errorf("%s %s was deleted, and others know %v", key.Kind, key.Name, ls)
		}
	}
}

// TestCrossingsAreBounded: what a mesh has beyond the bounds it has for itself, and says so.
func TestCrossingsAreBounded(t *testing.T) {
	w := newWorld(t)
	w.secured("a")
	w.secured("b")
	for i := range 3 {
		var ls []mesh.GatewayListener
		for port := range 200 {
			for host := range 2 {
				ls = append(ls, across(uint32(1+port), fmt.Sprintf("h%d-%d.example", host, port)))
			}
		}
		w.put(mesh.MeshGateways, "a", fmt.Sprintf("g%d", i), gateway(fmt.Sprintf("g%d", i), ls...))
		w.put(mesh.Dataplanes, "a", fmt.Sprintf("g%d", i), entrance("10.0.0.1", fmt.Sprintf("g%d", i)))
		if got := w.stored()["a"]; got.Full != (i > 0) || len(got.Listeners) != min(256, 200*(i+1)) {
			t.Errorf("%d gateways: full is %t with %d listeners", i+1, got.Full, len(got.Listeners))
		}
	}
	w.put(mesh.MeshGateways, "b", "door", gateway("door", across(80, "")))
	w.put(mesh.Trusts, "a", "a", &mesh.Trust{Roots: make([]byte, mesh.MostCrossRoots+1)})
	if got := w.stored()["a"]; got == nil || len(got.Roots) > 0 || len(got.Listeners) > 0 {
		t.Error("roots beyond the bound are known to others")
	}
}
